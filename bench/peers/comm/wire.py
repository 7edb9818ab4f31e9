#!/usr/bin/env python3
"""Steps of a model of 64 MB between hosts on a slow wire, beside what the link model says.

./run bench comm --hosts N calls it, once bench_comm_wire is built. The hosts are network namespaces of
this machine (root only), with a link of 1 Gb/s each; the same table for the transport local in real
time stands beside it. Exit status: 0 if all targets are met, 1 if one is missed or something failed,
77 if hosts cannot be made here (local is measured all the same).
"""

import argparse
import datetime
import html
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
sys.dont_write_bytecode = True  # nothing is written to the tree
import namespaces  # noqa: E402
from facts import ROOT, commit, first_line, machine  # noqa: E402

PROGRAM = ROOT / "build" / "release" / "bench" / "bench_comm_wire"
LIMIT = 170  # seconds of a program
NEAR = 0.10
ORDER = ("priority", "bucketed", "no overlap")  # each at most as long as the next
MOST_HOSTS = 16


def rows_of(where, measured):
    """A row for each policy; times in ms."""
    rows = []
    for one in measured["rows"]:
        step, formula = statistics.median(one["steps_ns"]) / 1e6, one["formula_ns"] / 1e6
        rows.append({"wire": where, "policy": one["name"], "step_ms": round(step, 1),
                     "fastest_ms": round(min(one["steps_ns"]) / 1e6, 1),
                     "slowest_ms": round(max(one["steps_ns"]) / 1e6, 1),
                     "formula_ms": round(formula, 1), "ratio": round(step / formula, 3)})
    return rows


def targets_of(rows):
    found = []
    for where in dict.fromkeys(row["wire"] for row in rows):
        of = {row["policy"]: row for row in rows if row["wire"] == where}
        for policy, row in of.items():
            found.append({"what": f"{where}, {policy}: step / formula", "asked": f"1 +- {NEAR:g}",
                          "reached": f"{row['ratio']:.3f}",
                          "verdict": "met" if abs(row["ratio"] - 1) <= NEAR else "MISSED"})
        times = [of[policy]["step_ms"] for policy in ORDER]
        found.append({"what": f"{where}: {' <= '.join(ORDER)}", "asked": "in this order",
                      "reached": " <= ".join(f"{time:.0f}" for time in times),
                      "verdict": "met" if times == sorted(times) else "MISSED"})
    return found


def fit_text(fit):
    rates = " ".join(f"{1e3 * size / time:.0f}" for size, time in fit["samples"])
    return (f"alpha {fit['alpha_ns'] / 1e3:.0f} us, {fit['bandwidth'] / 1e6:.1f} MB/s; no size is off by more "
            f"than {100 * fit['worst']:.1f} %; 256 KiB to 16 MiB: {rates} MB/s")


def measure(where, text):
    """The facts and the rows of what bench_comm_wire has printed."""
    measured = json.loads(text)
    facts = {f"{where}, all-reduce": fit_text(measured["all_reduce"]),
             f"{where}, send": fit_text(measured["send"]),
             f"{where}, notice": f"{measured['notice_ns'] / 1e3:.0f} us"}
    return facts, rows_of(where, measured)


# --- printing ---------------------------------------------------------------------------------


def columns(lines, out):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(line, widths))).rstrip(), file=out)
    print(file=out)


def print_report(facts, rows, targets, out):
    for key, value in facts.items():
        print(f"{key}: {value}", file=out)
    print(file=out)
    columns([["wire", "policy", "step", "fastest to slowest", "formula", "step / formula"]] + [
        [row["wire"], row["policy"], f"{row['step_ms']:.0f} ms",
         f"{row['fastest_ms']:.0f} to {row['slowest_ms']:.0f}", f"{row['formula_ms']:.0f} ms",
         f"{row['ratio']:.3f}"] for row in rows], out)
    columns([["target", "asked", "reached", ""]] + [
        [one["what"], one["asked"], one["reached"], one["verdict"]] for one in targets], out)
    verdicts = [one["verdict"] for one in targets]
    print(f"{verdicts.count('met')} met, {verdicts.count('MISSED')} MISSED", file=out)


STYLE = """  :root { color-scheme: light dark;
    --card: #ffffff; --ink: #1c2024; --soft: #5f6b76; --line: #dfe3e6; --bar: #1f7ea3; --mark: #a8620f; }
  @media (prefers-color-scheme: dark) { :root {
    --card: #1d2125; --ink: #e6e9ec; --soft: #9aa5af; --line: #343a40; --bar: #52b6db; --mark: #e3a452; } }
  svg { background: var(--card); font: 12px system-ui, sans-serif; }
  text { fill: var(--ink); } .soft { fill: var(--soft); } .line { stroke: var(--line); }
  .heading { font-size: 15px; font-weight: 600; } .title { font-weight: 600; }
  .bar { fill: var(--bar); } .mark { stroke: var(--mark); stroke-width: 3; }"""


