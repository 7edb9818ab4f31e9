#!/usr/bin/env python3
"""Runs the problems of bench/csp in Leat and in its peers, alternately, and prints one table.

./run bench csp calls it, once the packages are installed and bench/csp is built.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.dont_write_bytecode = True  # nothing is written to the tree
from facts import ROOT, capture, commit, first_line, machine  # noqa: E402

BUILD = ROOT / "build" / "peers"
OURS = ROOT / "build" / "release"

# --- what is compared, and what is asked of it ------------------------------------------------


class Row:
    """A problem. `go`, `best` and `threads` are the ratios, theirs to ours, that are asked for
    against Go, the fastest peer and the fastest one of OS threads; a dict gives them for each
    number of workers. `scaling` is what two workers must gain over one of our own, `most` a bound
    on our own figure."""

    def __init__(self, problem, program, go=None, best=None, threads=None, metric="ns",
                 workers=(1, 2), scaling=None, most=None, quick=False):
        self.problem, self.program, self.metric = problem, program, metric
        self.go, self.best, self.threads = go, best, threads
        self.scaling, self.most = scaling, most
        self.workers, self.quick = workers, quick
        self.label = problem if metric == "ns" else f"{problem} {metric}"
        self.runtime = program != "machine" and not problem.startswith("Futex")


FASTER = NO_SLOWER = 1.0
WITHIN_1_3 = 1 / 1.3
NOT_SLOWER_THAN = 1.03  # times another build of Leat
AT_TWO = lambda ratio: {2: ratio}

ROWS = [
    Row("ChanSync", "channel", 3, FASTER, quick=True),
    Row("Spsc/1", "channel", 3.5, FASTER, quick=True),
    Row("Spsc/16", "channel", 3.5, FASTER),
    Row("Spsc/128", "channel", 3.5, FASTER, quick=True),
    Row("Spsc/1024", "channel", 3.5, FASTER),
    Row("Mpmc/128", "channel", 3.5, FASTER, quick=True),
    Row("ChanProdCons/0", "channel"),
    Row("ChanProdCons/10", "channel"),
    Row("ChanProdCons/100", "channel"),
    Row("Select2/0", "select", 3, FASTER, quick=True),
    Row("Select2/128", "select", 2.3, FASTER),
    Row("Select8/0", "select", 3, FASTER),
    Row("Select8/128", "select", 2.3, FASTER, quick=True),
    Row("SelectUncontended", "select"),
    Row("SelectNonblock", "select", 2, WITHIN_1_3, quick=True),
    Row("ChanUncontended", "channel", 2, WITHIN_1_3, quick=True),
    Row("ChanNonblocking", "channel", 2, WITHIN_1_3),
    Row("Ring/10", "pipeline"),
    Row("Ring/1000", "pipeline", 3, FASTER, quick=True),
    Row("RingShuffled/1000", "pipeline"),
    Row("Spawn/256", "spawn"),
    Row("Spawn/1000000", "spawn", 5, FASTER, quick=True),
    Row("Parked/100000", "spawn", metric="bytes", most=4.4 * 1024),
    Row("Sieve/2000", "pipeline", 3.5, FASTER),
    Row("Pipeline4", "pipeline", 2, FASTER, quick=True),
    Row("Items4KiB", "channel", 2, FASTER),
    Row("Circulate1MiB", "pipeline", 2, FASTER),
    Row("ThreadToFiber", "channel", {1: 1.5, 2: 1.2}, FASTER, quick=True),
    Row("ThreadToFiberBusy", "channel"),
    Row("ThreadToPoller", "channel"),
    Row("ThreadToThread", "channel", workers=(1,)),
    Row("CoarseJobs/1", "pipeline", 1, NO_SLOWER),
    Row("CoarseJobs/17", "pipeline", 1, NO_SLOWER, quick=True),
    Row("CoarseJobs/100", "pipeline", 1, NO_SLOWER),
]
for pairs in (1, 4):
    for kib, gain in ((64, 1.0), (256, 1.25), (1024, 1.7), (4096, 1.7), (16384, 1.7)):
        ROWS.append(Row(f"DoubleBuffer/{kib}/{pairs}", "double_buffer",
                        AT_TWO(2.5) if kib == 1024 else None, threads=AT_TWO(NO_SLOWER),
                        scaling=gain,
                        quick=kib == 1024 and pairs == 1))
ROWS += [
    Row("WakeWhileHogging", "latency", metric="p50", workers=(2,)),
    Row("WakeWhileHogging", "latency", best=FASTER, metric="p99", workers=(2,), most=200e3,
        quick=True),
    Row("FutexWake", "latency", metric="p50", workers=(2,)),
    Row("FutexWake", "latency", metric="p99", workers=(2,), quick=True),
    Row("FutexWakeLooking", "latency", metric="p50", workers=(2,)),
    Row("FutexWakeLooking", "latency", metric="p99", workers=(2,)),
    Row("LockUnlock", "machine", workers=(1,)),
    Row("BareSwitch/2", "machine", workers=(1,)),
    Row("BareSwitch/1000", "machine", workers=(1,)),
    Row("FirstTouch", "machine", workers=(1,), quick=True),
]
for kib in (64, 256, 1024, 4096, 16384):
    ROWS.append(Row(f"HandOff/{kib}", "machine", quick=kib == 1024))
    ROWS.append(Row(f"CopyApart/{kib}", "machine", workers=(2,), quick=kib == 1024))
# Where a peer's problem is not quite the one of the row. The first that fits counts.
NOTES = [
    ("boost_fiber", "(Spsc/1.|Mpmc|ChanProdCons/1|Items|Pipeline|ThreadToFiber|CoarseJobs)",
     "its capacities are powers of two less one: the next one above the named, 31 for 16"),
    ("tokio", "(ChanSync|Select./0|Ring|Sieve)", "capacity 1: it has no rendezvous"),
    ("tokio", "CoarseJobs", "the four tasks share the receiver through a mutex"),
    ("tokio", "Parked", "stackless tasks, on a semaphore"),
    ("boost_fiber|tokio|tbb|moodycamel|threads", "ChanNonblocking", "capacity 1"),
    ("tbb", "(Spawn|Pipeline4|CoarseJobs)", "tasks and parallel_pipeline; a task cannot wait"),
    ("moodycamel", "(Mpmc|ChanProdCons)", "in order only among the values of one sender"),
    ("go", "ThreadToFiber", "the thread is a goroutine with LockOSThread"),
    ("crossbeam|tbb|moodycamel|threads", "ThreadToFiber", "to a second thread"),
]
STEADY = 100e3  # FutexWake's p99 up to which WakeWhileHogging's says something

# --- the peers, and how they are built --------------------------------------------------------


class Peer:
    def __init__(self, name, sources, command, version, threads=False):
        self.name, self.version = name, version
        self.threads = threads  # OS threads: held to as many CPUs as the others have workers
        self.program = BUILD / name
        self.sources = [HERE / source for source in sources]
        self.command = command
        self.problems = set()

    def has(self, row, workers):
        return row.problem in self.problems

    def run(self, row, workers, seconds, limit):
        """Its figures of this row, by metric."""
        options = {}
        if self.threads:
            count = workers + (row.problem == "ThreadToFiber")  # the thread is nobody's worker
            chosen = cpus(count)
            options["preexec_fn"] = lambda: os.sched_setaffinity(0, chosen)
        lines = execute([self.program, row.problem, workers, seconds], limit, **options).split()
        return {name: float(value) for name, value in zip(lines[::2], lines[1::2])}

    def build(self):
        """None, or why there is no such program."""
        newest = max(path.stat().st_mtime for path in self.sources + [pathlib.Path(__file__)])
        if not self.program.exists() or self.program.stat().st_mtime < newest:
            self.program.unlink(missing_ok=True)
            print(f"building {self.name}", file=sys.stderr)
            result = self.command(self)
            (BUILD / f"{self.name}.log").write_text(result.stdout)
            if result.returncode != 0 or not self.program.exists():
                return f"it does not build; see {BUILD / self.name}.log"
            self.program.touch()
        self.problems = set(capture([self.program]).split())
        return None


def logged(command, **options):
    try:
        return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, **options)
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, str(error))


def package(name):
    return first_line("dpkg-query", "-W", "-f", "${Package} ${Version}", name)


def build_go(peer):
    environment = {**os.environ, "GOCACHE": str(BUILD / "go-cache"), "GOTOOLCHAIN": "local",
                   "GOFLAGS": ""}
    return logged(["go", "build", "-o", peer.program, "."], cwd=HERE / "go", env=environment)


CXX = ["g++", "-std=c++20", "-O2", "-DNDEBUG", "-pthread"]


RUST = ["rust/Cargo.toml", "rust/.cargo/config.toml", "rust/src/lib.rs"]


def build_rust(peer):
    """With the distribution's compiler and crates alone, in a copy: cargo writes beside them."""
    copy = BUILD / "rust"
    shutil.copytree(HERE / "rust", copy, dirs_exist_ok=True)
    environment = {**os.environ, "PATH": "/usr/bin:" + os.environ["PATH"], "RUSTC": "/usr/bin/rustc",
                   "CARGO_HOME": str(BUILD / "cargo"), "CARGO_TARGET_DIR": str(copy / "target")}
    result = logged(["/usr/bin/cargo", "build", "--offline", "--release", "--features", peer.name,
                     "--bin", peer.name], cwd=copy, env=environment)
    if result.returncode == 0:
        shutil.copy(copy / "target" / "release" / peer.name, peer.program)
    return result


