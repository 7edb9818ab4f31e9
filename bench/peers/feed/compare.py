#!/usr/bin/env python3
"""Runs the benchmarks of bench/feeder and the loaders here alternately, over the same files in memory,
and prints one table: samples per second, and what was asked for.

./run bench feed calls it, once bench/feeder is built. A target that is missed is told, and is no
failure; a benchmark of Leat's that fails is: exit status 1.
"""

import argparse
import collections
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]

# --- what is compared, and what is asked of it ------------------------------------------------


class Row:
    """Of samples per second. `ratio`: ours to that of the best variant of any peer in the problem
    `against`; None: nothing is asked for. `few`: of the variants, only those that --quick tries."""

    def __init__(self, problem, ratio=None, against=None, quick=True, few=False):
        self.problem, self.ratio, self.against = problem, ratio, against or problem
        self.quick, self.few = quick, few


ROWS = [
    Row("tokens", 3),
    Row("tokens_uint16", quick=False, few=True),
    Row("cifar", 3),
    Row("jpeg", 1),
    Row("jpeg_scaled", 1.5, against="jpeg", quick=False),
]
PROBLEMS = [row.problem for row in ROWS]
# Leat's, as the peers have them in their scripts: the arguments of feed_bench.cpp.
VARIANTS = {f"workers_{workers}/" + (f"fiber_{fiber}" if fiber else "thread"):
            f"workers:{workers}/fiber:{fiber}" for workers in (1, 2) for fiber in (0, 1, 2)}

# Of one program each: the benchmark, the counter in microseconds, and the most that it may be.
LATENCIES = [
    ("handover", "handover_to_fiber", "p50_us", 2),
    ("handover", "handover_to_thread", "p50_us", 2),
    ("leave", "leave_files", "p99_us", 50e3),
    ("leave", "leave_slow", "p99_us", 50e3),
    ("leave", "leave_queued", "p99_us", 50e3),
]

PILLOW_SIMD = "pillow-simd==12.1.1.post0"  # has Pillow's names, hence a folder of its own
PEERS = ("torch", "webdataset", "spdl", "grain")
# The variants that --quick tries.
QUICK = re.compile(r"get_batch|((collate|getitems|slices|opencv_linear)/0|simplejpeg/[02]"
                   r"|samples/[02]|(batches|ffmpeg)/2|(slices|simplejpeg)/threads_2"
                   r"|slices/threads_0)$")
FINALISTS = 2  # of each peer's variants, which run in every round; and the best that reads ahead

# Variants that read in the loop's own thread, when it asks.
INLINE = re.compile(r"get_batch|.*/(threads_)?0")

# Where a figure is not quite the row's: program, problem, variant.
NOTES = [
    ("webdataset", "", ".*", "its order is that of a buffer of 1000 samples, and of the shards"),
    ("torch|spdl|grain", "cifar", "(getitems|slices|batches).*",
     "from two arrays in its own memory; the others read the mapped files"),
    ("torch", "tokens", "get_batch", "nanoGPT's, in place of a loader"),
    (".*", ".*", INLINE, "in the loop's own thread: nothing is read ahead"),
    ("spdl", "jpeg", "ffmpeg.*", "FFmpeg's decoder and its bicubic scaler"),
    (".*", "jpeg_scaled", "pillow.*", "500 x 375 is not halved, since 187 is less than 224"),
]

# --- running ----------------------------------------------------------------------------------


class Failed(Exception):
    pass


def capture(command, **options):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE,
                          text=True, **options).stdout


