#!/usr/bin/env python3
"""Runs the benchmarks of bench/feeder and the loaders here alternately, over the same files in memory,
and prints one table: samples per second, and what was asked for.

./run bench feed calls it, once bench/feeder is built. A missed target is reported; it is not a
failure. A benchmark of Leat's that fails is one: exit status 1.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import signal
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing is written to the tree
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import cold
from facts import ROOT, commit, first_line, machine
from judging import print_report
from programs import Failed, Leat, Peer
from rows import LATENCIES, PEERS, PROBLEMS, ROWS
from setting import cache, make_data, make_environment, memory_folder
from torch_venv import NoTorch, python_with_torch
from turns import measure


def measure_latencies(leat, limit, failures):
    """benchmark -> counter -> microseconds."""
    found = {}
    for program in dict.fromkeys(program for program, *_ in LATENCIES):
        try:
            for one in leat.benchmarks(program, ".", None, limit):
                found[one["name"].split("/")[0]] = {
                    key: value for key, value in one.items()
                    if key.endswith("_us") or key == "n"}
        except Failed as failure:
            failures[f"leat {program}"] = str(failure)
    return found


def read(path):
    saved = json.loads(pathlib.Path(path).read_text())
    return saved["facts"], saved["values"], saved["latencies"], saved["failures"]


def warn_of_load():
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"other programs run here (load {load:.1f}): these figures are no measurement",
              file=sys.stderr)
    return load


def facts_of(arguments, load, start, rounds):
    taken = datetime.datetime.now(datetime.timezone.utc) - start
    return {
        "command": "./run bench feed " + shlex.join(arguments.said),
        "date": start.strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "load before": round(load, 1),
        "commit": commit(),
        **({"base": str(arguments.base)} if arguments.base else {}),
        "rounds": rounds,
        "minutes in all": round(taken.total_seconds() / 60, 1),
        "leat": first_line("g++", "--version") + ", -O2",
    }


def run_cold(arguments):
    """As run(), of the rows of cold.py."""
    rows = [row for row in cold.ROWS if re.search(arguments.only or "", row.name)]
    rounds, size = (2, 1 << 30) if arguments.quick else (5, 8 << 30)
    rounds, python, skipped = arguments.rounds or rounds, None, {}
    if "torch" in arguments.wanted:
        try:
            python = python_with_torch(arguments.venv, ROOT / "build" / "torch.log")
        except NoTorch as failure:
            skipped["without numpy and torch"] = str(failure)
    builds = {"leat": arguments.programs.resolve()}
    if arguments.base:
        builds["base"] = arguments.base / "bench"
    load, start = warn_of_load(), datetime.datetime.now(datetime.timezone.utc)
    with tempfile.TemporaryDirectory(prefix="leat_cold_", dir=ROOT / "build") as made:
        data = cold.Data(builds["leat"], arguments.files or pathlib.Path(made), size)
        values, failures = cold.measure(rows, data, builds, python, rounds, size >> 24, arguments.limit)
        facts = facts_of(arguments, load, start, rounds) | {
            "fio": first_line("fio", "--version"), "files": f"{size >> 30} GiB, {size >> 24} MB of them a run",
            **({"python": first_line(python, "-c", "import numpy, torch; print('numpy', numpy.__version__, 'torch', "
                                     "torch.__version__)")} if python else {}), **skipped}
    return facts, values, {}, failures


def run(arguments):
    rows = [row for row in ROWS if (row.quick or not arguments.quick or arguments.only is not None)
            and re.search(arguments.only or "", row.problem)]
    rounds = arguments.rounds or (2 if arguments.quick else 15 if arguments.base else 5)
    seconds = arguments.seconds or (0.2 if arguments.quick or arguments.base else 1)
    programs_at = arguments.programs.resolve()
    facts, skipped = {}, {}
    python, missing = None, []
    if arguments.wanted:
        python, missing = make_environment(arguments.venv)
    load, start = warn_of_load(), datetime.datetime.now(datetime.timezone.utc)
    with tempfile.TemporaryDirectory(prefix="leat_feed_", dir=memory_folder(2 << 30)) as folder:
        data = pathlib.Path(folder)
        make_data(programs_at, data, python, arguments.quick, arguments.wanted)
        programs = [Leat(programs_at, data, arguments.quick)]
        if arguments.base:  # every variant of both in every round
            programs = [Leat(folder, data, arguments.quick, name, sys.maxsize)
                        for name, folder in (("leat", programs_at), ("base", arguments.base / "bench"))]
        for name in arguments.wanted:
            try:
                programs.append(Peer(name, python, data))
            except Failed as failure:
                skipped[name] = str(failure)
                print(f"without {name}: {failure}", file=sys.stderr)
        values, failures = measure(rows, programs, rounds, seconds, arguments.limit,
                                   arguments.quick, arguments.smoke)
        latencies = None if arguments.base else measure_latencies(programs[0], arguments.limit, failures)
        versions = {}
        for program in programs:
            versions |= program.versions
        facts = facts_of(arguments, load, start, rounds) | {
            "files": "in " + ("memory (/dev/shm)" if folder.startswith("/dev/shm")
                              else f"{data.parent}, read once before"),
            "seconds of a run, at least": seconds,
            "python": platform.python_version(),
            "packages": ", ".join(f"{name} {version}" for name, version in versions.items()),
            **{f"without {name}": why for name, why in skipped.items()},
            **({"without": "; ".join(missing)} if missing else {}),
        }
    return facts, values, latencies, failures


def main():
    parser = argparse.ArgumentParser(prog="./run bench feed", description=__doc__)
    parser.add_argument("--quick", action="store_true",
                        help="little data, few variants: whether it works, in some minutes")
    parser.add_argument("--only", metavar="REGEX", help="the problems whose name matches: "
                        + " ".join(PROBLEMS))
    parser.add_argument("--peers", metavar="A,B", help=f"of {','.join(PEERS)}; '' for none")
    parser.add_argument("--base", metavar="FOLDER", type=pathlib.Path,
                        help="another commit's build folder: this build's ratios to that, row by row")
    parser.add_argument("--cold", action="store_true", help="files that are not in memory, beside fio: "
                        + " ".join(row.name for row in cold.ROWS))
    parser.add_argument("--files", metavar="FOLDER", type=pathlib.Path, help="cold: keep its files there "
                        "(else they are made in build/ and removed)")
    parser.add_argument("--rounds", type=int,
                        help="how often the best variants run (5; quick: 2; base: 15, all variants)")
    parser.add_argument("--seconds", type=float,
                        help="how long a run is timed at least (1; quick, base: 0.2)")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS",
                        help="the longest that one run may take")
    parser.add_argument("--save", metavar="FILE", help="write FILE.txt and FILE.json")
    parser.add_argument("--venv", type=pathlib.Path, metavar="FOLDER",
                        default=cache() / "leat" / "feed-peers",
                        help="Python environment of the peers, made if need be (%(default)s)")
    parser.add_argument("--read", metavar="FILE", help="run nothing: judge and print what --save "
                        "has written as FILE.json")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bench",
                        help=argparse.SUPPRESS)  # the folder of Leat's
    parser.add_argument("--directory", default=".", help=argparse.SUPPRESS)  # where FILE's path begins
    parser.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)  # see measure()
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    arguments = parser.parse_args()
    arguments.said = [word for word in sys.argv[1:]
                      if not word.startswith(("--directory", "--programs"))]
    problems = [row.name for row in cold.ROWS] if arguments.cold else PROBLEMS
    if arguments.only and not any(re.search(arguments.only, problem) for problem in problems):
        parser.error(f"no problem matches {arguments.only}; there are: {' '.join(problems)}")
    base = None
    if arguments.save:
        base = pathlib.Path(arguments.directory, re.sub(r"\.(txt|json)$", "", arguments.save))
        if not base.parent.is_dir():
            parser.error(f"there is no folder {base.parent}")
    arguments.venv = pathlib.Path(arguments.directory, arguments.venv)
    arguments.wanted = [name for name in arguments.peers.split(",") if name] \
        if arguments.peers is not None else ["torch"] if arguments.cold else [] if arguments.base else list(PEERS)
    for name in arguments.wanted:
        if name not in PEERS:
            parser.error(f"there is no peer {name}; there are: {' '.join(PEERS)}")
    if arguments.base:
        arguments.base = pathlib.Path(arguments.directory, arguments.base).resolve()
        program = arguments.base / "bench" / ("bench_feeder_cold" if arguments.cold else "bench_feeder_feed")
        if not program.exists():
            parser.error(f"there is no {program}; build it there, with this bench/feeder where the base lacks it")
    if arguments.files:
        arguments.files = pathlib.Path(arguments.directory, arguments.files).resolve()
        if not arguments.files.is_dir():
            parser.error(f"there is no folder {arguments.files}")
    if arguments.check:
        return 0

    facts, values, latencies, failures = (
        read(pathlib.Path(arguments.directory, arguments.read)) if arguments.read
        else (run_cold if arguments.cold else run)(arguments))
    report = cold.print_report if arguments.cold else print_report
    targets = report(facts, values, latencies, failures, sys.stdout)
    if base:
        with open(f"{base}.txt", "w") as out:
            report(facts, values, latencies, failures, out)
        with open(f"{base}.json", "w") as out:
            json.dump({"facts": facts, "values": values, "latencies": latencies,
                       "failures": failures, "targets": [target.json for target in targets]}, out,
                      indent=1)
            out.write("\n")
        print(f"written: {base}.txt, {base}.json", file=sys.stderr)
    return 1 if any(what.startswith("leat ") for what in failures) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was made is removed
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