def rust_version(*crates):
    return ", ".join([first_line("/usr/bin/rustc", "--version")]
                     + [package(f"librust-{crate}-dev") for crate in crates])


SHARED = ["peer.h", "problems.h"]


def build_cxx(*libraries):
    return lambda peer: logged([*CXX, peer.sources[0], "-o", peer.program, *libraries])


PEERS = [
    Peer("go", ["go/main.go", "go/go.mod"], build_go, lambda: first_line("go", "version")),
    Peer("boost_fiber", ["boost_fiber.cpp", *SHARED], build_cxx("-lboost_fiber", "-lboost_context"),
         lambda: package("libboost-fiber-dev")),
    Peer("tokio", [*RUST, "rust/src/bin/tokio.rs"], build_rust, lambda: rust_version("tokio")),
    Peer("crossbeam", [*RUST, "rust/src/bin/crossbeam.rs"], build_rust,
         lambda: rust_version("crossbeam", "crossbeam-channel"), threads=True),
    Peer("tbb", ["tbb.cpp", *SHARED, "threads.h"], build_cxx("-ltbb"),
         lambda: package("libtbb-dev"), threads=True),
    Peer("moodycamel", ["moodycamel.cpp", *SHARED, "threads.h"], build_cxx(),
         lambda: package("libconcurrentqueue-dev") + ", " + package("libreaderwriterqueue-dev"),
         threads=True),
    Peer("threads", ["threads.cpp", *SHARED, "threads.h"], build_cxx(),
         lambda: "std::mutex, std::condition_variable", threads=True),
]

