"""Of ./run bench python, the rows of datasets in Python: what is compared with what, and what is asked for."""

from engine.programs import CPUS, ENVIRONMENT, ONE_THREAD, PEERS, capture, execute_json
from engine.suite import Run
from engine.tables import matrix
from engine.verdicts import Target, compared, median, ratio
from suites import feed

PROGRAM = PEERS / "python" / "python_datasets.py"
PEERS_HERE = (*feed.LOADERS, "torchdata")
# Samples per second. Copies by one process, with so many samples in a batch: to PyTorch's loader. A transform by so
# many processes: to those alone.
COPIES = [feed.Row(f"copies_{batch}", 4, alone=True, quick=batch == 27) for batch in (1, 27, 256)]
TRANSFORM = [feed.Row(f"transform_{processes}", 0.95, alone=True, quick=processes == CPUS)
             for processes in sorted({1, *(n for n in (2, 4, 8) if n < CPUS), CPUS})]
RATES = [*COPIES, *TRANSFORM]
BATCHES = {**{row.problem: int(row.problem.split("_")[1]) for row in COPIES}, **{row.problem: 8 for row in TRANSFORM}}
OURS = ("leat samples", "leat prefetcher")  # of those that follow: a loader and its way
ALONE, BESIDE = "alone processes", 1.1  # p99 of a step of training, at most so many times that beside them
TRAINING = (ALONE, *OURS, "torch samples")
# Of the first batch: whose processes begin afresh, and what a second loader is compared with.
AFRESH, FORK = ("torch forkserver", "spdl forkserver", "grain batches"), "torch fork"
START, PROCESSES = (*OURS, *AFRESH, FORK, "spdl fork"), 4
ROWS = (*(row.problem for row in RATES), "training", "start")


def sections(bench, python, folder, epochs):
    """`folder`: for the data, which is made here."""
    options, here = bench.options, ("leat", "alone", *bench.peers)
    rates = [row for row in RATES if row.problem in bench.rows
             and (row.quick or not options.quick or options.only is not None)]
    names = [name for name in ("training", "start", "memory") if name in bench.rows]
    if rates or names:
        capture([python, PROGRAM, "make", folder], env=ENVIRONMENT)
    if rates:
        programs = [feed.Loader(name, python, folder, [PROGRAM, name]) for name in ("leat", "alone")]
        programs += feed.loaders_of(bench, python, folder, PEERS_HERE, PROGRAM)
        bench.facts["packages of datasets in Python"] = feed.packages(programs)
        yield feed.rounds_of(bench, rates, programs)
    quick = options.quick
    for name, ways, much in (("training", TRAINING, 100 if quick else 2000), ("start", START, PROCESSES),
                             ("memory", OURS, 10 if quick else epochs)):
        runs = [run(name, *way.split(" "), much, python, folder, options.limit)
                for way in ways if way.split(" ")[0] in here]
        if name in names:
            yield lambda turn, runs=runs: [runs]


def run(name, loader, way, much, python, folder, limit):
    return Run(f"{loader} {way}", name, lambda: {f"{name}/{loader} {way}": execute_json(
        [python, PROGRAM, loader, name, way, much, folder], limit, env=ONE_THREAD)})


def of_rate(row, of):
    ours, how = feed.best_of(of, "leat")
    others = [("PyTorch's loader", row.ratio, *feed.best_of(of, "torch"))] if row.problem.startswith("copies") else [
        ("the best peer", 1, *feed.best_peer(of, but=("leat", "alone"))),
        ("as many processes alone", row.ratio, *feed.best_of(of, "alone"))]
    for what, bound, theirs, who in others:
        yield Target(f"{row.problem}, to {what}", bound, ratio(ours, theirs), True, "x",
                     theirs is not None or ours is None, f"{how} against {who}" if ours and who else "")


def targets(values):
    for row in RATES:
        if row.problem in values:
            yield from of_rate(row, values[row.problem])
    for ours in OURS:
        if f"training/{ours}" in values:
            p99, least = (median(values, f"training/{way}", "p99_us") for way in (ours, ALONE))
            yield compared(f"a step beside the readers of {ours}, p99, to that beside other processes", BESIDE,
                           ratio(p99, least), unit="x")
        if f"start/{ours}" in values:
            first = {way: median(values, f"start/{way}", "first_ms") for way in (ours, *AFRESH)}
            second = {way: median(values, f"start/{way}", "second_ms") for way in (ours, FORK)}
            best = min(filter(first.get, AFRESH), key=first.get, default=None)
            yield compared(f"the first batch of {ours}, to the best peer that starts afresh", 1,
                           ratio(first[ours], first.get(best)), unit="x", note=best or "")
            yield compared(f"the first batch of a second {ours}, to PyTorch's by fork()", 1,
                           ratio(second[ours], second[FORK]), unit="x")


def tables(values, out):
    for what, title in (("training", "a step of training beside the transform, us"),
                        ("start", f"the first batch of a loader with {PROCESSES} processes, ms")):
        rows = [row for row in values if row.startswith(f"{what}/")]
        names = [name for name in (values[rows[0]] if rows else ()) if name.endswith(("_us", "_ms"))]
        matrix(out, [title], [([row.split("/")[1]], row, "") for row in rows], values, names)