def figure(rows):
    """The rows as bars, in SVG; the formulas as marks."""
    left, width, lane = 110, 690, 26
    longest = max(max(row["step_ms"], row["formula_ms"]) for row in rows)
    scale, y, parts, where = width / longest, 30, [], None
    parts.append(f'<text x="0" y="{y}" class="heading">A step of a model of 64 MB on a wire of 1 Gb/s: '
                 "measured (bars), and by the link model (marks)</text>")
    for row in rows:
        if row["wire"] != where:
            where, y = row["wire"], y + 34
            parts.append(f'<text x="0" y="{y}" class="title">{html.escape(where)}</text>')
            y += 8
        end, mark = left + row["step_ms"] * scale, left + row["formula_ms"] * scale
        parts.append(
            f'<text x="0" y="{y + 17}">{html.escape(row["policy"])}</text>'
            f'<rect x="{left}" y="{y + 3}" width="{end - left:.1f}" height="{lane - 6}" rx="2" class="bar"/>'
            f'<path d="M{mark:.1f} {y}V{y + lane}" class="mark"/>'
            f'<text x="{max(end, mark) + 8:.1f}" y="{y + 17}">{row["step_ms"]:.0f} ms'
            f'<tspan class="soft"> / {row["formula_ms"]:.0f}</tspan></text>')
        y += lane
    parts.append(f'<path d="M{left} 60V{y + 4}" class="line"/>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-16 0 932 {y + 20}" role="img" '
            'aria-label="Steps on a slow wire, measured and by the link model">\n'
            f"<style>\n{STYLE}\n</style>\n" + "\n".join(parts) + "\n</svg>\n")


# --- running ----------------------------------------------------------------------------------


def local(hosts, steps):
    done = subprocess.run([PROGRAM, f"local:{hosts}", str(steps)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise namespaces.Failed(done.stderr.strip() or f"exit status {done.returncode}")
    return done.stdout


def number(least, most):
    def parse(text):
        if not re.fullmatch(r"\d{1,4}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {most}")
        return int(text)
    return parse


def main():
    parser = argparse.ArgumentParser(prog="./run bench comm", description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=number(2, MOST_HOSTS), required=True, metavar="N",
                        help=f"so many hosts, 2 to {MOST_HOSTS}, a rank on each")
    parser.add_argument("--steps", type=number(1, 50), default=7, help="of each policy (7)")
    parser.add_argument("--save", metavar="FILE", help="write FILE.txt, FILE.json and FILE.svg")
    parser.add_argument("--directory", default=".", help=argparse.SUPPRESS)  # where FILE begins
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    options = parser.parse_args()
    save = None
    if options.save:
        save = pathlib.Path(options.directory, re.sub(r"\.(txt|json|svg)$", "", options.save))
        if not save.parent.is_dir():
            parser.error(f"there is no folder {save.parent}")
    if options.check:
        return 0

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # hosts are removed then, too
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"other programs run here (load {load:.1f}): these figures are no measurement",
              file=sys.stderr)
    words = [word for word in sys.argv[1:] if not word.startswith("--directory")]
    facts = {"command": " ".join(["./run bench comm"] + words),
             "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
             "machine": machine(), "load before": round(load, 1), "commit": commit(),
             "steps": options.steps, "leat": first_line("g++", "--version") + ", -O2",
             "openmpi": first_line("mpirun", "--version")}
    rows, left_out = [], namespaces.missing()
    try:
        if left_out:
            facts["hosts left out"] = left_out
            print(f"hosts are left out: {left_out}", file=sys.stderr)
        else:
            facts["hosts"] = (f"{options.hosts} network namespaces, tbf {namespaces.RATE} each way, burst "
                              f"{namespaces.BURST}; computing is a wait")
            with namespaces.Hosts(options.hosts) as hosts:
                text = hosts.mpirun(PROGRAM, "mpi", options.steps, limit=LIMIT)
            found, rows = measure(f"{options.hosts} hosts", text)
            facts.update(found)
        found, of_local = measure(f"local:{options.hosts}", local(options.hosts, options.steps))
        facts.update(found)
        rows += of_local
    except (namespaces.Failed, subprocess.TimeoutExpired, OSError, ValueError) as error:
        print(f"./run bench comm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the hosts are removed", file=sys.stderr)
        return 130
    targets = targets_of(rows)
    print_report(facts, rows, targets, sys.stdout)
    if save:
        with open(f"{save}.txt", "w") as out:
            print_report(facts, rows, targets, out)
        pathlib.Path(f"{save}.json").write_text(
            json.dumps({"facts": facts, "rows": rows, "targets": targets}, indent=1) + "\n")
        pathlib.Path(f"{save}.svg").write_text(figure(rows))
        print(f"written: {save}.txt, {save}.json, {save}.svg", file=sys.stderr)
    if any(one["verdict"] == "MISSED" for one in targets):
        return 1
    return 77 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