# --- running ----------------------------------------------------------------------------------


def cpus(count):
    """That many CPUs that this process may use, of different cores as far as they go."""
    siblings, rest = {}, []
    for cpu in sorted(os.sched_getaffinity(0)):
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = path.read_text() if path.exists() else cpu
        if core in siblings:
            rest.append(cpu)
        siblings.setdefault(core, cpu)
    return (list(siblings.values()) + rest)[:count]


class Failed(Exception):
    pass


def execute(command, limit, **options):
    try:
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=limit, **options)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {limit} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise Failed(said[-1] if said else f"exit status {done.returncode}")
    return done.stdout


class Build:
    """A build of Leat: of this tree, or of another commit."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder / "bench"
        self.listed = {}  # program -> the names of its benchmarks

    def version(self):
        return str(self.folder.parent)

    def pattern(self, row, workers):
        return f"^{row.problem}(/workers:{workers})?(/iterations:[0-9]+)?/real_time$"

    def has(self, row, workers):
        if row.program not in self.listed:
            program = self.folder / f"bench_csp_{row.program}"
            self.listed[row.program] = (
                capture([program, "--benchmark_list_tests"]).split() if program.exists() else [])
        return any(re.match(self.pattern(row, workers), name) for name in self.listed[row.program])

    def run(self, row, workers, seconds, limit):
        """Its figures of this row, by metric."""
        name = self.pattern(row, workers)
        found = json.loads(execute(
            [self.folder / f"bench_csp_{row.program}", f"--benchmark_filter={name}",
             f"--benchmark_min_time={seconds}", "--benchmark_format=json"], limit))["benchmarks"]
        if len(found) != 1:
            raise Failed(f"{len(found)} benchmarks match {name}")
        one = found[0]
        if one.get("error_occurred"):
            raise Failed(one["error_message"])
        unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[one["time_unit"]]
        return {**{key: one[key] for key in ("bytes", "p50", "p99") if key in one},
                "ns": one["real_time"] * unit}


class Sample:
    """What one program did in one row."""

    def __init__(self):
        self.values, self.failure = [], None

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None

    @property
    def least(self):
        return min(self.values, default=None)


def measure(rows, peers, rounds, seconds, limit):
    """(problem, workers, metric) -> program -> Sample. Programs take turns; each round every program
    does a row once, so what slows the machine for a while slows all of them."""
    tasks = {}  # several rows may be figures of one run
    for row in rows:
        for workers in row.workers:
            tasks.setdefault((row.problem, workers), []).append(row)
    table = {}
    for done, ((problem, workers), figures) in enumerate(tasks.items()):
        if sys.stderr.isatty():
            print(f"\r{done + 1}/{len(tasks)} {problem}, {workers}\033[K", end="", file=sys.stderr)
        runners = {"leat": Build("leat", OURS)}
        runners.update({peer.name: peer for peer in peers if peer.has(figures[0], workers)})
        samples = {row.metric: {name: Sample() for name in runners} for row in figures}
        for turn in range(rounds):
            names = list(runners)
            for name in names[turn % len(names):] + names[:turn % len(names)]:
                if any(of[name].failure for of in samples.values()):
                    continue
                try:
                    values = runners[name].run(figures[0], workers, seconds, limit)
                    for metric, of in samples.items():
                        of[name].values.append(values[metric])
                except Failed as failure:
                    for of in samples.values():
                        of[name].failure = str(failure)
        for metric, of in samples.items():
            table[problem, workers, metric] = of
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return table


# --- judging and printing ---------------------------------------------------------------------


def judge(row, workers, table):
    """The row's targets: (text, met); met is None where a target cannot be judged."""
    of = table[row.problem, workers, row.metric]
    ours = of["leat"].median
    asked = lambda target: target.get(workers) if isinstance(target, dict) else target
    verdicts = []
    if ours is None:
        if row.go or row.best or row.threads or row.most:
            verdicts.append((f"leat failed: {of['leat'].failure}", False))
        return verdicts
    others = {name: sample.median for name, sample in of.items()
              if name not in ("leat", "base") and sample.median}
    for which, target, of_which in (
            ("go", asked(row.go), {name: others[name] for name in ("go",) if name in others}),
            ("fastest", asked(row.best), others),
            ("threads", asked(row.threads),
             {peer.name: others[peer.name] for peer in PEERS
              if peer.threads and peer.name in others})):
        if target and of_which:
            fastest = min(of_which, key=of_which.get)
            ratio = of_which[fastest] / ours
            who = which if which == fastest else f"{which}, {fastest}"
            verdicts.append((f"{ratio:.2f}x vs {who} (target {target:.2g})", ratio >= target))
        elif target and any(peer.name in of for of in table.values() for peer in PEERS):
            verdicts.append((f"nobody to compare: {which} (target {target:.2g})", None))
    if row.scaling and workers == 2:
        alone = table.get((row.problem, 1, row.metric), {}).get("leat")
        if alone and alone.median:
            ratio = alone.median / ours
            verdicts.append((f"{ratio:.2f}x vs own 1 worker (target {row.scaling:g})",
                             ratio >= row.scaling))
    if row.most:
        verdicts.append((f"{scaled(ours, row.metric)} (target {scaled(row.most, row.metric)})",
                         ours <= row.most))
    if row.problem == "WakeWhileHogging":
        futex = table.get(("FutexWake", 2, "p99"), {}).get("leat")
        if not (futex and futex.median and futex.median <= STEADY):
            verdicts = [(text, None) for text, _ in verdicts]
    return verdicts


