"""Of ./run bench python, the rows of tables: leat.Columns beside Hugging Face's own way into PyTorch's loader."""

from engine.programs import ONE_THREAD, PEERS, execute_json
from engine.suite import Run
from engine.tables import matrix
from engine.verdicts import compared, median, ratio

PROGRAM = PEERS / "python" / "columns.py"
ROWS = ("columns",)
OURS, TORCH = "leat prefetcher", tuple(f"torch processes_{n}" for n in (0, 1, 2))
SIZE, QUICK_SIZE = 5_000_000, 200_000


def sections(bench, python):
    quick = bench.options.quick
    size, seconds = (QUICK_SIZE, 0.2) if quick else (SIZE, 2)
    ways = [way for way in (OURS, *TORCH[:1 if quick else None]) if way.split()[0] in ("leat", *bench.peers)]

    def run(way):
        words = [way.split()[0], way.split("_")[1] if "_" in way else 0, size, seconds]
        return Run(way, "columns", lambda: {f"columns/{way}": execute_json(
            [python, PROGRAM, *words], bench.options.limit, env=ONE_THREAD)})

    if "columns" in bench.rows:
        yield lambda turn: [[run(way) for way in ways]]


def targets(values):
    ours = f"columns/{OURS}"
    if ours not in values:
        return
    theirs = max((median(values, f"columns/{way}", "samples_per_s") or 0 for way in TORCH), default=0)
    yield compared("random batches of 8 columns, to with_format(\"numpy\") in PyTorch's loader", 3,
                   ratio(median(values, ours, "samples_per_s"), theirs or None), True, "x")
    yield compared("opening a table of 8 columns", 5, median(values, ours, "open_ms"), unit="ms")
    yield compared("memory for that", 1, median(values, ours, "open_mb"), unit="MB")


def tables(values, out):
    rows = [row for row in values if row.startswith("columns/")]
    matrix(out, ["batches of 1024 rows of 8 columns"], [([row.split("/")[1]], row, "") for row in rows], values)
