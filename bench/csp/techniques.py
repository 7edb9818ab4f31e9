#!/usr/bin/env python3
"""What each technique of the core buys: bench/csp with it and without it, alternately.

    python3 bench/csp/techniques.py [--rounds 12] [--seconds 0.1] [--only REGEX] [--save FILE]
    python3 bench/csp/techniques.py --check

Copies the sources once for each technique, takes it out by the few lines below, and builds and runs
the benchmarks of all copies in turns. Prints medians of the complete core, and how many times as long
the same takes without the technique: the median of the rounds' ratios.

The lines are compared without comments. It is an error if a file does not have them exactly once.
--check looks for all of them and builds nothing.
"""

import argparse
import csv
import datetime
import io
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True
from engine import programs as facts  # noqa: E402
BUILD = ROOT / "build" / "techniques"

# name: (what is done instead, [(file, the lines, their replacement)])
TECHNIQUES = {
    "run-next": (
        "a woken fiber stands at the end of the ring",
        [("csp/sched/worker_switch.h", "      !run_next_.put(fiber)) {", "      true) {"),
         ("csp/sched/worker.cpp", "  if (!run_next_.put(fiber)) {", "  if (true) {")]),
    "handoff": (
        "a fiber woken from a long slice stays with its waker",
        [("csp/sched/worker.cpp", "  if (long_slices_.get() && home == nullptr && !alone_) {", "  if (false) {"),
         ("csp/sched/worker.cpp", "  skips_run_next_.set(long_ones || shuffles_);",
          "  skips_run_next_.set(shuffles_);")]),
    "direct switch": (
        "every switch goes through the worker's own stack",
        [("csp/sched/worker_switch.h",
          "  if (fiber->has_stack_.get() || bind_cached_stack(*fiber)) return fiber;\n", "")]),
    "lazy stacks": (
        "a stack is bound at the launch",
        [("csp/sched/scheduler_core.cpp", "  if (options.stack_size != 0) {\n",
          "  if (worker != nullptr && options.stack_size == 0) {\n"
          "    static_cast<void>(worker->bind_stack(fiber));\n  }\n"
          "  if (options.stack_size != 0) {\n")]),
    "spinning": (
        "a plain thread that waits sleeps at once",
        [("csp/wait/waiter.cpp", "  if (longest == 0) return false;", "  if (longest > 0) return false;")]),
    "counters": (
        "a channel counts no values that pass its ring by, and reads no clock",
        [("csp/channel/core.h", "  std::uint64_t handed_over_ LEAT_GUARDED_BY(lock_) = 0;",
          "  struct {\n    void operator++() noexcept {}\n"
          "    operator std::uint64_t() const noexcept { return 0; }\n  } handed_over_;"),
         ("csp/channel/core.cpp", "    one.node.since = coarse_now(worker);\n", ""),
         ("csp/channel/select_core.cpp", "      const Cycles now = coarse_now(worker_);\n",
          "      const Cycles now = 0;\n"),
         ("csp/channel/core.cpp",
          "  const Cycles now = coarse_now(worker);\n  return now > node.since ? now - node.since : 0;\n",
          "  static_cast<void>(node), static_cast<void>(worker);\n  return 0;\n")]),
}

PROBLEMS = [  # benchmark program, names
    ("channel", "^(ChanUncontended|ChanSync|Spsc/1|Spsc/128|Mpmc/128|ThreadToFiber)/workers"),
    ("select", "^(Select2/0|Select8/128)/workers"),
    ("spawn", "^Spawn/256/workers"),
    ("pipeline",
     "^(Ring/10|Ring/1000|RingShuffled/1000|Sieve/2000)/workers|^CoarseJobs/(1|17)/workers:2"),
    ("double_buffer", "^DoubleBuffer/(64|256|1024|4096)/1/workers:2"),
]


def run(command, **how):
    done = subprocess.run(command, text=True, capture_output=True, **how)
    if done.returncode != 0:
        sys.exit(f"techniques: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


LITERAL_OR_COMMENT = re.compile(
    r'''"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|[ \t]*(?://[^\n]*|/\*.*?\*/)''', re.DOTALL)


def without_comments(text):
    """C++ source text without its comments and without the lines that become empty."""
    text = LITERAL_OR_COMMENT.sub(lambda found: found[0] if found[0][0] in "\"'" else "", text)
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())


def changed_files(name, changes):
    """The changed sources, without comments: {file: text}. Raises ValueError if a file does not
    have the lines exactly once."""
    texts = {}
    for file, old, new in changes:
        if file not in texts:
            texts[file] = without_comments((ROOT / file).read_text())
        if texts[file].count(old) != 1:
            raise ValueError(f"{name}: {file} has these lines {texts[file].count(old)} times, "
                             f"not once; mend {pathlib.Path(__file__).name}:\n{old}")
        texts[file] = texts[file].replace(old, new)
    return texts