def unit_of(value, metric):
    if metric == "bytes":
        return 1, "B"
    for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if value >= size * 10 or (value >= size and size >= 1e9):
            return size, name
    return 1, "ns"


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def scaled(value, metric):
    size, name = unit_of(value, metric)
    return f"{digits(value / size)} {name}"


def against_base(rows, table):
    """Of each row that the other build has: (row, workers, ratio of the medians, ratio of the least
    times, met). Slower counts only where both ratios say so: one alone is what a disturbed round
    makes of it."""
    found = []
    for row in rows:
        for workers in row.workers:
            of = table[row.problem, workers, row.metric]
            base = of.get("base")
            if row.runtime and base and base.median and of["leat"].median:
                ratios = of["leat"].median / base.median, of["leat"].least / base.least
                found.append((row, workers, *ratios, min(ratios) <= NOT_SLOWER_THAN))
    return found


def print_ratios(head, lines, out):
    """Rows of two columns each: what `lines` has as (row, workers, medians, least, met)."""
    width = max(len(row.label) for row, *_ in lines)
    print(f"\n{head}", file=out)
    print(f"{'problem':{width}}  w  medians  least", file=out)
    for row, workers, medians, least, met in lines:
        print(f"{row.label:{width}}  {workers}  {medians:7.3f}  {least:5.3f}  {WORDS[met]}", file=out)