def stop(process):
    """It and what it has started: each may have memory to give back."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.communicate(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def execute(command, limit, **options):
    try:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   **options)
    except OSError as error:
        raise Failed(str(error)) from None
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        stop(process)
        raise Failed(f"took more than {limit:g} s") from None
    except KeyboardInterrupt:
        stop(process)
        raise
    if process.returncode != 0:
        said = err.strip().splitlines()
        what = [line for line in said if re.match(r"[\w.]+(Error|Exception)\b|wrong", line)]
        raise Failed((what or said or [f"exit status {process.returncode}"])[-1])
    return out


class Leat:
    name = "leat"

    def __init__(self, programs, data, quick):
        self.programs = programs
        self.environment = {**os.environ, "LEAT_FEED_DATA": str(data)}
        if quick:
            self.environment["LEAT_FEED_QUICK"] = "1"
        listed = execute([programs / "bench_feeder_feed", "--benchmark_list_tests=true"], 60,
                         env=self.environment)
        problems = {line.split("/")[0] for line in listed.splitlines()}
        self.variants = {problem: list(VARIANTS) for problem in problems}
        self.versions = {}

    def benchmarks(self, program, pattern, seconds, limit):
        options = [f"--benchmark_filter={pattern}", "--benchmark_format=json"]
        if seconds is not None:
            options.append(f"--benchmark_min_time={seconds}")
        found = json.loads(execute([self.programs / f"bench_feeder_{program}", *options], limit,
                                   env=self.environment))["benchmarks"]
        if not found:
            raise Failed(f"no benchmark matches {pattern}")
        for one in found:
            if one.get("error_occurred"):
                raise Failed(one["error_message"])
        return found

    def run(self, problem, variant, seconds, limit):
        one = self.benchmarks("feed", f"^{problem}/{VARIANTS[variant]}/real_time$", seconds, limit)
        return one[0]["items_per_second"]


class Peer:
    def __init__(self, name, python, data):
        self.name, self.python, self.data = name, python, data
        self.program = HERE / f"{name}_loader.py"
        # No library starts threads of its own beside the loader's; nothing is written to the tree.
        self.environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                            "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.variants, self.versions = collections.defaultdict(list), {}
        for line in execute([python, self.program], 300, env=self.environment).splitlines():
            kind, first, second = line.split()
            if kind == "variant":
                self.variants[first].append(second)
            else:
                self.versions[first] = second

    def run(self, problem, variant, seconds, limit):
        said = execute([self.python, self.program, problem, variant, seconds, self.data], limit,
                       env=self.environment)
        return json.loads(said.splitlines()[-1])["samples_per_second"]


def measure(rows, programs, rounds, seconds, limit, quick):
    """problem -> program -> variant -> values, and what failed. All variants run once; then each
    program's best ones, until they have run `rounds` times. Programs take turns, another one first
    each time, so what slows the machine for a while slows all of them."""
    values = {row.problem: {program.name: {} for program in programs} for row in rows}
    failures = {}

    def run(program, problem, variant):
        if sys.stderr.isatty():
            print(f"\r{problem}, {program.name} {variant}\033[K", end="", file=sys.stderr)
        try:
            figure = program.run(problem, variant, seconds, limit)
        except Failed as failure:
            failures[f"{program.name} {problem} {variant}"] = str(failure)
            values[problem][program.name].pop(variant, None)
            return
        values[problem][program.name].setdefault(variant, []).append(figure)

    for row in rows:
        for program in programs:
            for variant in program.variants.get(row.problem, []):
                if program.name == "leat" or not (quick or row.few) or QUICK.match(variant):
                    run(program, row.problem, variant)
    for turn in range(1, rounds):
        first = turn % len(programs)
        for row in rows:
            for program in programs[first:] + programs[:first]:
                of = values[row.problem][program.name]
                best = sorted(of, key=lambda variant: -of[variant][0])
                ahead = [variant for variant in best if not INLINE.fullmatch(variant)]
                for variant in dict.fromkeys(best[:FINALISTS] + ahead[:1]):
                    run(program, row.problem, variant)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return values, failures


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


# --- judging ----------------------------------------------------------------------------------


def best_of(variants):
    """(median, name) of the fastest variant; (None, None) without one. Of those that ran in the
    first round alone, one that was lucky there does not count."""
    most = max((len(of) for of in variants.values()), default=0)
    medians = {name: statistics.median(of) for name, of in variants.items() if len(of) == most}
    name = max(medians, key=medians.get, default=None)
    return medians.get(name), name


class Target:
    """`reached` is None where it was not measured; `at_least` says on which side `bound` lies.
    What nobody is there to be compared with is not judged."""

    def __init__(self, what, bound, reached, at_least, unit, judged=True, note=""):
        self.what, self.bound, self.reached = what, bound, reached
        self.at_least, self.unit, self.judged, self.note = at_least, unit, judged, note

    @property
    def verdict(self):
        if not self.judged:
            return "not judged"
        if self.reached is None:
            return "NOT MEASURED"
        met = self.reached >= self.bound if self.at_least else self.reached <= self.bound
        return "met" if met else "MISSED"

    def show(self, value):
        if value is None:
            return "-"
        if self.unit == " us" and self.bound >= 1e3:
            return f"{value / 1e3:.3g} ms"
        return f"{value:.3g}{self.unit}"

    @property
    def line(self):
        return [self.what, (">= " if self.at_least else "<= ") + self.show(self.bound),
                self.show(self.reached), self.verdict + (f" ({self.note})" if self.note else "")]

    @property
    def json(self):
        return {"what": self.what, "bound": self.bound, "at_least": self.at_least,
                "reached": self.reached, "unit": self.unit, "verdict": self.verdict,
                "note": self.note}


def ratio_of(row, values, what, counts, judged):
    """To the best of the peers' variants that count."""
    ours, how = best_of(values[row.problem].get("leat", {}))
    others = {}
    for name, variants in values.get(row.against, {}).items():
        fastest, variant = best_of({one: of for one, of in variants.items() if counts(one)})
        if name != "leat" and fastest:
            others[name] = fastest, variant
    who = max(others, key=lambda name: others[name][0], default=None)
    reached = ours / others[who][0] if ours and who else None
    note = f"{how} against {who} {others[who][1]}" if reached else "no peer"
    if ours is None:
        note = "leat has no such benchmark, or it failed"
    return Target(f"{row.problem}, to {what}", row.ratio, reached, True, "x",
                  judged=judged and (who is not None or ours is None), note=note)


