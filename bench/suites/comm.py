"""./run bench comm: all-reduce beside OpenMPI, Gloo and a bare loop; exchanges of gradients; parameter servers.
bench/peers/comm/README.md has the protocol."""

import pathlib
import shutil

from engine.programs import BUILD, MPIRUN, PEERS, built, execute, first_line, google_benchmark, package
from engine.suite import Run, Suite as Base, builds_with
from engine.tables import matrix
from engine.verdicts import Requirement, compared, median, ratio

HERE = PEERS / "comm"
MIB = 1 << 20
RANKS = (2, 4)
SIZES = (4, 4 << 10, 64 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
SLOW = (4 << 10, 256 * MIB)  # not in --quick
POLICIES = ("fifo", "priority", "bucketed")
WIDTHS = {2: "1/1024 of its elements", 64: "all"}  # of ResNet-50: what that is
# Of bench/comm/server_bench.cpp: what -> its name there, and what its figure is.
SERVER = {"copy": (f"copy/{64 * MIB}", "B/s"), "sgd": (f"updates/sgd/{64 * MIB}", "B/s"),
          "momentum": (f"updates/momentum/{64 * MIB}", "B/s"), "adam": (f"updates/adam/{64 * MIB}", "B/s"),
          "fetch": (f"pieces/fetch/{MIB}", "memcpys"), "push_and_fetch": (f"pieces/push_and_fetch/{MIB}", "memcpys")}


def size_text(size):
    for unit, name in ((MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def row_of(ranks, size):
    return f"all_reduce/ranks:{ranks}/bytes:{size}"


# row -> (what it is, the unit of its figure); bench/comm/exchange_bench.cpp has the exchanges' names.
ALL_REDUCE = {row_of(ranks, size): (f"{size_text(size)}, {ranks} ranks", "ns") for ranks in RANKS for size in SIZES}
EXCHANGE = {**{f"pieces/{policy}": (f"a piece of 4 B and rank, {policy}", "ns") for policy in POLICIES},
            **{f"resnet50_step/{policy}/width:{width}": (f"a step of ResNet-50's 161 gradients, {part}, {policy}", "ns")
               for width, part in WIDTHS.items() for policy in POLICIES}}
SERVERS = {f"server/{what}": (f"server, local:2, {what}", unit) for what, (_, unit) in SERVER.items()}

ASKED = [
    Requirement("all_reduce/.*/bytes:4", "local", 2, scale=1e3, unit="us"),
    Requirement("all_reduce/ranks:2/bytes:4", "mpi", 30, scale=1e3, unit="us"),
    Requirement("all_reduce/ranks:4/bytes:4", "mpi", 100, scale=1e3, unit="us"),
    *(Requirement(f"all_reduce/.*/bytes:{size}", of, bound, at_least) for size in SIZES for at, of, bound, at_least in (
        (size >= MIB, "local / bare", 1.2, False), (size >= 64 << 10, "openmpi|gloo|mpi / local", 1, True),
        (size >= 16 * MIB, "openmpi / local", 3, True)) if at),
    *(Requirement(f"all_reduce/.*/bytes:{mib * MIB}", "openmpi|gloo / mpi", bound, True)
      for mib, bound in ((1, 0.7), (4, 0.7), (16, 0.9), (64, 1.3))),
    Requirement("pieces/.*", "local", 1, scale=1e3, unit="us"),  # for a piece and rank
    Requirement("server/push_and_fetch", "local", 2.2, unit="memcpys"),
]

# --- the contestants --------------------------------------------------------------------------


class Fibers:
    """Of bench/comm/all_reduce_bench.cpp, in a build of Leat."""

    def __init__(self, name, folder, prefix=""):
        self.name, self.of, self.folder = prefix + name, name, folder

    def run(self, ranks, sizes, seconds, limit):
        names = {f"{self.of}/ranks:{ranks}/bytes:{size}": size for size in sizes}
        found = google_benchmark(self.folder / "bench_comm_all_reduce", names, seconds, limit)
        return {names[name]: one["median_ns"] for name, one in found.items()}


class Processes:
    """A program of peer.h: `compiler` makes it of HERE's sources, or Leat's build has it."""

    def __init__(self, name, by_mpirun, program=None, compiler=None, flags=()):
        self.name, self.by_mpirun, self.compiler, self.flags = name, by_mpirun, compiler, flags
        self.program, self.used = program or BUILD / name, set()

    def build(self):
        """None, or why there is no such program."""
        if self.by_mpirun and shutil.which("mpirun") is None:
            return "there is no mpirun"
        if self.compiler is None:
            return None if self.program.exists() else "it was not built, without MPI"
        if shutil.which(self.compiler) is None:
            return f"there is no {self.compiler}"
        sources = [HERE / self.name / "main.cpp", HERE / "peer.h", pathlib.Path(__file__)]
        return built(self.program, sources,
                     [self.compiler, "-std=c++20", "-O3", "-o", self.program, sources[0], *self.flags])

    def run(self, ranks, sizes, seconds, limit):
        found = {}
        for line in execute([*(MPIRUN + [ranks] if self.by_mpirun else []), self.program, ranks, seconds, *sizes],
                            limit).splitlines():
            size, nanoseconds, algorithm = line.split()
            found[int(size)] = float(nanoseconds)
            self.used.add(algorithm)
        return found


class Suite(Base):
    about = "The benchmarks of bench/comm beside OpenMPI and Gloo."
    rows = (*ALL_REDUCE, *EXCHANGE, *SERVERS)
    peers = ("openmpi", "gloo")
    ours = ("local", "bare", "mpi", "base")
    rounds = {"": 5, "quick": 2, "base": 15}
    seconds = {"": 0.1, "quick": 0.05, "base": 0.05}
    quick = "fewer sizes and rounds: 2 minutes"
    base = "bench_comm_all_reduce"
    asked = ASKED
    wants = ("openmpi-bin libopenmpi-dev", "libgloo-dev")  # a peer, and what the transport mpi needs; a peer
    builds = ("bench_comm_all_reduce", "bench_comm_exchange", "bench_comm_server")

    def add_options(self, add):
        add("--hosts", metavar="N", help="training steps between N hosts on a slow wire, in place of all that; --hosts N "
            "--help tells its arguments")
        add("--ddp", action="store_true", help="LibTorch's gradients beside torch's DistributedDataParallel; likewise")

    def plan(self, options):
        yield from super().plan(options)
        yield "with", ("libopenmpi-dev", "bench_comm_mpi")

    def chosen(self, options):
        return [row for row in super().chosen(options) if not options.quick or not (
            row in [row_of(ranks, size) for ranks in RANKS for size in SLOW] or "width:64" in row)]

    def sections(self, bench):
        options, contestants = bench.options, []
        for build, folder in builds_with(options, "bench_comm_all_reduce").items():
            prefix = "" if build == "leat" else "base "
            contestants += [Fibers("local", folder, prefix), Fibers("bare", folder, prefix),
                            Processes(f"{prefix}mpi", True, folder / "bench_comm_mpi")]
        contestants += [one for one in (Processes("openmpi", True, compiler="mpicxx"),
                                        Processes("gloo", False, compiler="g++", flags=["-lgloo", "-pthread"]))
                        if one.name in bench.peers]
        for one in list(contestants):
            why = one.build() if isinstance(one, Processes) else None
            if why:
                bench.without(one.name, why)
                contestants.remove(one)
        bench.facts |= {"openmpi": first_line("mpirun", "--version"), "gloo": package("libgloo-dev")}

        def all_reduce(one, ranks, sizes):
            return Run(one.name, f"{ranks} ranks", lambda: {
                row_of(ranks, size): figure
                for size, figure in one.run(ranks, sizes, options.seconds, options.limit).items()})

        def fibers(program, names, counter):
            """names: the benchmark's -> row."""
            def run(name, folder):
                return Run(name, program, lambda: {names[row]: one[counter(row)] for row, one in google_benchmark(
                    folder / f"bench_comm_{program}", names, options.seconds, options.limit).items()})
            return [run("local" if build == "leat" else "base local", folder)
                    for build, folder in builds_with(options, f"bench_comm_{program}").items()]

        exchanges = {row: row for row in EXCHANGE if row in bench.rows}
        servers = {name: f"server/{what}" for what, (name, _) in SERVER.items() if f"server/{what}" in bench.rows}
        groups = [[all_reduce(one, ranks, sizes) for one in contestants] for ranks in RANKS for sizes in [
            [size for size in SIZES if row_of(ranks, size) in bench.rows]] if sizes]
        if exchanges:
            groups.append(fibers("exchange", exchanges, lambda row: (
                "ns_per_piece_and_rank" if row.startswith("pieces") else "median_ns")))
        if servers:
            groups.append(fibers("server", servers, lambda row: "memcpys" if row.startswith("pieces") else "bytes_per_second"))
        yield lambda turn: groups
        for one in contestants:
            if one.name == "gloo":
                bench.facts["gloo used"] = ", ".join(sorted(one.used))

    def is_rate(self, row):
        return SERVERS.get(row, ("", ""))[1] == "B/s"

    def targets(self, values, facts):
        copy, sgd = (median(values, f"server/{what}", "local") for what in ("copy", "sgd"))
        return [compared("server: SGD, of a copy's bandwidth", 0.8, ratio(sgd, copy), True)] if "server/sgd" in values else []

    def tables(self, values, facts, out):
        for head, rows in (("all-reduce", ALL_REDUCE), ("exchange, local:4", EXCHANGE), ("parameter server", SERVERS)):
            matrix(out, [head], [([what], row, unit) for row, (what, unit) in rows.items()], values, reference="local")
        print("A cell: the median of an operation, and how many times local's that is.\n", file=out)