WORDS = {True: "ok", False: "MISSED", None: "not judged"}


def note_on(peer, problem):
    for names, problems, note in NOTES:
        if re.fullmatch(names, peer) and re.match(problems, problem):
            return note
    return None


def print_table(rows, peers, table, out):
    shown = [peer for peer in peers if any(peer.name in of for of in table.values())]
    head = ["problem", "w", "leat", "min..max"] + [peer.name for peer in shown] + ["targets"]
    lines, verdicts, failures, notes = [head], [], [], {}
    for row in rows:
        for workers in row.workers:
            of = table[row.problem, workers, row.metric]
            ours = of["leat"]
            name = row.label
            size, unit = unit_of(ours.median or 1, row.metric)
            line = [name, str(workers)]
            if ours.values:
                spread = f"{digits(min(ours.values) / size)}..{digits(max(ours.values) / size)}"
                line += [f"{digits(ours.median / size)} {unit}", spread]
            else:
                line += ["failed", ""]
            for peer in shown:
                sample = of.get(peer.name)
                note = note_on(peer.name, row.problem) if sample else None
                mark = f"*{list(notes).index(note) + 1}" if note in notes else ""
                if note and not mark:
                    notes[note] = None
                    mark = f"*{len(notes)}"
                if sample is None:
                    line.append("")
                elif sample.failure:
                    line.append("failed")
                    failures.append(f"{peer.name}, {name}, {workers}: {sample.failure}")
                elif ours.values:
                    ratio = sample.median / ours.median
                    line.append(f"{digits(sample.median / size)}{mark} {digits(ratio)}x")
                else:
                    line.append(scaled(sample.median, row.metric) + mark)
            judged = judge(row, workers, table)
            verdicts += [met for _, met in judged]
            line.append("; ".join(f"{text} {WORDS[met]}" for text, met in judged))
            lines.append(line)
    widths = [max(len(line[i]) for line in lines) for i in range(len(head) - 1)]
    for line in lines:
        cells = [cell.ljust(width) if i in (0, len(head) - 1) else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells + [line[-1]]).rstrip(), file=out)
    print(file=out)
    print("w: workers. A peer's cell: its median in leat's unit, and how many times leat's that is.",
          file=out)
    for number, note in enumerate(notes):
        print(f"*{number + 1} {note}", file=out)
    for failure in dict.fromkeys(failures):
        print("failed:", failure, file=out)
    builds = against_base(rows, table)
    if builds:
        print_ratios(f"leat to base, times (target: at most {NOT_SLOWER_THAN}, of medians or of least)",
                     builds, out)
        print(file=out)
        verdicts += [met for *_, met in builds]
    counts = {word: verdicts.count(met) for met, word in WORDS.items()}
    print(f"{counts['ok']} targets met, {counts['MISSED']} missed"
          + (f", {counts['not judged']} not judged" if counts["not judged"] else ""), file=out)


