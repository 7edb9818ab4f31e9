#!/usr/bin/env python3
"""Runs the loaders of bench/peers/feed, Leat's Python package and the C++ loop of bench/feeder in turns,
over the same files in memory, and prints one table: samples per second, what Python adds to a batch, and
memory.

./run bench python calls it, once bench/feeder is built. A missed target is reported; it is not a
failure. A figure of Leat's that cannot be had is one: exit status 1.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shlex
import signal
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing is written to the tree
HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / "feed"), str(HERE.parent)]

from asked import CPP, EPOCHS, FINALISTS, HANDOVERS, LEAT, MEMORY, NAMES, ROUNDS, ROWS  # noqa: E402
from facts import ROOT, capture, commit, first_line, machine  # noqa: E402
from package import FLAGS, NoPackage, install  # noqa: E402
from programs import Failed, Leat, Peer, execute  # noqa: E402
from rows import PEERS  # noqa: E402
from setting import cache, make_data, make_environment, memory_folder  # noqa: E402
from turns import measure  # noqa: E402
from verdicts import medians, print_report  # noqa: E402


def collect(names, rounds, figures, failures):
    """name -> counter -> values of all rounds, in turns; `figures(name)` makes one round's."""
    found = {name: {} for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            try:
                for key, value in figures(name).items():
                    found[name].setdefault(key, []).append(value)
            except Failed as failure:
                failures[name] = str(failure)
    return {name: of for name, of in found.items() if of}


def measure_handover(peer, data, rounds, quick, limit, failures, wanted):
    ways = [way for way in HANDOVERS if way.startswith(LEAT) or way.split("_")[0] in wanted]
    count = 50 if quick else 500

    def figures(way):
        said = execute([peer.python, HERE / "handover.py", way, count, data], limit, env=peer.environment)
        return json.loads(said.splitlines()[-1])

    return collect(ways, rounds, figures, failures)


def measure_memory(peer, data, rounds, quick, limit, failures):
    pairs = {f"{LEAT} {problem} {variant}": (problem, variant) for problem, variant in MEMORY}

    def figures(name):
        said = execute([peer.python, HERE / "memory.py", *pairs[name], 10 if quick else EPOCHS, data], limit,
                       env=peer.environment)
        return json.loads(said.splitlines()[-1])

    return collect(list(pairs), rounds, figures, failures)


def environment_of(arguments):
    """Python with the peers and leat: what --python names, or the environment that is made for it."""
    if arguments.python:
        return arguments.python, []
    python, missing = make_environment(arguments.venv)
    install(python, arguments.venv)
    return python, missing


def run(arguments):
    rows = [row for row in ROWS if re.search(arguments.only or "", row.problem)]
    rounds = arguments.rounds or (2 if arguments.quick else ROUNDS)
    seconds = arguments.seconds or (0.2 if arguments.quick else 1)
    programs_at, skipped = arguments.programs.resolve(), {}
    python, missing = environment_of(arguments)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"other programs run here (load {load:.1f}): these figures are no measurement",
              file=sys.stderr)
    start = datetime.datetime.now(datetime.timezone.utc)
    with tempfile.TemporaryDirectory(prefix="leat_python_", dir=memory_folder(2 << 30)) as folder:
        data, small = pathlib.Path(folder, "all"), pathlib.Path(folder, "small")
        make_data(programs_at, data, python, arguments.quick, arguments.wanted, images=("jpeg",))
        make_data(programs_at, small, python, True, images=("jpeg",))
        leat = Peer(LEAT, python, data, program=HERE / "leat_loader.py", finalists=FINALISTS)
        trainers = json.loads(execute([python, HERE / "trainers.py"], arguments.limit,
                                      env=leat.environment).splitlines()[-1])
        programs = [Leat(programs_at, data, arguments.quick, name=CPP, finalists=FINALISTS), leat]
        for name in arguments.wanted:
            try:
                programs.append(Peer(name, python, data))
            except Failed as failure:
                skipped[name] = str(failure)
                print(f"without {name}: {failure}", file=sys.stderr)
        values, failures = measure(rows, programs, rounds, seconds, arguments.limit, arguments.quick, False)
        handover = memory = None
        if re.search(arguments.only or "", "handover"):
            handover = measure_handover(leat, data, rounds, arguments.quick, arguments.limit, failures,
                                        arguments.wanted)
        if re.search(arguments.only or "", "memory"):
            memory = measure_memory(leat, small, rounds, arguments.quick, arguments.limit, failures)
        taken = datetime.datetime.now(datetime.timezone.utc) - start
        versions = dict(trainers)
        for program in programs:
            versions |= program.versions
        facts = {
            "command": "./run bench python " + shlex.join(arguments.said),
            "date": start.strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "load before": round(load, 1),
            "load after": round(os.getloadavg()[0], 1),
            "commit": commit(),
            "files": "in " + ("memory (/dev/shm)" if folder.startswith("/dev/shm")
                              else f"{data.parent}, read once before"),
            "rounds": rounds,
            "seconds of a run, at least": seconds,
            "minutes in all": round(taken.total_seconds() / 60, 1),
            "leat": f"{first_line('g++', '--version')}, -O2; the package "
                    + (f"is that of {python}" if arguments.python else FLAGS),
            "python": capture([python, "-c", "import platform; print(platform.python_version())"]).strip(),
            "packages": ", ".join(f"{name} {version}" for name, version in versions.items()),
            **{f"without {name}": why for name, why in skipped.items()},
            **({"without": "; ".join(missing)} if missing else {}),
        }
    return facts, values, handover, memory, failures


