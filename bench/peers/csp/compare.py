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
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.dont_write_bytecode = True  # nothing is written to the tree
from facts import commit, first_line, machine  # noqa: E402
from programs import BUILD, OURS, PEERS, Build, Failed, newer_go  # noqa: E402
from ratios import NOT_SLOWER_THAN, Ratios  # noqa: E402
from rows import NOTES, ROWS, STEADY  # noqa: E402


class Sample:
    """What one program did in one row."""

    def __init__(self):
        self.values, self.failure = [], None

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None


def measure(rows, peers, rounds, seconds, limit):
    """(name of the row, workers, metric) -> program -> Sample. Programs take turns; each round every program
    does a row once, so what slows the machine for a while slows all of them."""
    tasks = {}  # several rows may be figures of one run
    for row in rows:
        for workers in row.workers:
            tasks.setdefault((row.name, workers), []).append(row)
    table = {}
    for done, ((name, workers), figures) in enumerate(tasks.items()):
        if sys.stderr.isatty():
            print(f"\r{done + 1}/{len(tasks)} {name}, {workers}\033[K", end="", file=sys.stderr)
        runners = {"leat": Build("leat", OURS)}
        runners.update({peer.name: peer for peer in peers if peer.has(figures[0], workers)})
        samples = {row.metric: {one: Sample() for one in runners} for row in figures}
        for turn in range(rounds):
            names = list(runners)
            for one in names[turn % len(names):] + names[:turn % len(names)]:
                if any(of[one].failure for of in samples.values()):
                    continue
                try:
                    values = runners[one].run(figures[0], workers, seconds, limit)
                    for metric, of in samples.items():
                        of[one].values.append(values[metric])
                except Failed as failure:
                    for of in samples.values():
                        of[one].failure = str(failure)
        for metric, of in samples.items():
            table[name, workers, metric] = of
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return table


# --- judging and printing ---------------------------------------------------------------------


def judge(row, workers, table):
    """The row's targets: (text, met); met is None where a target cannot be judged."""
    of = table[row.name, workers, row.metric]
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
    if row.most:
        verdicts.append((f"{scaled(ours, row.metric)} (target {scaled(row.most, row.metric)})",
                         ours <= row.most))
    if row.problem == "WakeWhileHogging":
        futex = table.get(("FutexWake", 2, "p99"), {}).get("leat")
        if not (futex and futex.median and futex.median <= STEADY):
            verdicts = [(text, None) for text, _ in verdicts]
    return verdicts


def unit_of(value, metric):
    if metric in ("bytes", "ratio"):
        return 1, {"bytes": "B", "ratio": "x"}[metric]
    for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if value >= size * 10 or (value >= size and size >= 1e9):
            return size, name
    return 1, "ns"


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def scaled(value, metric):
    size, name = unit_of(value, metric)
    return f"{digits(value / size)} {name}"


class RowRatios(Ratios):
    """Of one row, two figures of Leat: times of one to times of the other."""

    def __init__(self, row, workers, sample, other):
        super().__init__(sample.values, other.values)
        self.row, self.workers = row, workers
        self.target, self.met = None, None

    def asked(self, target, met):
        self.target, self.met = target, met
        return self

    def __str__(self):
        return f"{self.medians:.3f}x, least {self.least:.3f}x (target {self.target:.3g})"


def two_to_one(rows, table):
    """Two workers to one: no slower, or as much faster as the row asks for."""
    found = []
    for row in rows:
        one, two = (table.get((row.name, workers, row.metric), {}).get("leat") for workers in (1, 2))
        if row.runtime and row.metric == "ns" and row.gain and one and two and one.values \
                and two.values:
            ratios = RowRatios(row, 2, two, one)
            found.append(ratios.asked(1 / row.gain, ratios.medians <= 1 / row.gain))
    return found


def against_base(rows, table):
    """This build to the other, where both have the row."""
    found = []
    for row in rows:
        for workers in row.workers:
            of = table[row.name, workers, row.metric]
            base = of.get("base")
            if row.runtime and base and base.values and of["leat"].values:
                ratios = RowRatios(row, workers, of["leat"], base)
                found.append(ratios.asked(NOT_SLOWER_THAN, not ratios.is_slower))
    return found


COMPARISONS = (  # of Leat with Leat, at the end of the table
    ("2 workers to 1", "leat's times with 2 workers to those with 1; the target is for the medians",
     two_to_one),
    ("to base", "leat's times to those of base; the target is for the medians or the least",
     against_base),
)


def print_ratios(head, found, out):
    width = max(len(ratios.row.label) for ratios in found)
    print(f"\n{head}:\n{'problem':{width}}  w  medians  least  target", file=out)
    for ratios in found:
        print(f"{ratios.row.label:{width}}  {ratios.workers}  {ratios.medians:7.3f}  "
              f"{ratios.least:5.3f}  {ratios.target:6.3g} {WORDS[ratios.met]}", file=out)


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
            of = table[row.name, workers, row.metric]
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
    for _, head, compared in COMPARISONS:
        found = compared(rows, table)
        if found:
            print_ratios(head, found, out)
            verdicts += [ratios.met for ratios in found]
    print(file=out)
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
                        help="another commit's build folder: this build's ratios to that, row by row")
    parser.add_argument("--workers", type=int, choices=(1, 2), help="one of the two numbers")
    parser.add_argument("--rounds", type=int, help="how often each program runs (7; quick: 3; base: 40)")
    parser.add_argument("--seconds", type=float, help="how long at least (0.2; quick: 0.1; base: 0.02)")
    parser.add_argument("--save", metavar="FILE", help="write FILE.txt and FILE.json")
    parser.add_argument("--directory", help=argparse.SUPPRESS)  # where FILE's path begins
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    parser.add_argument("--newer-go", action="store_true", help=argparse.SUPPRESS)  # is it there?
    arguments = parser.parse_args()
    # Many short runs find the least times of both builds, where a few long ones are all disturbed.
    rounds = arguments.rounds or (40 if arguments.base else 3 if arguments.quick else 7)
    seconds = arguments.seconds or (0.02 if arguments.base else 0.1 if arguments.quick else 0.2)

    rows = [row for row in ROWS if (row.quick or not arguments.quick)
            and (not arguments.only or re.search(arguments.only, row.name))]
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
        return None
    if arguments.newer_go:
        return "go" in wanted and newer_go() is None

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

    for peer in peers:
        print(f"{peer.name}: {facts[peer.name]}")
    print()
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
        judged = [(row, workers, text, met) for row in rows for workers in row.workers
                  for text, met in judge(row, workers, table)]
        judged += [(ratios.row, ratios.workers, f"{ratios} {which}", ratios.met)
                   for which, _, compared in COMPARISONS for ratios in compared(rows, table)]
        judged = [{"problem": row.name, "workers": workers, "metric": row.metric,
                   "target": text, "met": met} for row, workers, text, met in judged]
        with open(f"{base}.json", "w") as out:
            json.dump({"facts": facts, "results": results, "targets": judged}, out, indent=1)
            out.write("\n")
        print(f"written: {base}.txt, {base}.json", file=sys.stderr)
    return None


if __name__ == "__main__":
    sys.exit(main())