def main():
    parser = argparse.ArgumentParser(prog="./run bench csp", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true",
                        help="some of the problems, in less than 5 minutes")
    parser.add_argument("--only", metavar="REGEX", help="the problems whose name matches")
    parser.add_argument("--peers", metavar="A,B", help="these peers; '' for none")
    parser.add_argument("--base", metavar="FOLDER", type=pathlib.Path,
                        help="a build folder of another commit, with its bench/csp: ratios to that, row by row")
    parser.add_argument("--workers", type=int, choices=(1, 2), help="one of the two numbers")
    parser.add_argument("--rounds", type=int, help="how often each program runs (7; quick: 3)")
    parser.add_argument("--seconds", type=float, help="how long at least (0.2; quick: 0.1)")
    parser.add_argument("--save", metavar="FILE", help="write FILE.txt and FILE.json")
    parser.add_argument("--directory", help=argparse.SUPPRESS)  # where FILE's path begins
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    arguments = parser.parse_args()
    rounds = arguments.rounds or (3 if arguments.quick else 7)
    seconds = arguments.seconds or (0.1 if arguments.quick else 0.2)

    rows = [row for row in ROWS if (row.quick or not arguments.quick)
            and (not arguments.only or re.search(arguments.only, row.problem))]
    if arguments.workers:
        for row in rows:
            row.workers = tuple(w for w in row.workers if w == arguments.workers)
    rows = [row for row in rows if row.workers]
    if not rows:
        parser.error(f"no problem matches {arguments.only}")
    base = None
    if arguments.save:
        base = pathlib.Path(arguments.directory or ".", re.sub(r"\.(txt|json)$", "", arguments.save))
        if not base.parent.is_dir():
            parser.error(f"there is no folder {base.parent}")
    wanted = [name for name in arguments.peers.split(",") if name] if arguments.peers is not None \
        else [] if arguments.base else [peer.name for peer in PEERS]
    for name in wanted:
        if name not in [peer.name for peer in PEERS]:
            parser.error(f"there is no peer {name}; there are: "
                         + " ".join(peer.name for peer in PEERS))

    if arguments.base:
        arguments.base = pathlib.Path(arguments.directory or ".", arguments.base)
        if not any((arguments.base / "bench").glob("bench_csp_*")):
            parser.error(f"{arguments.base}/bench has no bench_csp_*")

    if arguments.check:
        return

    BUILD.mkdir(parents=True, exist_ok=True)
    peers, skipped = [], []
    for peer in PEERS:
        if peer.name in wanted:
            reason = peer.build()
            if reason:
                print(f"without {peer.name}: {reason}", file=sys.stderr)
                skipped.append(f"{peer.name}: {reason}")
            else:
                peers.append(peer)

    if arguments.base:
        peers.insert(0, Build("base", arguments.base))

    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"other programs run here (load {load:.1f}): these figures are no measurement",
              file=sys.stderr)
    start = datetime.datetime.now(datetime.timezone.utc)
    table = measure(rows, peers, rounds, seconds, limit=120)
    taken = datetime.datetime.now(datetime.timezone.utc) - start

    options = [word for word in sys.argv[1:] if not word.startswith("--directory")]
    facts = {
        "command": " ".join(["./run bench csp"] + options),
        "date": start.strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "load before": round(load, 1),
        "commit": commit(),
        "rounds": rounds,
        "seconds of a run, at least": seconds,
        "minutes in all": round(taken.total_seconds() / 60, 1),
        "leat": first_line("g++", "--version") + ", -O2",
        **{peer.name: peer.version() for peer in peers},
    }
    for reason in skipped:
        facts[f"without {reason.split(':')[0]}"] = reason.split(": ", 1)[1]

    print_table(rows, peers, table, sys.stdout)
    if base:
        with open(f"{base}.txt", "w") as out:
            for key, value in facts.items():
                print(f"{key}: {value}", file=out)
            print(file=out)
            print_table(rows, peers, table, out)
        results = [{"problem": problem, "workers": workers, "metric": metric,
                    "values": {name: sample.values for name, sample in of.items()},
                    "median": {name: sample.median for name, sample in of.items()},
                    "failed": {name: sample.failure for name, sample in of.items()
                               if sample.failure}}
                   for (problem, workers, metric), of in table.items()]
        judged = [{"problem": row.problem, "workers": workers, "metric": row.metric,
                   "target": text, "met": met}
                  for row in rows for workers in row.workers
                  for text, met in judge(row, workers, table)]
        judged += [{"problem": row.problem, "workers": workers, "metric": row.metric,
                    "target": f"{medians:.3f}x, least {least:.3f}x base (target {NOT_SLOWER_THAN})",
                    "met": met} for row, workers, medians, least, met in against_base(rows, table)]
        with open(f"{base}.json", "w") as out:
            json.dump({"facts": facts, "results": results, "targets": judged}, out, indent=1)
            out.write("\n")
        print(f"written: {base}.txt, {base}.json", file=sys.stderr)


if __name__ == "__main__":
    main()
