"""The contestants: builds of Leat and the peers, how they are built and run."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from facts import ROOT, capture, first_line

HERE = pathlib.Path(__file__).resolve().parent
BUILD = ROOT / "build" / "peers"
OURS = ROOT / "build" / "release"


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
             f"--benchmark_min_time={seconds}", "--benchmark_format=json"], limit,
            env={**os.environ, **row.environment}))["benchmarks"]
        if len(found) != 1:
            raise Failed(f"{len(found)} benchmarks match {name}")
        one = found[0]
        if one.get("error_occurred"):
            raise Failed(one["error_message"])
        unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[one["time_unit"]]
        return {**{key: one[key] for key in ("bytes", "p50", "p99", "ratio") if key in one},
                "ns": one["real_time"] * unit}


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
        options = {"env": {**os.environ, **row.environment}}
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


def newer_go():
    """Go's program, of the package that requirements.txt names; None where that cannot be had."""
    wanted = HERE / "requirements.txt"
    folder = BUILD / "go-package"
    stamp = folder / "leat_requirements"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        BUILD.mkdir(parents=True, exist_ok=True)
        print(f"installing Go into {folder}", file=sys.stderr)
        for command in ([sys.executable, "-m", "venv", "--clear", folder],
                        [folder / "bin" / "python3", "-m", "pip", "install", "--retries=1",
                         "--disable-pip-version-check", "-r", wanted]):
            result = logged(command)
            (BUILD / "go-package.log").write_text(result.stdout)
            if result.returncode != 0:
                return None
        stamp.write_text(wanted.read_text())
    return next(folder.glob("lib/python3*/site-packages/go/bin/go"), None)


def go():
    return newer_go() or "go"


def build_go(peer):
    environment = {**os.environ, "GOCACHE": str(BUILD / "go-cache"), "GOTOOLCHAIN": "local",
                   "GOFLAGS": ""}
    environment.pop("GOROOT", None)  # of another Go
    return logged([go(), "build", "-o", peer.program, "."], cwd=HERE / "go", env=environment)


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


SHARED = ["peer.h", "problems.h", "items.h"]


def build_cxx(*libraries):
    return lambda peer: logged([*CXX, peer.sources[0], "-o", peer.program, *libraries])


PEERS = [
    Peer("go", ["go/main.go", "go/go.mod", "requirements.txt"], build_go,
         # The program says what built it; a distribution's Go may have come since.
         lambda: first_line(go(), "version", BUILD / "go").split(": ")[-1]),
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
