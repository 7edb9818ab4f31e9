"""./run bench python: Leat's Python package beside the loop of C++ and the loaders of ./run bench feed.
bench/peers/python/README.md has the protocol."""

import hashlib
import pathlib
import shutil
import statistics
import tempfile

from engine.programs import ONE_THREAD, PEERS, ROOT, Failed, capture, execute_json, logged
from engine.suite import Run, Suite as Base
from engine.tables import matrix
from engine.verdicts import Target, median, ratio
from suites import feed, python_columns, python_datasets

HERE = PEERS / "python"
FINALISTS = 3  # of Leat's variants, in C++ and in Python, which run in every round
# Samples per second. `ratio`: Python's best to the best of the C++ loop.
SMALL = feed.Row("tokens", 0.75)
LARGE = [feed.Row(problem, 0.95, few=True, alone=True) for problem in ("tokens_large", "cifar_large", "jpeg")]
ROWS = [SMALL, *LARGE]
LARGE_FROM = 1e-3  # seconds that a batch of LARGE takes in C++, or the row is not what it says
BATCHES = {"tokens": 32, "tokens_large": 2048, "cifar_large": 4096, "jpeg": 32,  # samples of each
           **python_datasets.BATCHES}
# Ways of handover.py -> the most microseconds, at p50, of next() and both tensors. They were asked for on a
# machine where PyTorch's loader took 715; the part of PyTorch's time in the same run tells more.
HANDOVERS = {"leat_torch": 25, "leat_numpy": 25, "leat_none": None, "torch_1": None, "torch_2": None}
OF_TORCH = 25 / 715
# Memory after the last epoch, over that after the fifth.
MEMORY = [("tokens", "torch/workers_1"), ("tokens", "numpy/workers_2"), ("jpeg", "torch/workers_2")]
GROWTH = 1.02
EPOCHS = 50

# --- Leat's package, built from this tree -------------------------------------------------------

PARTS = ("CMakeLists.txt", "pyproject.toml", "cmake", "csp", "gpu", "feeder", "python/CMakeLists.txt",
         "python/leat", "python/src")