def targets_of(values, latencies):
    targets = []
    for row in ROWS:
        if row.problem not in values or row.ratio is None:
            continue
        targets.append(ratio_of(row, values, f"the best peer's {row.against}", lambda one: True,
                                True))
        targets.append(ratio_of(row, values, "the best that reads ahead, as leat does",
                                lambda one: not INLINE.fullmatch(one), False))
    for _, name, counter, most in LATENCIES:
        if latencies is not None:
            reached = latencies.get(name, {}).get(counter)
            targets.append(Target(f"{name}, {counter.removesuffix('_us')}", most, reached, False,
                                  " us"))
    return targets


# --- printing ---------------------------------------------------------------------------------


def columns(lines, out):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:])]
        print("  " + "  ".join(cells + [line[-1]]).rstrip(), file=out)
    print(file=out)


def rate(value):
    return f"{value / 1e3:.0f} k" if value >= 1e4 else f"{value:.0f}"


def notes_on(program, problem, variant):
    return [note for programs, problems, variants, note in NOTES
            if re.fullmatch(programs, program) and re.match(problems, problem)
            and re.fullmatch(variants, variant)]


def print_report(facts, values, latencies, failures, out):
    for key, value in facts.items():
        print(f"{key}: {value}", file=out)
    if facts:
        print(file=out)
    notes = {}
    for problem, programs in values.items():
        ours, _ = best_of(programs.get("leat", {}))
        lines = [[f"{problem}, samples/s", "median", "min..max", "runs", "leat's best is", ""]]
        for program, variants in programs.items():
            for variant, of in sorted(variants.items(),
                                      key=lambda item: (-len(item[1]),
                                                        -statistics.median(item[1]))):
                median = statistics.median(of)
                mark = " ".join(f"*{notes.setdefault(note, len(notes) + 1)}"
                                for note in notes_on(program, problem, variant))
                lines.append([f"{program} {variant}", rate(median),
                              f"{rate(min(of))}..{rate(max(of))}", str(len(of)),
                              f"{ours / median:.2f}x" if ours else "-", mark])
        columns(lines, out)
    for note, number in notes.items():
        print(f"*{number} {note}", file=out)
    if notes:
        print(file=out)
    if latencies:
        names = sorted({key for of in latencies.values() for key in of})
        columns([["host time"] + names + [""]]
                + [[name] + [f"{of[key]:.4g}" if key in of else "-" for key in names] + [""]
                   for name, of in latencies.items()], out)
    targets = targets_of(values, latencies)
    columns([["target", "asked", "reached", ""]] + [target.line for target in targets], out)
    for what, why in failures.items():
        print(f"failed: {what}: {why}", file=out)
    counts = collections.Counter(target.verdict for target in targets)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), file=out)
    return targets


# --- data, environment, facts -----------------------------------------------------------------


def make_data(programs, folder, python, quick):
    make = programs / "make_data"
    capture([make, "tokens", folder / "tokens", "--shards", "1", "--header", "none", "--seed", "1",
             "--size", "8M" if quick else "128M"])
    capture([make, "cifar10", folder / "cifar10", "--seed", "1",
             "--size", str(3073 * (5_000 if quick else 50_000))])
    if python:
        capture([python, HERE / "make_shards.py", folder, "128" if quick else "1024"],
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    for path in folder.rglob("*"):  # in memory, whatever holds it
        if path.is_file():
            path.read_bytes()


def make_environment(folder):
    """Python with what requirements.txt names, made or brought up to date; and what it has not."""
    python = folder / "bin" / "python3"
    text = (HERE / "requirements.txt").read_text()
    wanted = hashlib.sha256((text + PILLOW_SIMD + sys.version).encode()).hexdigest()
    stamp = folder / "leat_requirements"
    if stamp.exists() and stamp.read_text().split("\n")[0] == wanted:
        return python, [line for line in stamp.read_text().split("\n")[1:] if line]
    print(f"installing the peers into {folder} (some 5 GB)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    log = open(folder / "pip.log", "w")

    def install(*what):
        return subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check",
                               *what], stdout=log, stderr=subprocess.STDOUT).returncode == 0

    missing = []
    if not install("-r", HERE / "requirements.txt"):
        for line in text.splitlines():
            if line and not line.startswith("#") and not install(line):
                missing.append(f"{line.split(';')[0]} cannot be installed; see {log.name}")
    if not install("--target", folder / "pillow-simd", "--no-deps", PILLOW_SIMD):
        missing.append(f"{PILLOW_SIMD} cannot be built; see {log.name}")
        shutil.rmtree(folder / "pillow-simd", ignore_errors=True)
    stamp.write_text("\n".join([wanted, *missing]))
    return python, missing


