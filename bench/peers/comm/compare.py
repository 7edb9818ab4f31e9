#!/usr/bin/env python3
"""Runs the benchmarks of bench/comm and its peers, in turns, and prints one table with the targets.

./run bench comm calls it, once the packages are installed and bench/comm is built. A missed target is
reported; it is not a failure. A benchmark of Leat's that fails is one: exit status 1.
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
from facts import ROOT, commit, first_line, machine  # noqa: E402

BUILD = ROOT / "build" / "peers"
OURS = ROOT / "build" / "release" / "bench"
MIB = 1 << 20
RANKS = (2, 4)
SIZES = (4, 4 << 10, 64 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
POLICIES = ("fifo", "priority", "bucketed")
STEPS = {2: "1/1024 of its elements", 64: "all"}  # of ResNet-50: its width -> what that is
PIECE = "ns_per_piece_and_rank"
# Of bench/comm/server_bench.cpp: what -> its name there.
SERVER = {"copy": f"copy/{64 * MIB}", "sgd": f"updates/sgd/{64 * MIB}",
          "momentum": f"updates/momentum/{64 * MIB}", "adam": f"updates/adam/{64 * MIB}",
          "fetch": f"pieces/fetch/{MIB}/iterations:1/manual_time",
          "push_and_fetch": f"pieces/push_and_fetch/{MIB}/iterations:1/manual_time"}

# --- the contestants --------------------------------------------------------------------------


class Failed(Exception):
    pass


def execute(command, limit):
    try:
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {limit} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if re.search(r"\w", line)]
        raise Failed(said[0] if said else f"exit status {done.returncode}")
    return done.stdout


def google_benchmark(program, names, seconds, limit):
    """Counters of those benchmarks, by name."""
    out = execute([OURS / program, f"--benchmark_filter=^({'|'.join(names)})(/real_time)?$",
                   f"--benchmark_min_time={seconds}", "--benchmark_format=json"], limit)
    found = {}
    for one in json.loads(out)["benchmarks"]:
        if one.get("error_occurred"):
            raise Failed(one["error_message"])
        found[one["name"].removesuffix("/real_time")] = one
    return found


class Fibers:
    """Of bench/comm/all_reduce_bench.cpp."""

    ours, sources = True, ()

    def __init__(self, name):
        self.name = name

    def build(self):
        return None

    def run(self, ranks, sizes, seconds, limit):
        names = {f"{self.name}/ranks:{ranks}/bytes:{size}": size for size in sizes}
        found = google_benchmark("bench_comm_all_reduce", names, seconds, limit)
        return {names[name]: (one["median_ns"], "") for name, one in found.items()}


class Processes:
    """A program of peer.h."""

    def __init__(self, name, compiler, flags, by_mpirun):
        self.name, self.compiler, self.flags, self.by_mpirun = name, compiler, flags, by_mpirun
        self.ours = compiler is None
        self.program = OURS / "bench_comm_mpi" if self.ours else BUILD / name
        self.sources = [] if self.ours else [HERE / name / "main.cpp", HERE / "peer.h"]

    def build(self):
        """None, or why there is no such program."""
        if self.by_mpirun and shutil.which("mpirun") is None:
            return "there is no mpirun"
        if self.ours:
            return None if self.program.exists() else "it was not built, without MPI"
        if shutil.which(self.compiler) is None:
            return f"there is no {self.compiler}"
        newest = max(path.stat().st_mtime for path in self.sources + [pathlib.Path(__file__)])
        if not self.program.exists() or self.program.stat().st_mtime < newest:
            self.program.unlink(missing_ok=True)
            print(f"building {self.name}", file=sys.stderr)
            done = subprocess.run(
                [self.compiler, "-std=c++20", "-O3", "-o", self.program, self.sources[0],
                 *self.flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            (BUILD / f"{self.name}.log").write_text(done.stdout)
            if done.returncode != 0:
                return f"it does not build; see {BUILD / self.name}.log"
        return None

    def run(self, ranks, sizes, seconds, limit):
        start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                 "btl", "self,vader", "-np", ranks] if self.by_mpirun else []
        found = {}
        for line in execute([*start, self.program, ranks, seconds, *sizes], limit).splitlines():
            size, nanoseconds, algorithm = line.split()
            found[int(size)] = (float(nanoseconds), algorithm)
        return found


CONTESTANTS = (
    Fibers("local"),
    Fibers("bare"),
    Processes("openmpi", "mpicxx", [], True),
    Processes("gloo", "g++", ["-lgloo", "-pthread"], False),
    Processes("mpi", None, [], True),
)
PEERS = ("openmpi", "gloo")


def steps():
    """The rows of bench/comm/exchange_bench.cpp."""
    return [f"pieces/{policy}" for policy in POLICIES] + [
        f"resnet50_step/{policy}/width:{width}" for width in STEPS for policy in POLICIES]


def row_of(ranks, size):
    return f"all_reduce/ranks:{ranks}/bytes:{size}"


class Results:
    """values: row -> contestant -> a figure of each round: in ns; of servers, as SERVER's table says."""

    def __init__(self, values, failures):
        self.values, self.failures = values, failures

    def add(self, row, contestant, value):
        self.values.setdefault(row, {}).setdefault(contestant, []).append(value)

    def get(self, row, contestant):
        values = self.values.get(row, {}).get(contestant)
        return statistics.median(values) if values else None


