#!/usr/bin/env python3
"""Runs the benchmarks of bench/pipeline and torch.distributed.pipelining, in turns, and prints one table
with the targets.

./run bench pipeline calls it, once the packages are installed and bench/pipeline is built. A missed target
is reported; it is not a failure. A benchmark of Leat's that fails is one: exit status 1.
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
from torch_venv import TORCH, NoTorch, python_with_torch  # noqa: E402

BUILD = ROOT / "build" / "peers" / "pipeline"
OURS = ROOT / "build" / "release" / "bench"
VENV = ROOT / "build" / "peers" / "ddp" / "venv"  # as ./run bench comm --ddp
KINDS = ("gpipe", "one_f_one_b", "onnx_1f1b", "interleaved_1f1b", "looped_bfs", "zero_bubble",
         "zero_bubble_h2", "zbv", "dualpipe_v")
EMPTY = ("gpipe", "one_f_one_b", "zbv")  # of bench/pipeline/action_bench.cpp
MICROBATCHES = 8  # of a step that is compared with torch's
TORCH_NAMES = {"one_f_one_b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}
RANKS = (2, 4)
OTHERS = {"local": 0.1, "mpi": 0.5}  # Leat's ways to run that step -> the target, of torch's overhead


def action_row(kind, ranks):
    return f"action/{kind}/ranks:{ranks}/microbatches:16"


ACTIONS = [action_row(kind, ranks) for kind in EMPTY for ranks in (2, 4, 8)]
SIMULATED = {f"{what}/{kind}": bound for what, bound in (("modelled", 0.95), ("computing", 0.9))
             for kind in KINDS}
STEPS = [f"overhead/{kind}/ranks:{ranks}" for kind in TORCH_NAMES for ranks in RANKS]

# --- running ----------------------------------------------------------------------------------


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
        raise Failed(said[-1] if said else f"exit status {done.returncode}")
    return done.stdout


def google_benchmark(program, rows, seconds, limit):
    """Counters of those benchmarks, by row."""
    out = execute([OURS / program, f"--benchmark_filter=^({'|'.join(rows)})(/.*)?$",
                   f"--benchmark_min_time={seconds}", "--benchmark_format=json"], limit)
    found = {}
    for one in json.loads(out)["benchmarks"]:
        if one.get("error_occurred"):
            raise Failed(f"{one['name']}: {one['error_message']}")
        found[re.sub(r"(/iterations:\d+)?(/real_time)?$", "", one["name"])] = one
    return found


def step_command(contestant, row, steps, blocks, python):
    """The program that runs a step, in so many blocks of so many."""
    _, kind, ranks = row.split("/")
    ranks = ranks.split(":")[1]
    if contestant == "torch":
        return [python, HERE / "torch_step.py", ranks, TORCH_NAMES[kind], steps, blocks]
    start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl",
             "self,vader", "-np", ranks] if contestant == "mpi" else []
    return [*start, OURS / "bench_pipeline_step", contestant, ranks, kind, steps, blocks]


def order_of(kind, rank, ranks):
    """A rank's actions: pairs of whether it is a forward, and the microbatch."""
    warmup = MICROBATCHES if kind == "gpipe" else min(MICROBATCHES, ranks - rank)
    actions = [(True, b) for b in range(warmup)]
    for b in range(MICROBATCHES):
        actions.append((False, b))
        if warmup + b < MICROBATCHES:
            actions.append((True, warmup + b))
    return actions


def makespan(kind, times):
    """What a step takes if nothing but computing takes time: `times` has the forward and backward of each
    stage."""
    ranks = len(times) // 2
    orders = [order_of(kind, rank, ranks) for rank in range(ranks)]
    ends, free = {}, [0] * ranks
    while any(orders):
        for rank, order in enumerate(orders):
            while order:
                forward, b = order[0]
                needs = [] if rank == 0 and forward else [(rank - 1, True, b)] if forward else (
                    [(rank, True, b)] if rank == ranks - 1 else [(rank + 1, False, b)])
                if any(need not in ends for need in needs):
                    break
                start = max([free[rank], *(ends[need] for need in needs)])
                free[rank] = ends[rank, forward, b] = start + times[2 * rank + (not forward)]
                order.pop(0)
    return max(free)


def least_of(row, times, cpus):
    """The shortest step: that, or what the CPUs need for all of it."""
    return max(makespan(row.split("/")[1], times), MICROBATCHES * sum(times) / cpus)