def first_line(*command):
    try:
        return capture(command).splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "?"


def machine():
    cpu = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    distribution = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    return (f"{cpu[1] if cpu else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, "
            f"{int(memory[1]) / 2**20:.0f} GiB, {distribution[1] if distribution else '?'}, "
            f"Linux {platform.release()}")


def commit():
    name = first_line("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD")
    dirty = subprocess.run(["git", "-C", ROOT, "status", "--porcelain"], stdout=subprocess.PIPE,
                           text=True).stdout.strip()
    return name + (" with changes" if dirty else "")


def cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


def memory_folder(bytes_needed):
    """Where files are in memory, if there is such a place with room; else the usual one."""
    folder = "/dev/shm"
    if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > bytes_needed:
        return folder
    return None


def read(path):
    saved = json.loads(pathlib.Path(path).read_text())
    return saved["facts"], saved["values"], saved["latencies"], saved["failures"]


def run(arguments):
    rows = [row for row in ROWS if (row.quick or not arguments.quick or arguments.only is not None)
            and re.search(arguments.only or "", row.problem)]
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    seconds = arguments.seconds or (0.2 if arguments.quick else 1)
    programs_at = arguments.programs.resolve()
    facts, skipped = {}, {}
    python, missing = None, []
    if arguments.wanted:
        python, missing = make_environment(arguments.venv)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"other programs run here (load {load:.1f}): these figures are no measurement",
              file=sys.stderr)
    start = datetime.datetime.now(datetime.timezone.utc)
    with tempfile.TemporaryDirectory(prefix="leat_feed_", dir=memory_folder(2 << 30)) as folder:
        data = pathlib.Path(folder)
        make_data(programs_at, data, python, arguments.quick)
        programs = [Leat(programs_at, data, arguments.quick)]
        for name in arguments.wanted:
            try:
                programs.append(Peer(name, python, data))
            except Failed as failure:
                skipped[name] = str(failure)
                print(f"without {name}: {failure}", file=sys.stderr)
        values, failures = measure(rows, programs, rounds, seconds, arguments.limit,
                                   arguments.quick)
        latencies = measure_latencies(programs[0], arguments.limit, failures)
        taken = datetime.datetime.now(datetime.timezone.utc) - start
        versions = {}
        for program in programs:
            versions |= program.versions
        facts = {
            "command": "./run bench feed " + shlex.join(arguments.said),
            "date": start.strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "load before": round(load, 1),
            "commit": commit(),
            "files": "in " + ("memory (/dev/shm)" if folder.startswith("/dev/shm")
                              else f"{data.parent}, read once before"),
            "rounds": rounds,
            "seconds of a run, at least": seconds,
            "minutes in all": round(taken.total_seconds() / 60, 1),
            "leat": first_line("g++", "--version") + ", -O2",
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
    parser.add_argument("--rounds", type=int, help="how often the best variants run (5; quick: 2)")
    parser.add_argument("--seconds", type=float,
                        help="how long a run is timed at least (1; quick: 0.2)")
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
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    arguments = parser.parse_args()
    arguments.said = [word for word in sys.argv[1:]
                      if not word.startswith(("--directory", "--programs"))]
    if arguments.only and not any(re.search(arguments.only, problem) for problem in PROBLEMS):
        parser.error(f"no problem matches {arguments.only}; there are: {' '.join(PROBLEMS)}")
    base = None
    if arguments.save:
        base = pathlib.Path(arguments.directory, re.sub(r"\.(txt|json)$", "", arguments.save))
        if not base.parent.is_dir():
            parser.error(f"there is no folder {base.parent}")
    arguments.venv = pathlib.Path(arguments.directory, arguments.venv)
    arguments.wanted = [name for name in arguments.peers.split(",") if name] \
        if arguments.peers is not None else list(PEERS)
    for name in arguments.wanted:
        if name not in PEERS:
            parser.error(f"there is no peer {name}; there are: {' '.join(PEERS)}")
    if arguments.check:
        return 0

    facts, values, latencies, failures = (
        read(pathlib.Path(arguments.directory, arguments.read)) if arguments.read
        else run(arguments))
    targets = print_report(facts, values, latencies, failures, sys.stdout)
    if base:
        with open(f"{base}.txt", "w") as out:
            print_report(facts, values, latencies, failures, out)
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
