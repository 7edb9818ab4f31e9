"""./run bench csp: bench/csp against other runtimes. bench/peers/csp/README.md has the protocol."""

import os
import pathlib
import re
import shutil

from engine.programs import (BUILD, PEERS, Failed, built, capture, environment, execute, first_line,
                             google_benchmark, listed, package, requirements)
from engine.suite import Run, Suite as Base
from engine.tables import Notes, matrix
from engine.verdicts import Requirement, Target, median, ratio

HERE = PEERS / "csp"


class Row:
    """A problem. `go`, `best` and `threads` are the ratios, theirs to ours, that are asked for
    against Go, the fastest peer and the fastest one of OS threads; a dict gives them for each
    number of workers. `gain` is what two workers must gain over one of our own, `most` a bound
    on our own figure. `streamed` has glibc store large copies past the caches, as Go does."""

    def __init__(self, problem, program, go=None, best=None, threads=None, metric="ns",
                 workers=(1, 2), gain=1 / 1.1, most=None, quick=False, streamed=False):
        self.problem, self.program, self.metric = problem, program, metric
        self.asked = {"go": go, "fastest": best, "threads": threads}
        self.gain, self.most = gain, most
        self.workers, self.quick = workers, quick
        self.name = problem + (" streamed" if streamed else "")
        self.label = self.name + ("" if metric == "ns" else f" {metric}")
        self.environment = {"GLIBC_TUNABLES": STREAMED} if streamed else {}
        self.unit = {"bytes": "B", "ratio": "x"}.get(metric, "ns")

    def key(self, workers):
        return f"{self.label}, {workers}"


# Go's memmove stores past the caches from 1 MiB on; glibc's threshold is hundreds of MiB here.
STREAMED = "glibc.cpu.x86_non_temporal_threshold=0x100000"
FASTER = NO_SLOWER = 1.0
WITHIN_1_3 = 1 / 1.3
WITHIN_1_5 = 1 / 1.5
AT_TWO = lambda ratio: {2: ratio}

ROWS = [
    Row("ChanSync", "channel", 3, FASTER, quick=True),
    Row("Spsc/1", "channel", 3.5, FASTER, quick=True),
    Row("Spsc/16", "channel", 3.5, FASTER),
    Row("Spsc/128", "channel", 3.5, FASTER, quick=True),
    Row("Spsc/1024", "channel", 3.5, FASTER),
    Row("Mpmc/128", "channel", 3.5, FASTER, quick=True),
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
    Row("Spawn/1000", "spawn"),
    Row("Spawn/1000000", "spawn", 5, FASTER, quick=True),
    Row("Parked/100000", "spawn", metric="bytes", most=4.4 * 1024),
    Row("Sieve/500", "pipeline", best=FASTER, gain=1, quick=True),
    Row("Sieve/2000", "pipeline", 3.5, FASTER, gain=1),
    Row("Pipe64", "pipeline", best=FASTER, quick=True),
    Row("Pipeline4", "pipeline", 2, FASTER, quick=True),
    Row("Items4KiB", "channel", 2, FASTER),
    Row("Circulate1MiB", "pipeline", 2, FASTER),
    Row("ThreadToFiber", "channel", {1: 1.5, 2: 1.2}, FASTER, quick=True),
    Row("Readable", "io", WITHIN_1_5, gain=None, quick=True),
    Row("IdleDescriptors", "io", metric="ratio", most=1.05),
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
                        gain=gain, quick=kib == 1024 and pairs == 1))
for kib in (1024, 4096, 16384):
    ROWS.append(Row(f"DoubleBuffer/{kib}/1", "double_buffer", threads=AT_TWO(NO_SLOWER),
                    streamed=True))