def measure(contestants, rows, rounds, seconds, limit, results, algorithms):
    """Each round, every contestant measures all sizes once; whose turn is first changes."""
    for turn in range(rounds):
        tasks = []
        for ranks in RANKS:
            sizes = [size for size in SIZES if row_of(ranks, size) in rows]
            if sizes:
                tasks += [(one, ranks, sizes) for one in
                          contestants[turn % len(contestants):] + contestants[:turn % len(contestants)]]
        for one, ranks, sizes in tasks:
            name = f"{one.name}, {ranks} ranks"
            if name in results.failures:
                continue
            if sys.stderr.isatty():
                print(f"\rround {turn + 1}/{rounds}: {name}\033[K", end="", file=sys.stderr)
            try:
                for size, (value, how) in one.run(ranks, sizes, seconds, limit).items():
                    results.add(row_of(ranks, size), one.name, value)
                    if how:
                        algorithms.setdefault(one.name, set()).add(how)
            except Failed as failure:
                results.failures[name] = str(failure)
        wanted = [row for row in steps() if row in rows]
        if wanted and "exchange" not in results.failures:
            try:
                found = google_benchmark("bench_comm_exchange", wanted, seconds, limit)
                for row, counters in found.items():
                    results.add(row, "local",
                                counters[PIECE if row.startswith("pieces") else "median_ns"])
            except Failed as failure:
                results.failures["exchange"] = str(failure)
        wanted = {SERVER[what]: f"server/{what}" for what in SERVER if f"server/{what}" in rows}
        if wanted and "server" not in results.failures:
            try:
                for name, of in google_benchmark("bench_comm_server", wanted, seconds, limit).items():
                    results.add(wanted[name], "local",
                                of["memcpys"] if "memcpys" in of else of["bytes_per_second"] / 1e9)
            except Failed as failure:
                results.failures["server"] = str(failure)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


# --- judging ----------------------------------------------------------------------------------


def targets_of(results, rows):
    """Each as (what, asked, reached, verdict). Reached is the worst of the rows that it is for, the
    first of them."""
    found = []

    def add(what, bound, at_least, figures, scale=1.0, unit=""):
        figures = [figure for figure in figures if figure is not None]
        if not figures:
            found.append({"what": what, "bound": bound, "at_least": at_least, "reached": None,
                          "unit": unit, "verdict": "not judged"})
            return
        reached = (min if at_least else max)(figures) / scale
        met = reached >= bound if at_least else reached <= bound
        found.append({"what": what, "bound": bound, "at_least": at_least, "reached": reached,
                      "unit": unit, "verdict": "met" if met else "MISSED"})

    def ratio(of, to):
        return None if of is None or to is None else of / to

    def best(row, names):
        return min((value for name in names if (value := results.get(row, name)) is not None),
                   default=None)

    for ranks in RANKS:
        sizes = [size for size in SIZES if row_of(ranks, size) in rows]
        row = {size: row_of(ranks, size) for size in sizes}
        of = {size: {one.name: results.get(row[size], one.name) for one in CONTESTANTS}
              for size in sizes}
        for size in sizes:
            what = f"{ranks} ranks, {size_text(size)}: "
            if size == 4:
                add(what + "local", 2, False, [of[size]["local"]], 1e3, "us")
                add(what + "mpi", 30 if ranks == 2 else 100, False, [of[size]["mpi"]], 1e3, "us")
            if size >= MIB:
                add(what + "local / bare", 1.2, False,
                    [ratio(of[size]["local"], of[size]["bare"])])
            if size >= 64 << 10:
                add(what + "the best of the others / local", 1, True,
                    [ratio(best(row[size], (*PEERS, "mpi")), of[size]["local"])])
            if size >= 16 * MIB:
                add(what + "OpenMPI / local", 3, True,
                    [ratio(of[size]["openmpi"], of[size]["local"])])
            bound = {MIB: 0.7, 4 * MIB: 0.7, 16 * MIB: 0.9, 64 * MIB: 1.3}.get(size)
            if bound:
                add(what + "the better peer / mpi", bound, True,
                    [ratio(best(row[size], PEERS), of[size]["mpi"])])
    for policy in POLICIES:
        if f"pieces/{policy}" in rows:
            add(f"exchange, {policy}: for a piece and rank", 1, False,
                [results.get(f"pieces/{policy}", "local")], 1e3, "us")
    server = {what: results.get(f"server/{what}", "local") for what in SERVER}
    if "server/sgd" in rows:
        add("server: SGD, of a copy's bandwidth", 0.8, True, [ratio(server["sgd"], server["copy"])])
    if "server/push_and_fetch" in rows:
        add("server: push and fetch of 1 MiB, in memcpys", 2.2, False, [server["push_and_fetch"]])
    return found