def install(python, folder):
    """Builds the package and installs it for `python`, unless the environment `folder` has it as it lies there."""
    found = hashlib.sha256()
    for name in sorted(capture(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "--", *PARTS]).splitlines()):
        if (ROOT / name).is_file():
            found.update(f"{name}\0".encode() + (ROOT / name).read_bytes())
    stamp, log, wheels = folder / "leat_package", folder / "leat_package.log", folder / "wheels"
    if stamp.exists() and stamp.read_text() == found.hexdigest():
        return
    print(f"building the package leat (log: {log})")
    shutil.rmtree(wheels, ignore_errors=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    if not logged(log, *pip, "wheel", "--no-deps", "-w", wheels, ROOT) or not all(
            logged(log, *pip, "install", *how, next(wheels.glob("leat-*.whl")), mode="a")
            for how in (["--force-reinstall", "--no-deps"], [])):  # it, and what it needs
        raise Failed(f"the package cannot be built; see {log}")
    stamp.write_text(found.hexdigest())


# --- the suite --------------------------------------------------------------------------------


class Suite(Base):
    about = "The package leat, the loop of C++ and other loaders, over the same files in memory."
    rows = (*(row.problem for row in ROWS), "handover", "memory", *python_datasets.ROWS, *python_columns.ROWS)
    peers = python_datasets.PEERS_HERE
    ours = ("leat", "c++")
    rounds = {"": 9, "quick": 2}
    seconds = {"": 1, "quick": 0.2}
    quick = "little data, few variants: whether it works, in some minutes"
    venv = feed.Suite.venv
    needs = ("python3-venv", "python3-dev")
    wants = ("ffmpeg", "libjpeg-dev")
    builds = ("bench_feeder_feed", "make_data")

    def add_options(self, add):
        add("--python", metavar="FILE", help="a Python that has leat and the peers: nothing is built or installed for it")

    def check(self, options):
        if options.python and "/" in options.python:
            options.python = pathlib.Path(options.directory, options.python).absolute()

    def sections(self, bench):
        options, python = bench.options, bench.options.python
        if not python:
            python = feed.peers_python(bench)
            install(python, options.venv)
        with tempfile.TemporaryDirectory(prefix="leat_python_", dir=feed.memory_folder(2 << 30)) as folder:
            bench.facts |= {
                "files": feed.where(folder), "package leat": f"that of {python}" if options.python else "of this tree",
                "python": capture([python, "-c", "import platform; print(platform.python_version())"]).strip()}
            if not set(bench.rows) <= {*python_datasets.ROWS, *python_columns.ROWS}:
                yield from self.of_files(bench, python, folder)
            yield from python_datasets.sections(bench, python, pathlib.Path(folder, "datasets"), EPOCHS)
            yield from python_columns.sections(bench, python)

    def of_files(self, bench, python, folder):
        options, data, small = bench.options, pathlib.Path(folder, "all"), pathlib.Path(folder, "small")
        feed.make_data(options.programs, data, python, options.quick, bench.peers, images=("jpeg",))
        feed.make_data(options.programs, small, python, True, images=("jpeg",))
        leat = feed.Loader("leat", python, data, [HERE / "leat_loader.py"], FINALISTS)
        programs = [feed.Leat(options.programs, data, options.quick, "c++", FINALISTS), leat,
                    *feed.loaders_of(bench, python, data)]
        bench.facts["packages"] = feed.packages(programs)
        yield feed.rounds_of(bench, [row for row in ROWS if row.problem in bench.rows], programs)

        def run(row, program, *words):
            return Run(row.split("/")[1], row.split("/")[0], lambda: {row: execute_json(
                [python, HERE / program, *words], options.limit, env=ONE_THREAD)})

        if "handover" in bench.rows:
            ways = [way for way in HANDOVERS if way.split("_")[0] in ("leat", *bench.peers)]
            runs = [run(f"handover/{way}", "handover.py", way, 50 if options.quick else 500, data) for way in ways]
            yield lambda turn: [runs]
        if "memory" in bench.rows:
            of_memory = [run(f"memory/leat {problem} {variant}", "memory.py", problem, variant,
                             10 if options.quick else EPOCHS, small) for problem, variant in MEMORY]
            yield lambda turn: [of_memory]

    def is_ours(self, what):
        return what.replace("_", " ").split(",")[0].split(" ")[0] in self.ours

    def of_row(self, row, of):
        ours, how = feed.best_of(of, "leat")
        for what, counts in (("the C++ loop on a thread, as Python's is", lambda one: "/thread" in one),
                             ("the C++ loop on a thread or a fiber", lambda one: True)):
            cpp, by = feed.best_of(of, "c++", counts)
            batch = BATCHES[row.problem] / cpp if cpp else None
            is_large = row not in LARGE or batch is None or batch >= LARGE_FROM
            note = (f"{how} against {by}, {batch * 1e6:.0f} us a batch" if ours and cpp
                    else f"no figure of {'c++' if ours else 'leat'}")
            if not is_large:
                note += f": a batch is to take {LARGE_FROM * 1e3:g} ms at least"
            yield Target(f"{row.problem}, to {what}", row.ratio, ratio(ours, cpp), True, "x", is_large, note)
        peer, who = feed.best_peer(of)
        yield Target(f"{row.problem}, to the best peer", 1, ratio(ours, peer), True, "x",
                     row is SMALL and (peer is not None or ours is None), f"against {who}" if who else "no peer")

    def targets(self, values, facts):
        found = [target for row in ROWS if row.problem in values for target in self.of_row(row, values[row.problem])]
        torch = min(filter(None, (median(values, f"handover/{way}", "p50_us") for way in ("torch_1", "torch_2"))),
                    default=None)
        for way, most in HANDOVERS.items():
            if most and any(row.startswith("handover/") for row in values):
                ours = median(values, f"handover/{way}", "p50_us")
                found.append(Target(f"a ready batch, {way}, p50", most, ours, False, "us"))
                found.append(Target(f"a ready batch, {way}, p50, to PyTorch's loader", OF_TORCH, ratio(ours, torch),
                                    False, "x", torch is not None))
        for row, of in values.items():
            if row.startswith("memory/"):
                what = "pss" if "late_pss" in of else "rss"
                growth = [late / early for early, late in zip(of[f"early_{what}"], of[f"late_{what}"])] if of else []
                found.append(Target(f"memory, {row.removeprefix('memory/')}, last epoch over the fifth", GROWTH,
                                    statistics.median(growth) if growth else None, False, "x"))
        return [*found, *python_datasets.targets(values), *python_columns.targets(values)]

    def tables(self, values, facts, out):
        problems = [row for row in BATCHES if row in values]
        feed.print_rates(values, problems, out, lambda problem: [("a batch", lambda name: (
            f"{BATCHES[problem] / statistics.median(values[problem][name]) * 1e6:.4g} us"))])
        for what, unit in (("handover", ""), ("memory", "B")):
            rows = [row for row in values if row.startswith(f"{what}/")]
            names = dict.fromkeys(name for row in rows for name in values[row]
                                  if what == "handover" or name.endswith(("rss", "anon", "pss")))
            matrix(out, [{"handover": "a ready batch, host time, us", "memory": "memory"}[what]],
                   [([row.split("/", 1)[1]], row, unit) for row in rows], values, names)
        python_datasets.tables(values, out)
        python_columns.tables(values, out)

    def saved(self, values, facts):
        return {"rows": [{"row": row, "median": {
            name: figure for name in dict.fromkeys(name.split(" ")[0] for name in of)
            for figure, _ in [feed.best_of(of, name)] if figure} if row in BATCHES else
            {name: statistics.median(figures) for name, figures in of.items() if figures}}
            for row, of in values.items()]}