ROWS += [
    Row("WakeWhileHogging", "latency", metric="p50", workers=(2,)),
    Row("WakeWhileHogging", "latency", best=FASTER, metric="p99", workers=(2,), most=200e3,
        quick=True),
    Row("FutexWake", "latency", metric="p50", workers=(2,)),
    Row("FutexWake", "latency", metric="p99", workers=(2,), quick=True),
    Row("LockUnlock", "machine", workers=(1,)),
    Row("BareSwitch/2", "machine", workers=(1,)),
    Row("BareSwitch/1000", "machine", workers=(1,)),
    Row("FirstTouch", "machine", workers=(1,), quick=True),
]
for kib in (64, 256, 1024, 4096, 16384):
    ROWS.append(Row(f"HandOff/{kib}", "machine", quick=kib == 1024))
    ROWS.append(Row(f"CopyApart/{kib}", "machine", workers=(2,), quick=kib == 1024))
for kib in (1024, 4096, 16384):
    ROWS.append(Row(f"HandOff/{kib}", "machine", streamed=True))
BY_KEY = {row.key(workers): (row, workers) for row in ROWS for workers in row.workers}

# Where a peer's problem is not quite the one of the row. The first that fits counts.
NOTES = [
    ("boost_fiber", "(Spsc/1.|Mpmc|Items|Pipe|ThreadToFiber|CoarseJobs)",
     "its capacities are powers of two less one: the next one above the named, 31 for 16"),
    ("tokio", "(ChanSync|Select./0|Ring|Sieve)", "capacity 1: it has no rendezvous"),
    ("tokio", "CoarseJobs", "the four tasks share the receiver through a mutex"),
    ("tokio", "Parked", "stackless tasks, on a semaphore"),
    ("boost_fiber|tokio|tbb|moodycamel|threads", "ChanNonblocking", "capacity 1"),
    ("tbb", "(Spawn|Pipeline4|CoarseJobs)", "tasks and parallel_pipeline; a task cannot wait"),
    ("moodycamel", "Mpmc", "in order only among the values of one sender"),
    ("go", "ThreadToFiber", "the thread is a goroutine with LockOSThread"),
    ("crossbeam|tbb|moodycamel|threads", "ThreadToFiber", "to a second thread"),
]
STEADY = 100e3  # FutexWake's p99 up to which WakeWhileHogging's says something

# --- the contestants --------------------------------------------------------------------------


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


class Leat:
    """A build: of this tree, or of another commit."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.listed = {}  # program -> the names of its benchmarks

    def names(self, row, workers):
        return f"{row.problem}/workers:{workers}", row.problem

    def has(self, row, workers):
        if row.program not in self.listed:
            program = self.folder / f"bench_csp_{row.program}"
            self.listed[row.program] = listed(program) if program.exists() else []
        return any(name in self.listed[row.program] for name in self.names(row, workers))

    def run(self, row, workers, seconds, limit):
        """Its figures of this row, by metric."""
        found = google_benchmark(self.folder / f"bench_csp_{row.program}", self.names(row, workers), seconds, limit,
                                 env={**os.environ, **row.environment})
        if len(found) != 1:
            raise Failed(f"{len(found)} benchmarks are {row.problem}")
        return next(iter(found.values()))


class Peer:
    def __init__(self, name, sources, command, version, threads=False, options=lambda peer: {}):
        self.name, self.version = name, version
        self.threads = threads  # OS threads: held to as many CPUs as the others have workers
        self.program, self.sources = BUILD / name, [HERE / source for source in sources]
        self.command, self.options = command, options

    def build(self):
        """None, or why there is no such program."""
        why = built(self.program, [*self.sources, pathlib.Path(__file__)], self.command(self), **self.options(self))
        if why is None:
            self.problems = set(capture([self.program]).split())
        return why

    def has(self, row, workers):
        return row.problem in self.problems

    def run(self, row, workers, seconds, limit):
        """Its figures of this row, by metric."""
        count, held = workers + (row.problem == "ThreadToFiber"), {}  # the thread is nobody's worker
        if self.threads:
            held["preexec_fn"] = lambda: (os.setpgrp(), os.sched_setaffinity(0, cpus(count)))
        lines = execute([self.program, row.problem, workers, seconds], limit,
                        env={**os.environ, **row.environment}, **held).split()
        return {name: float(value) for name, value in zip(lines[::2], lines[1::2])}


def newer_go():
    """Go's program, of the package that requirements.txt names; None where that cannot be had."""
    folder = BUILD / "go-package"
    try:
        environment(folder, requirements(HERE / "requirements.txt"))
    except Failed:
        pass
    return next(folder.glob("lib/python3*/site-packages/go/bin/go"), None)


