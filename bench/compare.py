#!/usr/bin/env python3
"""Runs a suite: Leat's benchmarks and its peers, or an earlier build of Leat, in turns. Prints one table, with what was
asked for.

    python3 bench/compare.py SUITE [option]...     --help tells a suite's options

./run bench calls it, and builds what it starts. A suite is a file of bench/suites: its rows, contestants and targets. A
missed target is reported; it is not a failure. What fails of Leat's, or is not measured of it, is one: exit status 1.
"""

import datetime
import importlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing is written to the tree
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from engine.programs import Failed, commit, compiler, machine, progress  # noqa: E402
from engine.suite import Refused, measure, parse  # noqa: E402
from engine.tables import columns  # noqa: E402
from engine.verdicts import counted  # noqa: E402

SUITES = ("csp", "gpu", "feed", "python", "comm", "pipeline", "overlap", "techniques")
# Of a suite, an option that means another comparison.
OTHERS = {("feed", "--cold"): "cold", ("comm", "--hosts"): "wire", ("comm", "--ddp"): "ddp"}


def suite_of(name, words):
    """A benchmark's name, such as feeder/trace, is a suite of its rows."""
    said = {word.split("=")[0] for word in words}
    module = next((other for (of, option), other in OTHERS.items() if of == name and option in said), name)
    return importlib.import_module(f"suites.{module}" if "/" not in name else "suites.single").Suite(name)


class Bench:
    """One run of a suite: what was asked for, what is so, and what was found."""

    def __init__(self, suite, options, words):
        self.suite, self.options, self.words = suite, options, words
        self.facts, self.values, self.failures = {}, {}, {}
        self.rows = suite.chosen(options) if suite.rows else []
        self.peers = suite.wanted_peers(options)

    def without(self, name, why):
        self.facts[f"without {name}"] = why
        print(f"without {name}: {why}", file=sys.stderr)

    def run(self):
        load, start = os.getloadavg()[0], datetime.datetime.now(datetime.timezone.utc)
        if load > 0.5:
            print(f"other programs run here (load {load:.1f}): these figures are no measurement", file=sys.stderr)
        said = [word for word in self.words if not word.startswith(("--directory", "--programs"))]
        options = self.options
        self.facts |= {
            "command": shlex.join(["./run", "bench", *said]), "date": start.strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(), "load before": round(load, 1), "commit": commit(),
            **({"base": str(options.base.parent)} if options.base else {}), "rounds": options.rounds,
            **({"seconds of a run, at least": options.seconds} if options.seconds else {}),
            "minutes in all": 0, "leat": compiler()}

        def stopped(number, _frame):
            for one in STOPPING:
                signal.signal(one, signal.SIG_IGN)  # timeout(1) sends two
            raise KeyboardInterrupt(signal.Signals(number).name)
        for one in STOPPING:
            signal.signal(one, stopped)
        try:
            measure(self.suite, self, options.rounds)
        except KeyboardInterrupt as signalled:  # what was made is removed by now
            self.facts["STOPPED, and not all was measured"] = str(signalled)
            progress("")
        taken = datetime.datetime.now(datetime.timezone.utc) - start
        self.facts["minutes in all"] = round(taken.total_seconds() / 60, 1)

    def read(self):
        for path in self.options.read:
            try:
                saved = json.loads(path.read_text())
                self.facts |= saved["facts"]
                self.values |= saved["values"]
                self.failures |= saved["failures"]
            except (ValueError, KeyError, TypeError):
                raise Failed(f"{path} is not what --save has written as FILE.json") from None

    def report(self, out):
        """Prints it, and returns the targets."""
        for key, value in self.facts.items():
            print(f"{key}: {value}", file=out)
        print(file=out)
        self.suite.tables(self.values, self.facts, out)
        targets = self.suite.judged(self.values, self.facts)
        if targets:
            columns([["target", "asked", "reached", ""]] + [target.line for target in targets], out)
        for what, why in self.failures.items():
            print(f"failed: {what}: {why}", file=out)
        print(counted(targets), file=out)
        return targets

    def save(self):
        """Also of what was measured so far: what comes may be killed."""
        if not self.options.save:
            return
        with open(f"{self.options.save}.txt", "w") as out:
            targets = self.report(out)
        with open(f"{self.options.save}.json", "w") as out:
            json.dump({"facts": self.facts, **self.suite.saved(self.values, self.facts), "values": self.values,
                       "failures": self.failures, "targets": [target.json for target in targets]}, out, indent=1)
            out.write("\n")
        self.suite.save_more(self.values, self.options.save)


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main():
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(__doc__ + "\nsuites: " + " ".join(SUITES) + ", and the benchmarks' names, such as feeder/trace")
        return 0 if words else 2
    if words[0] not in SUITES and "/" not in words[0]:
        sys.exit(f"there is no suite {words[0]}; there are: {' '.join(SUITES)}")
    suite = suite_of(words[0], words[1:])
    options = parse(suite, words[1:])
    for how, what in suite.plan(options) if options.plan and not options.read else ():
        if what:
            print(how, *what)
    if options.check or options.plan:
        return 0
    bench = Bench(suite, options, words)
    try:
        if options.read:
            bench.read()
        else:
            bench.run()
        targets = bench.report(sys.stdout)
        bench.save()
    except (Failed, Refused, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"./run bench {words[0]}: {error}")
    if options.save:
        print(f"written: {options.save}.txt, {options.save}.json", file=sys.stderr)
    failed = (any(suite.is_ours(what) for what in bench.failures) or not bench.values
              or any(key.startswith("STOPPED") for key in bench.facts)
              or any(target.verdict in ("NOT MEASURED", *["MISSED"] * suite.missed_fails) for target in targets))
    return 1 if failed else getattr(suite, "status", 0)


if __name__ == "__main__":
    sys.exit(main())