def check():
    """The exit status: 1 if lines that a technique replaces are not there exactly once."""
    status = 0
    for name, (_, changes) in TECHNIQUES.items():
        try:
            changed_files(name, changes)
        except (OSError, ValueError) as error:
            print(f"techniques: {error}", file=sys.stderr)
            status = 1
    return status


def build(name, changes):
    """The folder with the benchmarks of a copy of the sources that is changed so."""
    where = BUILD / name.replace(" ", "-")
    source = where / "source"
    source.mkdir(parents=True, exist_ok=True)
    changed = changed_files(name, changes)
    for file in run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT).splitlines():
        if not (ROOT / file).is_file() or file.startswith("examples/data/"):
            continue
        text = changed[file].encode() if file in changed else (ROOT / file).read_bytes()
        copy = source / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.is_file() or copy.read_bytes() != text:  # or everything is compiled again
            copy.write_bytes(text)
            shutil.copymode(ROOT / file, copy)
    run(["cmake", "-S", source, "-B", where / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", "-DLEAT_BUILD_TESTS=OFF",
         "-DLEAT_BUILD_EXAMPLES=OFF", "-DLEAT_BUILD_BENCH=ON", "-DLEAT_CUDA=OFF"])
    run(["cmake", "--build", where / "build", "--target"]
        + [f"bench_csp_{program}" for program, _ in PROBLEMS])
    return where / "build" / "bench"


def measure(folder, program, names, seconds):
    """Time of one operation, by name."""
    printed = run([folder / f"bench_csp_{program}", f"--benchmark_filter={names}",
                   f"--benchmark_min_time={seconds}", "--benchmark_format=csv"])
    rows = csv.DictReader(io.StringIO(printed[printed.index("name,iterations"):]))
    times = {}
    for row in rows:
        if row["error_occurred"]:
            sys.exit(f"techniques: {row['name']}: {row['error_message']}")
        times[row["name"].replace("/real_time", "")] = (float(row["real_time"]), row["time_unit"])
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true",
                        help="only look for the lines that are replaced")
    parser.add_argument("--rounds", type=int, default=12, help="how often each runs (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.1, help="how long at least (%(default)s)")
    parser.add_argument("--only", default="", metavar="REGEX", help="these techniques")
    parser.add_argument("--save", metavar="FILE", help="write the table there too")
    arguments = parser.parse_args()
    status = check()
    if status != 0 or arguments.check:
        return status
    chosen = {name: what for name, what in TECHNIQUES.items() if re.search(arguments.only, name)}
    conditions = {
        "command": " ".join(["python3 bench/csp/techniques.py"] + sys.argv[1:]),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": facts.machine(),
        "leat": facts.first_line("g++", "--version") + ", -O2",
        "commit": facts.commit(),
        "rounds": arguments.rounds,
        "seconds of a run, at least": arguments.seconds,
    }
    folders = {"complete": build("complete", [])}
    for name, (_, changes) in chosen.items():
        print(f"building without {name}", file=sys.stderr)
        folders[name] = build(name, changes)
    conditions["load before"] = round(os.getloadavg()[0], 1)  # the compiler's, where it was needed

    times = {}  # (benchmark, variant): [time], one a round
    units = {}
    variants = list(folders)
    for done in range(arguments.rounds):
        for program, names in PROBLEMS:
            for variant in variants[done % len(variants):] + variants[:done % len(variants)]:
                measured = measure(folders[variant], program, names, arguments.seconds)
                for benchmark, (time, unit) in measured.items():
                    times.setdefault((benchmark, variant), []).append(time)
                    units[benchmark] = unit

    lines = [f"{key}: {value}" for key, value in conditions.items()] + [""]
    for name, (instead, _) in chosen.items():
        lines.append(f"without {name}: {instead}")
    lines += ["", f"{'':30}{'complete':>12}" + "".join(f"{'- ' + name:>16}" for name in chosen)]
    for benchmark, unit in units.items():
        complete = times[benchmark, "complete"]
        line = f"{benchmark:30}{statistics.median(complete):>9.3g} {unit}"
        for name in chosen:
            ratios = [without / base for without, base in zip(times[benchmark, name], complete)]
            line += f"{statistics.median(ratios):>15.2f}x"
        lines.append(line)
    table = "\n".join(lines) + "\n"
    print(table, end="")
    if arguments.save:
        pathlib.Path(arguments.save).write_text(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