def overhead_of(row, step, times, cpus):
    """Nanoseconds beyond that, for each F or B of all ranks."""
    return (step - least_of(row, times, cpus)) / (MICROBATCHES * len(times))


class Results:
    """values: row -> contestant -> a figure of each round: nanoseconds of an action, of overhead; simulated /
    measured. steps: row -> contestant -> [step, the least, computing] of each round, in nanoseconds."""

    def __init__(self, values, steps, failures):
        self.values, self.steps, self.failures = values, steps, failures

    def add(self, row, contestant, value):
        self.values.setdefault(row, {}).setdefault(contestant, []).append(value)

    def get(self, row, contestant="leat"):
        values = self.values.get(row, {}).get(contestant)
        return statistics.median(values) if values else None

    def step(self, row, contestant):
        """The medians of those; None if there are none."""
        rounds = self.steps.get(row, {}).get(contestant)
        return [statistics.median(column) for column in zip(*rounds)] if rounds else None


def measure(contestants, rows, rounds, seconds, python, cpus, results):
    """Each round, everything once; whose turn is first changes."""
    for turn in range(rounds):
        for program, names, figure in (
                ("bench_pipeline_action", ACTIONS, "ns_per_action"),
                ("bench_pipeline_simulated", SIMULATED, "ratio")):
            wanted = [row for row in names if row in rows]
            if not wanted or program in results.failures:
                continue
            try:
                for row, counters in google_benchmark(program, wanted, seconds, 600).items():
                    results.add(row, "leat", counters[figure])
            except Failed as failure:
                results.failures[program] = str(failure)
        order = contestants[turn % len(contestants):] + contestants[:turn % len(contestants)]
        for row, one in [(row, one) for row in STEPS if row in rows for one in order]:
            name = f"{one}, {row}"
            if name in results.failures:
                continue
            if sys.stderr.isatty():
                print(f"\rround {turn + 1}/{rounds}: {name}\033[K", end="", file=sys.stderr)
            try:
                out = execute(step_command(one, row, 50, 5, python), 120)
                step, *times = (float(word) for word in out.split())
                results.steps.setdefault(row, {}).setdefault(one, []).append(
                    [step, least_of(row, times, cpus), MICROBATCHES * sum(times)])
                results.add(row, one, overhead_of(row, step, times, cpus))
            except Failed as failure:
                results.failures[name] = str(failure)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


# --- judging and printing ---------------------------------------------------------------------


def targets_of(results, rows):
    """Each as (what, bound, reached, verdict)."""
    found = []

    def add(what, bound, at_least, reached, unit=""):
        verdict = "not judged" if reached is None else (
            "met" if (reached >= bound if at_least else reached <= bound) else "MISSED")
        found.append({"what": what, "bound": bound, "at_least": at_least, "reached": reached, "unit": unit,
                      "verdict": verdict})

    for row in ACTIONS:
        if row in rows:
            value = results.get(row)
            add(f"{row}: an F or B", 2, False, None if value is None else value / 1e3, "us")
    for row, bound in SIMULATED.items():
        if row in rows:
            add(f"{row}: simulated / measured", bound, True, results.get(row))
    for row in STEPS:
        for name, bound in OTHERS.items():
            if row in rows:
                ours, torch = results.get(row, name), results.get(row, "torch")
                add(f"{row}: {name} / torch", bound, False,
                    None if ours is None or torch is None or torch <= 0 else ours / torch)
    return found


def number(value):
    return "-" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


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
    lines = [["training step", "ranks", "of", "step, us", "least, us", "computing, us",
              "overhead, us an action"]]
    for row in STEPS:
        for name in ("local", "mpi", "torch"):
            step = results.step(row, name)
            if row in rows and step:
                _, kind, ranks = row.split("/")
                lines.append([kind, ranks.split(":")[1], name, *(number(value / 1e3) for value in step),
                              number(results.get(row, name) / 1e3)])
    if len(lines) > 1:
        columns(lines, out)
    columns([["target", "asked", "reached", ""]] + [
        [one["what"], (">= " if one["at_least"] else "<= ") + f"{one['bound']:g} {one['unit']}".strip(),
         "-" if one["reached"] is None else f"{number(one['reached'])} {one['unit']}".strip(),
         one["verdict"]] for one in targets], out)
    for name, failure in results.failures.items():
        print(f"FAILED: {name}: {failure}", file=out)
    verdicts = [one["verdict"] for one in targets]
    print(", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in
                    ("met", "MISSED", "not judged")), file=out)