def go(peer):
    return [newer_go() or "go", "build", "-o", peer.program, "."]


def of_go(peer):
    environment = {**os.environ, "GOCACHE": str(BUILD / "go-cache"), "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    environment.pop("GOROOT", None)  # of another Go
    return {"cwd": HERE / "go", "env": environment}


def rust(peer):
    """With the distribution's compiler and crates alone, in a copy: cargo writes beside them."""
    copy = BUILD / "rust"
    shutil.copytree(HERE / "rust", copy, dirs_exist_ok=True)
    return ["sh", "-c", f"/usr/bin/cargo build --offline --release --features {peer.name} --bin {peer.name} && "
            f"cp target/release/{peer.name} '{peer.program}'"]


def of_rust(peer):
    return {"cwd": BUILD / "rust", "env": {
        **os.environ, "PATH": "/usr/bin:" + os.environ["PATH"], "RUSTC": "/usr/bin/rustc",
        "CARGO_HOME": str(BUILD / "cargo"), "CARGO_TARGET_DIR": str(BUILD / "rust" / "target")}}


def rust_version(*crates):
    return ", ".join([first_line("/usr/bin/rustc", "--version")] + [package(f"librust-{crate}-dev") for crate in crates])


def cxx(*libraries):
    return lambda peer: ["g++", "-std=c++20", "-O3", "-DNDEBUG", "-pthread", peer.sources[0], "-o", peer.program,
                         *libraries]


RUST = ["rust/Cargo.toml", "rust/.cargo/config.toml", "rust/src/lib.rs", "rust/src/problems.rs"]
SHARED = ["peer.h", "problems.h", "items.h"]
OTHERS = [
    Peer("go", ["go/main.go", "go/go.mod", "requirements.txt"], go,
         # The program says what built it; a distribution's Go may have come since.
         lambda: first_line(newer_go() or "go", "version", BUILD / "go").split(": ")[-1], options=of_go),
    Peer("boost_fiber", ["boost_fiber.cpp", *SHARED], cxx("-lboost_fiber", "-lboost_context"),
         lambda: package("libboost-fiber-dev")),
    Peer("tokio", [*RUST, "rust/src/bin/tokio.rs"], rust, lambda: rust_version("tokio"), options=of_rust),
    Peer("crossbeam", [*RUST, "rust/src/bin/crossbeam.rs"], rust,
         lambda: rust_version("crossbeam", "crossbeam-channel"), threads=True, options=of_rust),
    Peer("tbb", ["tbb.cpp", *SHARED, "threads.h"], cxx("-ltbb"), lambda: package("libtbb-dev"), threads=True),
    Peer("moodycamel", ["moodycamel.cpp", *SHARED, "threads.h"], cxx(),
         lambda: package("libconcurrentqueue-dev") + ", " + package("libreaderwriterqueue-dev"), threads=True),
    Peer("threads", ["threads.cpp", *SHARED, "threads.h"], cxx(), lambda: "std::mutex, std::condition_variable",
         threads=True),
]


def asked_of(row, workers):
    """Ratios are theirs to ours."""
    whose = {"go": "go", "fastest": "|".join(peer.name for peer in OTHERS),
             "threads": "|".join(peer.name for peer in OTHERS if peer.threads)}
    for which, bound in row.asked.items():
        bound = bound.get(workers) if isinstance(bound, dict) else bound
        if bound:
            yield Requirement(re.escape(row.key(workers)), f"{whose[which]} / leat", bound, True)
    if row.most:
        yield Requirement(re.escape(row.key(workers)), "leat", row.most, unit=row.unit)


# --- the suite --------------------------------------------------------------------------------


class Suite(Base):
    about = "The problems of bench/csp in Leat and in its peers."
    rows = tuple(dict.fromkeys(row.name for row in ROWS))
    peers = tuple(peer.name for peer in OTHERS)
    # Many short runs find the least times of both builds, where a few long ones are all disturbed.
    rounds = {"": 7, "quick": 3, "base": 40}
    seconds = {"": 0.2, "quick": 0.1, "base": 0.02}
    quick = "some of the problems, in less than 5 minutes"
    base = "bench_csp_*"
    asked = [one for row, workers in BY_KEY.values() for one in asked_of(row, workers)]
    builds = sorted({f"bench_csp_{row.program}" for row in ROWS})

    def add_options(self, add):
        add("--workers", type=int, choices=(1, 2), help="one of the two numbers")

    def chosen(self, options):
        names = super().chosen(options)
        return [(row, workers) for row in ROWS if row.name in names and (row.quick or not options.quick)
                for workers in row.workers if options.workers in (None, workers)]

    def plan(self, options):
        yield from super().plan(options)
        wanted = self.wanted_peers(options)
        for peer, packages in (("boost_fiber", "libboost-fiber-dev"), ("tbb", "libtbb-dev"),
                               ("moodycamel", "libconcurrentqueue-dev libreaderwriterqueue-dev"),
                               ("tokio", "cargo rustc librust-tokio-dev"), ("crossbeam", "cargo rustc librust-crossbeam-dev")):
            if peer in wanted:
                yield "want", [packages]
        if "go" in wanted and newer_go() is None:
            yield "want", ["golang-go"]

    def sections(self, bench):
        runners = [Leat("leat", bench.options.programs), *([Leat("base", bench.options.base)] if bench.options.base else [])]
        for peer in OTHERS:
            if peer.name in bench.peers:
                why = peer.build()
                if why:
                    bench.without(peer.name, why)
                else:
                    runners.append(peer)
                    bench.facts[peer.name] = peer.version()
        runs = {}  # several rows may be figures of one run
        for row, workers in bench.rows:
            runs.setdefault((row.name, workers), []).append(row)
        for (name, workers), rows in runs.items():
            group = [self.run_of(bench, one, rows, workers) for one in runners if one.name == "leat" or one.has(rows[0], workers)]
            yield lambda turn, group=group: [group]

    def run_of(self, bench, runner, rows, workers):
        def figures():
            found = runner.run(rows[0], workers, bench.options.seconds, bench.options.limit)
            return {row.key(workers): found[row.metric] for row in rows}
        return Run(runner.name, f"{rows[0].name}, {workers}", figures)

    def judged(self, values, facts):
        futex = median(values, "FutexWake p99, 2", "leat")
        targets = super().judged(values, facts)
        for target in targets:
            target.judged &= not target.what.startswith("WakeWhileHogging") or bool(futex and futex <= STEADY)
        return targets

    def targets(self, values, facts):
        found = []
        for row in ROWS:
            one, two = (values.get(row.key(workers), {}).get("leat") for workers in (1, 2))
            runtime = row.program != "machine" and not row.problem.startswith("Futex")
            if runtime and row.metric == "ns" and row.gain and one and two:
                found.append(Target(f"{row.label}, 2 workers to 1", 1 / row.gain,
                                    ratio(median(values, row.key(2), "leat"), median(values, row.key(1), "leat")),
                                    False, "x", note=f"best of the rounds {min(two) / min(one):.3f}x"))
        return found

    def tables(self, values, facts, out):
        notes = Notes()

        def note(peer, key):
            problem = BY_KEY[key][0].problem
            return next((text for names, problems, text in NOTES
                         if re.fullmatch(names, peer) and re.match(problems, problem)), None)

        matrix(out, ["problem", "w"], [([row.label, str(workers)], key, row.unit) for key, (row, workers) in BY_KEY.items()],
               values, ("base", *self.peers), "leat", note, notes)
        notes.print(out, "w: workers. A peer's cell: its median in leat's unit, and how many times leat's that is.")

    def saved(self, values, facts):
        return {"results": [
            {"problem": row.name, "workers": workers, "metric": row.metric,
             "median": {name: median(values, key, name) for name in values[key]}}
            for key, (row, workers) in BY_KEY.items() if key in values]}
