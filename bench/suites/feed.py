"""./run bench feed: bench/feeder against loaders in Python, over the same files in memory. bench/peers/feed/README.md
has the protocol."""

import collections
import itertools
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from engine.programs import (ENVIRONMENT, ONE_THREAD, PEERS, Failed, capture, environment, execute, execute_json,
                             google_benchmark, listed, requirements)
from engine.suite import Run, Suite as Base
from engine.tables import Notes, listing, matrix, rate
from engine.verdicts import Target, ratio

HERE = PEERS / "feed"

# --- what is compared -------------------------------------------------------------------------


class Row:
    """Of samples per second. `ratio`: ours to that of the best variant of any peer in the problem
    `against`; None: nothing is asked for. `like`: of the variants that match it alone, and `likeness`
    says what they do. `own`: of Leat's, not the peers'. `few`: of the variants, only those that --quick tries. `alone`: of each peer,
    only the fastest runs in all rounds."""

    def __init__(self, problem, ratio=None, against=None, like=".*", likeness="", quick=True,
                 few=False, alone=False, own=False):
        self.problem, self.ratio, self.against = problem, ratio, against or problem
        self.like, self.likeness = re.compile(like), likeness
        self.quick, self.few, self.alone, self.own = quick, few, alone, own


# What resizes with all of the source's pixels.
ANTIALIASED = {"like": r"(pillow|pillow_simd|torchvision|opencv_area)/.*", "likeness": "antialiased"}
ROWS = [
    Row("tokens", 3),
    *(Row(f"tokens_mix_{parts}", .9, against="tokens", own=True) for parts in (2, 16, 100)),
    Row("tokens_uint16", quick=False, few=True),
    Row("cifar", 3),
    Row("jpeg", 1, **ANTIALIASED),
    Row("jpeg_bilinear", 1, against="jpeg"),
    Row("jpeg_large", 1, **ANTIALIASED, quick=False, few=True),
    Row("jpeg_large_bilinear", 1, against="jpeg_large", quick=False),
    Row("jpeg_scaled", 1.5, against="jpeg_large", quick=False),
    Row("jpeg_folder"),
    Row("png", 1, **ANTIALIASED),
    Row("webp", 1, **ANTIALIASED),
]
# Leat's, as the peers have them in their scripts: the arguments of feed_bench.cpp.
VARIANTS = {f"workers_{workers}/" + (f"fiber_{fiber}" if fiber else "thread"):
            f"workers:{workers}/fiber:{fiber}/ahead:4" for workers in (1, 2) for fiber in (0, 1, 2)}
# Of the problems with small batches: further ahead.
SMALL = ("tokens", "tokens_mix_2", "tokens_mix_16", "tokens_mix_100")
AHEAD = {f"{name}/ahead_16": arguments.replace("ahead:4", "ahead:16") for name, arguments in VARIANTS.items()}

# Of one program each: the benchmark, the counter, and the most microseconds that it may be.
LATENCIES = {
    "handover": {"handover_to_fiber": ("p50_us", 2), "handover_to_thread": ("p50_us", 2)},
    "leave": {"leave_files": ("p99_us", 50e3), "leave_slow": ("p99_us", 50e3), "leave_queued": ("p99_us", 50e3)},
}

PILLOW_SIMD = "pillow-simd==12.1.1.post0"  # has Pillow's names, hence a folder of its own
LOADERS = ("torch", "webdataset", "spdl", "grain", "litdata")
# The variants that --quick tries.
QUICK = re.compile(r"[a-z_]+$|((collate|getitems|slices|opencv_linear)/0|blocks/[02]|simplejpeg/[02]"
                   r"|samples/[02]|pillow_simd/(threads_)?2|torchvision/2|(batches|ffmpeg)/2|(slices|simplejpeg)/threads_2"
                   r"|slices/threads_0)$")
FINALISTS = 2  # of each peer's variants, which run in every round; and the best that reads ahead

# Variants that read in the loop's own thread, when it asks.
INLINE = re.compile(r"get_batch|.*/(threads_)?0")