def contestants_of(peers, venv, without):
    """Those that can run, and torch's Python; why others cannot goes to `without`."""
    contestants, python = [], None
    if not (OURS / "bench_pipeline_step").exists():
        without["without local, mpi"] = "the examples were not built"
    else:
        contestants.append("local")
        if shutil.which("mpirun") is None:
            without["without mpi"] = "there is no mpirun"
        else:
            contestants.append("mpi")
    if "torch" not in peers:
        without["without torch"] = "not asked for"
    else:
        try:
            BUILD.mkdir(parents=True, exist_ok=True)
            python = python_with_torch(venv, BUILD / "pip.log")
            contestants.append("torch")
        except NoTorch as reason:
            without["without torch"] = str(reason)
    return contestants, python


def main():
    parser = argparse.ArgumentParser(prog="./run bench pipeline", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--only", metavar="REGEX", help="the rows whose name matches, such as "
                        f"{ACTIONS[0]}, modelled/zbv, computing, {STEPS[0]}")
    parser.add_argument("--peers", metavar="A,B", default="torch", help="these peers: torch; '' for none")
    parser.add_argument("--rounds", type=int, help="how often each program runs (5; quick: 1)")
    parser.add_argument("--seconds", type=float, help="how long for a row of empty stages (0.1; quick: 0.05)")
    parser.add_argument("--venv", metavar="FOLDER", help="where Python has torch, or shall have it")
    parser.add_argument("--save", metavar="FILE", help="write FILE.txt and FILE.json")
    parser.add_argument("--read", metavar="FILE", help="run nothing: judge and print what was saved")
    parser.add_argument("--directory", default=".", help=argparse.SUPPRESS)  # where FILEs begin
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    options = parser.parse_args()
    try:
        rows = [row for row in (*ACTIONS, *SIMULATED, *STEPS)
                if not options.only or re.search(options.only, row)]
    except re.error as error:
        parser.error(f"{options.only}: {error}")
    if not rows:
        parser.error(f"no row matches {options.only}")
    save = None
    if options.save:
        save = pathlib.Path(options.directory, re.sub(r"\.(txt|json)$", "", options.save))
        if not save.parent.is_dir():
            parser.error(f"there is no folder {save.parent}")
    peers = [one for one in options.peers.split(",") if one]
    if any(one != "torch" for one in peers):
        parser.error(f"there is no peer {options.peers}; there is: torch")
    if options.check:
        return 0

    if options.read:
        saved = json.loads(pathlib.Path(options.directory, options.read).read_text())
        facts, results = saved["facts"], Results(saved["values"], saved["steps"], saved["failures"])
        rows = [row for row in rows if row in results.values]
    else:
        results, without = Results({}, {}, {}), {}
        wanted = peers if any(row in rows for row in STEPS) else []
        venv = pathlib.Path(options.directory, options.venv) if options.venv else VENV
        contestants, python = contestants_of(wanted, venv, without)
        load = os.getloadavg()[0]
        if load > 0.5:
            print(f"other programs run here (load {load:.1f}): these figures are no measurement",
                  file=sys.stderr)
        rounds = options.rounds or (1 if options.quick else 5)
        seconds = options.seconds or (0.05 if options.quick else 0.1)
        cpus = len(os.sched_getaffinity(0))
        start = datetime.datetime.now(datetime.timezone.utc)
        measure(contestants, rows, rounds, seconds, python, cpus, results)
        taken = datetime.datetime.now(datetime.timezone.utc) - start
        words = [word for word in sys.argv[1:] if not word.startswith("--directory")]
        facts = {
            "command": " ".join(["./run bench pipeline"] + words),
            "date": start.strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "load before": round(load, 1),
            "commit": commit(),
            "rounds": rounds,
            "minutes in all": round(taken.total_seconds() / 60, 1),
            "leat": first_line("g++", "--version") + ", -O2",
            "mpi": first_line("mpirun", "--version"),
            "torch": TORCH,
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
            json.dump({"facts": facts, "rows": medians, "targets": targets, "failures": results.failures,
                       "values": results.values, "steps": results.steps}, out, indent=1)
            out.write("\n")
        print(f"written: {save}.txt, {save}.json", file=sys.stderr)
    return 1 if any(not name.startswith("torch") for name in results.failures) else 0


if __name__ == "__main__":
    sys.exit(main())