def read(path):
    saved = json.loads(pathlib.Path(path).read_text())
    return [saved[name] for name in ("facts", "values", "handover", "memory", "failures")]


def parse():
    parser = argparse.ArgumentParser(prog="./run bench python", description=__doc__)
    parser.add_argument("--quick", action="store_true",
                        help="little data, few variants: whether it works, in some minutes")
    parser.add_argument("--only", metavar="REGEX", help="the parts whose name matches: " + " ".join(NAMES))
    parser.add_argument("--peers", metavar="A,B", help=f"of {','.join(PEERS)}; '' for none")
    parser.add_argument("--rounds", type=int, help=f"how often the best variants run ({ROUNDS}; quick: 2)")
    parser.add_argument("--seconds", type=float, help="how long a run is timed at least (1; quick: 0.2)")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS",
                        help="the longest that one run may take")
    parser.add_argument("--save", metavar="FILE", help="write FILE.txt and FILE.json")
    parser.add_argument("--venv", type=pathlib.Path, metavar="FOLDER", default=cache() / "leat" / "feed-peers",
                        help="Python environment of the peers, made if need be, which leat is built "
                        "into (%(default)s)")
    parser.add_argument("--python", metavar="FILE", help="a Python that has leat and the peers, "
                        "instead: nothing is built or installed for it")
    parser.add_argument("--read", metavar="FILE", help="run nothing: judge and print what --save "
                        "has written as FILE.json")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bench",
                        help=argparse.SUPPRESS)  # the folder of Leat's
    parser.add_argument("--directory", default=".", help=argparse.SUPPRESS)  # where FILE's path begins
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    arguments = parser.parse_args()
    arguments.said = [word for word in sys.argv[1:] if not word.startswith(("--directory", "--programs"))]
    if arguments.only and not any(re.search(arguments.only, name) for name in NAMES):
        parser.error(f"nothing matches {arguments.only}; there are: {' '.join(NAMES)}")
    arguments.base = None
    if arguments.save:
        arguments.base = pathlib.Path(arguments.directory, re.sub(r"\.(txt|json)$", "", arguments.save))
        if not arguments.base.parent.is_dir():
            parser.error(f"there is no folder {arguments.base.parent}")
    arguments.venv = pathlib.Path(arguments.directory, arguments.venv)
    if arguments.python and "/" in arguments.python:
        arguments.python = str(pathlib.Path(arguments.directory, arguments.python))
    arguments.wanted = [name for name in arguments.peers.split(",") if name] \
        if arguments.peers is not None else list(PEERS)
    for name in arguments.wanted:
        if name not in PEERS:
            parser.error(f"there is no peer {name}; there are: {' '.join(PEERS)}")
    return arguments


def main():
    arguments = parse()
    if arguments.check:
        return 0
    try:
        found = read(pathlib.Path(arguments.directory, arguments.read)) if arguments.read else run(arguments)
    except (Failed, NoPackage) as error:  # of Leat's own package
        sys.exit(f"{error}")
    facts, values, handover, memory, failures = found
    targets = print_report(*found, sys.stdout)
    if arguments.base:
        with open(f"{arguments.base}.txt", "w") as out:
            print_report(*found, out)
        with open(f"{arguments.base}.json", "w") as out:
            json.dump({"facts": facts, "values": values, "handover": handover, "memory": memory,
                       "failures": failures, "rows": medians(values, handover, memory),
                       "targets": [target.json for target in targets]}, out, indent=1)
            out.write("\n")
        print(f"written: {arguments.base}.txt, {arguments.base}.json", file=sys.stderr)
    return 1 if any(re.match(rf"({LEAT}|{re.escape(CPP)})[ _]", what) for what in failures) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was made is removed
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