# Where a figure is not quite the row's: program, problem, variant.
NOTES = [
    ("webdataset", "tokens|cifar|jpeg", ".*", "its order is that of a buffer of 1000 samples, and of the shards"),
    ("torch|spdl|grain", "cifar", "(getitems|slices|batches).*",
     "from two arrays in its own memory; the others read the mapped files"),
    ("litdata", "tokens", ".*", "its order is that of 256 neighbours in a chunk, and of the chunks"),
    ("torch", "tokens", "get_batch", "nanoGPT's, in place of a loader"),
    (".*", ".*", INLINE, "in the loop's own thread: nothing is read ahead"),
    ("spdl", "jpeg|jpeg_large|png|webp", "ffmpeg.*", "FFmpeg's decoder and its bicubic scaler"),
]

# --- the contestants: variants of a program, named "program variant" ---------------------------


class Leat:
    """A build of C++. `finalists`: of its variants, how many run in every round."""

    is_leat = True

    def __init__(self, programs, data, quick, name="leat", finalists=FINALISTS):
        self.name, self.finalists, self.programs = name, finalists, programs
        self.environment = {**os.environ, "LEAT_FEED_DATA": str(data), **({"LEAT_FEED_QUICK": "1"} if quick else {})}
        problems = {line.split("/")[0] for line in listed(programs / "bench_feeder_feed")}
        self.variants = {problem: [*VARIANTS, *(AHEAD if problem in SMALL else ())] for problem in problems}
        self.versions = {}

    def benchmarks(self, program, names, seconds, limit):
        return google_benchmark(self.programs / f"bench_feeder_{program}", names, seconds, limit, env=self.environment)

    def run(self, problem, variant, seconds, limit):
        found = self.benchmarks("feed", [f"{problem}/{(VARIANTS | AHEAD)[variant]}"], seconds, limit)
        return next(iter(found.values()))["items_per_second"]


class Loader:
    """One in Python: a program and its first words, or HERE's of that name."""

    def __init__(self, name, python, data, program=None, finalists=FINALISTS):
        self.name, self.data, self.finalists, self.is_leat = name, data, finalists, name == "leat"
        self.command = [python, *(program or [HERE / f"{name}_loader.py"])]
        self.variants, self.versions = collections.defaultdict(list), {}
        for line in execute(self.command, 300, env=ONE_THREAD).splitlines():
            kind, first, second = line.split()
            if kind == "variant":
                self.variants[first].append(second)
            else:
                self.versions[first] = second

    def run(self, problem, variant, seconds, limit):
        return execute_json([*self.command, problem, variant, seconds, self.data], limit,
                            env=ONE_THREAD)["samples_per_second"]


def loaders_of(bench, python, data, names=LOADERS, program=None):
    """The peers that can run. `program`: the same for all, which takes their names."""
    for name in bench.peers:
        try:
            if name in names:
                yield Loader(name, python, data, program and [program, name])
        except Failed as failure:
            bench.without(name, str(failure))


def packages(programs):
    return ", ".join(f"{name} {version}" for program in programs for name, version in program.versions.items())


# --- when they run ----------------------------------------------------------------------------


def of_program(of, name):
    """variant -> the rounds of it."""
    return {one.split(" ", 1)[1]: figures for one, figures in of.items() if one.split(" ", 1)[0] == name}


def rounds_of(bench, rows, programs):
    """All variants run once (smoke: all of the first row, and one of each other row); then each program's best ones."""
    options = bench.options

    def run(program, problem, variant):
        return Run(f"{program.name} {variant}", problem,
                   lambda: {problem: program.run(problem, variant, options.seconds, options.limit)})

    def first(row, number):
        for program in programs:
            variants = program.variants.get(row.problem, [])
            if number and getattr(options, "smoke", False):
                variants = variants[number % len(variants):][:1]
            for variant in variants:
                if program.is_leat or not (options.quick or row.few) or QUICK.match(variant):
                    yield run(program, row.problem, variant)

    def finalists(row, program):
        of = of_program(bench.values.get(row.problem, {}), program.name)
        best = sorted(of, key=lambda variant: -of[variant][0])
        ahead = [variant for variant in best if not INLINE.fullmatch(variant)]
        like = [variant for variant in best if row.like.fullmatch(variant)]
        chosen = best[:1] if row.alone and not program.is_leat else best[:program.finalists] + ahead[:1] + like[:1]
        return [run(program, row.problem, variant) for variant in sorted(set(chosen))]

    def groups(turn):
        if turn == 0:
            return [list(first(row, number)) for number, row in enumerate(rows)]
        # The same variant of two builds of Leat come one after the other.
        return [list(filter(None, itertools.chain(*itertools.zip_longest(*(finalists(row, one) for one in programs)))))
                for row in rows]
    return groups