# --- printing ---------------------------------------------------------------------------------


def size_text(size):
    for unit, name in ((MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(nanoseconds):
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if nanoseconds >= unit:
            return f"{nanoseconds / unit:.3g} {name}"
    return f"{nanoseconds:.3g} ns"


def number(value):
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def columns(lines, out):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        print("  ".join(cells).rstrip(), file=out)
    print(file=out)


def print_report(facts, results, rows, targets, out):
    for key, value in facts.items():
        print(f"{key}: {value}", file=out)
    print(file=out)
    shown = [one.name for one in CONTESTANTS
             if any(one.name in of for row, of in results.values.items() if row.startswith("all"))]
    lines = [["all-reduce", "ranks", *shown]]
    for ranks in RANKS:
        for size in SIZES:
            row = row_of(ranks, size)
            if row not in rows:
                continue
            local, line = results.get(row, "local"), [size_text(size), str(ranks)]
            for name in shown:
                value = results.get(row, name)
                line.append("-" if value is None else time_text(value) + (
                    f" {number(value / local)}x" if local and name != "local" else ""))
            lines.append(line)
    if len(lines) > 1:
        columns(lines, out)
        print("A cell: the median of an operation, and how many times local's that is.\n", file=out)
    lines = [["exchange, local:4", *POLICIES]]
    for what, name in (("a piece of 4 B and rank", "pieces/{}"),
                       *((f"a step of ResNet-50's 161 gradients, {part}",
                          f"resnet50_step/{{}}/width:{width}") for width, part in STEPS.items())):
        figures = [results.get(name.format(policy), "local") for policy in POLICIES]
        if any(figures):
            lines.append([what] + ["-" if one is None else time_text(one) for one in figures])
    if len(lines) > 1:
        columns(lines, out)
    figures = {what: results.get(f"server/{what}", "local") for what in SERVER}
    if any(figures.values()):
        columns([["parameter server, local:2", *figures],
                 ["updates, GB/s; pieces of 1 MiB, in memcpys", *map(number, figures.values())]], out)
    columns([["target", "asked", "reached", ""]] + [
        [one["what"], (">= " if one["at_least"] else "<= ") + f"{one['bound']:g} {one['unit']}".strip(),
         "-" if one["reached"] is None else f"{number(one['reached'])} {one['unit']}".strip(), one["verdict"]] for one in targets], out)
    for name, failure in results.failures.items():
        print(f"FAILED: {name}: {failure}", file=out)
    verdicts = [one["verdict"] for one in targets]
    print(", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in
                    ("met", "MISSED", "not judged")), file=out)


def is_ours(failure):
    """Whether that is Leat's: of "mpi, 2 ranks", say."""
    return failure.split(",")[0] not in PEERS


def main():
    parser = argparse.ArgumentParser(prog="./run bench comm", description=__doc__.splitlines()[0],
                                     epilog="--hosts N: training steps between hosts on a slow wire, in place of "
                                     "all that; --hosts N --help tells its arguments")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds: 2 minutes")
    parser.add_argument("--only", metavar="REGEX", help="the rows whose name matches, such as "
                        f"{row_of(2, 4)}, {steps()[0]}, {steps()[-1]}, server/sgd")
    parser.add_argument("--peers", metavar="A,B", help="these peers; '' for none")
    parser.add_argument("--rounds", type=int, help="how often each program runs (5; quick: 2)")
    parser.add_argument("--seconds", type=float, help="how long for a size (0.1; quick: 0.05)")
    parser.add_argument("--save", metavar="FILE", help="write FILE.txt and FILE.json")
    parser.add_argument("--read", metavar="FILE", help="run nothing: judge and print what was saved")
    parser.add_argument("--directory", default=".", help=argparse.SUPPRESS)  # where FILEs begin
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    options = parser.parse_args()
    rows = [row_of(ranks, size) for ranks in RANKS for size in SIZES
            if not options.quick or size not in (4 << 10, 256 * MIB)]
    rows += [row for row in steps() if not options.quick or "width:64" not in row]
    rows += [f"server/{what}" for what in SERVER]
    try:
        rows = [row for row in rows if not options.only or re.search(options.only, row)]
    except re.error as error:
        parser.error(f"{options.only}: {error}")
    if not rows:
        parser.error(f"no row matches {options.only}")
    save = None
    if options.save:
        save = pathlib.Path(options.directory, re.sub(r"\.(txt|json)$", "", options.save))
        if not save.parent.is_dir():
            parser.error(f"there is no folder {save.parent}")
    wanted = PEERS if options.peers is None else [one for one in options.peers.split(",") if one]
    for one in wanted:
        if one not in PEERS:
            parser.error(f"there is no peer {one}; there are: {' '.join(PEERS)}")
    if options.check:
        return 0

    if options.read:
        saved = json.loads(pathlib.Path(options.directory, options.read).read_text())
        facts, results = saved["facts"], Results(saved["values"], saved["failures"])
        rows = [row for row in rows if row in results.values]
    else:
        facts, results = {}, Results({}, {})
        BUILD.mkdir(parents=True, exist_ok=True)
        contestants, without, algorithms = [], {}, {}
        for one in CONTESTANTS:
            reason = one.build() if one.ours or one.name in wanted else "not asked for"
            if reason is None:
                contestants.append(one)
            else:
                without[f"without {one.name}"] = reason
        load = os.getloadavg()[0]
        if load > 0.5:
            print(f"other programs run here (load {load:.1f}): these figures are no measurement",
                  file=sys.stderr)
        rounds = options.rounds or (2 if options.quick else 5)
        seconds = options.seconds or (0.05 if options.quick else 0.1)
        start = datetime.datetime.now(datetime.timezone.utc)
        measure(contestants, rows, rounds, seconds, 120, results, algorithms)
        taken = datetime.datetime.now(datetime.timezone.utc) - start
        words = [word for word in sys.argv[1:] if not word.startswith("--directory")]
        facts = {
            "command": " ".join(["./run bench comm"] + words),
            "date": start.strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "load before": round(load, 1),
            "commit": commit(),
            "rounds": rounds,
            "seconds of a size, at least": seconds,
            "minutes in all": round(taken.total_seconds() / 60, 1),
            "leat": first_line("g++", "--version") + ", -O2",
            "openmpi": first_line("mpirun", "--version"),
            "gloo": first_line("dpkg-query", "-W", "-f", "${Version}\n", "libgloo-dev"),
            **{f"{name} used": ", ".join(sorted(which)) for name, which in algorithms.items()
               if name == "gloo"},
            **without,
        }
    targets = targets_of(results, rows)
    print_report(facts, results, rows, targets, sys.stdout)
    if save:
        with open(f"{save}.txt", "w") as out:
            print_report(facts, results, rows, targets, out)
        with open(f"{save}.json", "w") as out:
            medians = [{"row": row, "median": {name: statistics.median(values)
                                               for name, values in of.items()}}
                       for row, of in results.values.items()]
            json.dump({"facts": facts, "rows": medians, "targets": targets,
                       "failures": results.failures, "values": results.values}, out, indent=1)
            out.write("\n")
        print(f"written: {save}.txt, {save}.json", file=sys.stderr)
    return 1 if any(is_ours(name) for name in results.failures) else 0


if __name__ == "__main__":
    sys.exit(main())