# --- where it all runs ------------------------------------------------------------------------


def make_data(programs, folder, python, quick, peers=(), images=("jpeg", "jpeg_large")):
    """What the problems read, and, with `python`, what `peers` read instead."""
    make = programs / "make_data"
    capture([make, "tokens", folder / "tokens", (4 if quick else 64) << 20])
    capture([make, "cifar10", folder / "cifar10", 5_000 if quick else 50_000])
    for name, samples, *size in (("jpeg", 64 if quick else 1024, 500, 375),
                                 ("jpeg_large", 32 if quick else 256, *((500, 375) if quick else (1024, 768)))):
        if name in images:
            capture([make, "webdataset", folder / name, samples, *size])
    if python:
        capture([python, HERE / "make_shards.py", folder], env=ENVIRONMENT)
    if "litdata" in peers:
        try:
            capture([python, HERE / "make_litdata.py", folder], env=ENVIRONMENT)
        except subprocess.CalledProcessError as error:  # the peer then says what it has not
            print(f"no data for litdata: {error}", file=sys.stderr)
    for path in folder.rglob("*"):  # in memory, whatever holds it
        if path.is_file():
            path.read_bytes()


def memory_folder(bytes_needed):
    """Where files are in memory, if there is such a place with room; else the usual one."""
    folder = "/dev/shm"
    if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > bytes_needed:
        return folder
    return None


def where(folder):
    return "in " + ("memory (/dev/shm)" if folder.startswith("/dev/shm") else f"{pathlib.Path(folder).parent}, read once before")


def peers_python(bench):
    """Where the peers' packages are; the facts tell which are not."""
    python, missing = environment(bench.options.venv, requirements(HERE / "requirements.txt"), PILLOW_SIMD)
    if missing:
        bench.facts["without"] = "; ".join(missing)
    return python


# --- what the figures say ---------------------------------------------------------------------


def best_of(of, name, counts=lambda variant: True):
    """(median, variant) of the program's fastest variant that counts; (None, None) without one. Of those that ran in the
    first round alone, one that was lucky there does not count."""
    variants = {one: figures for one, figures in of_program(of, name).items() if figures and counts(one)}
    most = max(map(len, variants.values()), default=0)
    medians = {one: statistics.median(figures) for one, figures in variants.items() if len(figures) == most}
    found = max(medians, key=medians.get, default=None)
    return medians.get(found), found


def best_peer(of, counts=lambda variant: True, but=("leat", "base", "c++")):
    """(median, "program variant") of the fastest of all peers."""
    names = dict.fromkeys(one.split(" ")[0] for one in of)
    found = {f"{name} {how}": figure for name in names if name not in but
             for figure, how in [best_of(of, name, counts)] if figure}
    who = max(found, key=found.get, default=None)
    return found.get(who), who


def to_peers(row, values, what, counts, judged):
    ours, how = best_of(values[row.problem], "leat")
    theirs, who = best_peer(values.get(row.against, {}), counts)
    note = f"{how} against {who}" if ours and who else "no peer" if ours else "leat has no such benchmark, or it failed"
    return Target(f"{row.problem}, to {what}", row.ratio, ratio(ours, theirs), True, "x",
                  judged and (who is not None or ours is None), note)


def to_own(row, values):
    """To Leat's own of another problem."""
    (ours, how), (other, of) = (best_of(values.get(problem, {}), "leat") for problem in (row.problem, row.against))
    return Target(f"{row.problem}, to leat's {row.against}", row.ratio, ratio(ours, other), True, "x", other is not None,
                  f"{how} against {of}" if ours and other else f"leat has no such benchmark, it failed, or {row.against} did not run")


def print_rates(values, problems, out, more=lambda problem: ()):
    """A table for each problem: the variants of each program, the best first."""
    notes = Notes()
    for problem in problems:
        of = values.get(problem, {})
        best, _ = best_of(of, "leat")

        def last(name):
            program, variant = name.split(" ", 1)
            return notes.mark(*(note for programs, names, variants, note in NOTES if re.fullmatch(programs, program)
                                and re.match(names, problem) and re.fullmatch(variants, variant)))

        programs = list(dict.fromkeys(name.split(" ")[0] for name in of))
        ordered = sorted(of, key=lambda name: (programs.index(name.split(" ")[0]), -len(of[name]),
                                               -statistics.median(of[name])))
        listing(out, f"{problem}, samples/s", {name: of[name] for name in ordered}, rate, [
            *more(problem), ("leat's best is", lambda name: f"{best / statistics.median(of[name]):.2f}x" if best else "-")],
            last)
    notes.print(out)


class Suite(Base):
    about = "The benchmarks of bench/feeder beside loaders in Python, over the same files in memory; samples per second."
    rows = tuple(row.problem for row in ROWS)
    peers = LOADERS
    # Of another build, every variant in every round.
    rounds = {"": 5, "quick": 2, "base": 15}
    seconds = {"": 1, "quick": 0.2, "base": 0.2}
    quick = "little data, few variants: whether it works, in some minutes"
    base = "bench_feeder_feed"
    venv = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "leat" / "feed-peers"
    needs = ("python3-venv",)
    wants = ("ffmpeg", "python3-dev libjpeg-dev")  # SPDL's decoder; to build Pillow-SIMD
    builds = ("bench_feeder_feed", "bench_feeder_handover", "bench_feeder_leave", "make_data")

    def add_options(self, add):
        add("--smoke", action="store_true", help="of most rows, one variant")

    def sections(self, bench):
        options = bench.options
        rows = [row for row in ROWS if row.problem in bench.rows
                and (row.quick or not options.quick or options.only is not None)]
        python = peers_python(bench) if bench.peers else None
        with tempfile.TemporaryDirectory(prefix="leat_feed_", dir=memory_folder(2 << 30)) as folder:
            data = pathlib.Path(folder)
            make_data(options.programs, data, python, options.quick, bench.peers)
            programs = [Leat(options.programs, data, options.quick)]
            if options.base:
                programs = [Leat(of, data, options.quick, name, sys.maxsize)
                            for name, of in (("leat", options.programs), ("base", options.base))]
            programs += loaders_of(bench, python, data)
            bench.facts |= {"files": where(folder), "python": platform.python_version(), "packages": packages(programs)}
            yield rounds_of(bench, rows, programs)
            if not options.base:
                yield lambda turn: [self.latencies(programs[0], options.limit)] if turn == 0 else []

    def latencies(self, leat, limit):
        def figures(program, names):
            return {f"host time, {name}": {key: value for key, value in one.items() if key.endswith("_us") or key == "n"}
                    for name, one in leat.benchmarks(program, names, None, limit).items()}
        return [Run("leat", program, lambda program=program, names=names: figures(program, list(names)))
                for program, names in LATENCIES.items()]

    def is_rate(self, row):
        return not row.startswith("host time")

    def targets(self, values, facts):
        found = []
        for row in ROWS:
            if row.problem not in values or row.ratio is None or all(
                    name.split(" ")[0] in ("leat", "base") for name in values[row.problem]) and "base" in facts:
                continue
            if row.own:
                found.append(to_own(row, values))
                continue
            best = f"the best peer's {row.against}"
            found.append(to_peers(row, values, best + (f", {row.likeness}" if row.likeness else ""),
                                  row.like.fullmatch, True))
            found.append(to_peers(row, values, "the best that reads ahead, as leat does",
                                  lambda one, row=row: row.like.fullmatch(one) and not INLINE.fullmatch(one), False))
            if row.likeness:
                found.append(to_peers(row, values, f"{best}, {row.likeness} or not", lambda one: True, False))
        if "jpeg_folder" in values and "jpeg" in values:
            (files, how), (tar, beside) = (best_of(values[row], "leat") for row in ("jpeg_folder", "jpeg"))
            found.append(Target("jpeg_folder, to the same files in tars", 0.9, ratio(files, tar), True, "x", True,
                                f"{how} against {beside}"))
        for names in LATENCIES.values() if "base" not in facts else ():
            for name, (counter, most) in names.items():
                of = values.get(f"host time, {name}", {}).get(counter)
                found.append(Target(f"{name}, {counter.removesuffix('_us')}", most, of[0] if of else None, False, "us"))
        return found

    def tables(self, values, facts, out):
        print_rates(values, [row for row in values if not row.startswith("host time")], out)
        matrix(out, ["host time, us"], [([row.split(", ")[1]], row, "") for row in values if row.startswith("host time")],
               values)

    def saved(self, values, facts):
        return {"latencies": {row.split(", ")[1]: {name: of[0] for name, of in names.items()}
                              for row, names in values.items() if row.startswith("host time")}}
