#!/usr/bin/env python3
"""Runs the benchmarks of bench/gpu, or reads what they have written, and prints one table: what was
measured, and what was asked for. ./run bench gpu calls it, once they are built.

A missed target is reported; it is not a failure. A benchmark that fails is one: exit status 1.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

PROGRAMS = ("link", "await", "events")
# Rows that are compared with each other take turns.
REPEATED = {"await": 5, "events": 3}

KINDS = ("pageable", "pinned", "write_combined", "arena")
PINNED = ("pinned", "write_combined", "arena")
SLOT = 4 << 20  # bytes from which the arena's targets count
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}

# --- running and reading ----------------------------------------------------------------------


class Failed(Exception):
    pass


def run(program, options, out):
    command = [str(options.programs / f"bench_gpu_{program}"), f"--device={options.device}",
               f"--benchmark_out={out}", "--benchmark_out_format=json"]
    if options.quick:
        command.append("--quick")
    if program in REPEATED:
        command += [f"--benchmark_repetitions={1 if options.quick else REPEATED[program]}",
                    "--benchmark_enable_random_interleaving=true"]
    print(f"running {program}", file=sys.stderr)
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=options.limit, cwd=options.directory)
    except subprocess.TimeoutExpired:
        raise Failed(f"{program} took more than {options.limit} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    said = [line for line in done.stderr.splitlines()
            if "WARNING" not in line and ": " in line and not line.startswith(("Run on", " "))]
    return done.returncode, said


class Results:
    """What one program measured: name of the row -> counter -> its values."""

    def __init__(self, text):
        written = json.loads(text)
        self.context, self.rows, self.errors, self.labels = written["context"], {}, {}, {}
        self.json = written
        for one in written["benchmarks"]:
            if one.get("run_type") == "aggregate":
                continue
            name = one["name"].split("/iterations:")[0]
            if one.get("error_occurred"):
                self.errors[name] = one["error_message"]
                continue
            if one.get("label"):
                self.labels[name] = one["label"]
            row = self.rows.setdefault(name, {})
            for key, value in one.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    row.setdefault(key, []).append(value)

    def get(self, name, counter):
        """The median of the repetitions; None where it was not measured."""
        values = self.rows.get(name, {}).get(counter)
        return statistics.median(values) if values and name not in self.errors else None


def size_of(name):
    for unit, factor in UNITS.items():
        if name.endswith(unit):
            return int(name[: -len(unit)]) * factor
    return None


# --- judging ----------------------------------------------------------------------------------


class Target:
    """`reached` is None where it was not measured; `at_least` says on which side `bound` lies."""

    def __init__(self, what, bound, reached, at_least, unit, judged):
        self.what, self.bound, self.reached = what, bound, reached
        self.at_least, self.unit, self.judged = at_least, unit, judged

    @property
    def verdict(self):
        if not self.judged:
            return "not judged"
        if self.reached is None:
            return "NOT MEASURED"
        met = self.reached >= self.bound if self.at_least else self.reached <= self.bound
        return "met" if met else "MISSED"

    def show(self, value):
        return "-" if value is None else f"{value:.4g}{self.unit}"

    @property
    def line(self):
        return [self.what, (">= " if self.at_least else "<= ") + self.show(self.bound),
                self.show(self.reached), self.verdict]

    @property
    def json(self):
        return {"what": self.what, "bound": self.bound, "at_least": self.at_least,
                "reached": self.reached, "unit": self.unit.strip(), "verdict": self.verdict}


def arena_share(link, best, load):
    """The worst of the arena's slots against the best figure that pinned memory gave, alone."""
    shares = []
    for name in link.rows:
        direction, kind, size, *rest = name.split("/")
        if (direction, kind, rest) == ("h2d", "arena", [load]) and size_of(size) >= SLOT:
            rate = link.get(name, "GB_per_s")
            if rate is not None:
                shares.append(rate / best)
    return min(shares) if shares and best else None


def most(results, counters):
    """The most that any row of any program shows of these; None where no row has one."""
    found = [max(row[counter]) for one in results.values() for row in one.rows.values()
             for counter in counters if counter in row]
    return max(found) if found else None


def difference(results, one, other, counter):
    values = [results.get(name, counter) for name in (one, other)]
    return None if None in values else values[0] - values[1]


def targets_of(results):
    """All that is asked for on a GPU. On the host device nothing is judged."""
    link, wait, events = (results.get(name) for name in PROGRAMS)
    gpu = any(one.context.get("device", "").startswith("cuda") for one in results.values())
    targets = []

    def add(what, bound, reached, at_least=False, unit="", judged=gpu):
        targets.append(Target(what, bound, reached, at_least, unit, judged))

    if link:
        best = max((link.get(name, "GB_per_s") or 0 for name in link.rows
                    if name.startswith("h2d/") and name.endswith("/alone")
                    and name.split("/")[1] in PINNED), default=0)
        add("H2D from the arena, slots >= 4 MiB / best pinned alone", 0.98,
            arena_share(link, best, "alone"), True)
        add("the same under compute", 0.95, arena_share(link, best, "under_compute"), True)
    if wait:
        for how in ("await", "on_done"):
            for duration in ("50us", "500us"):
                add(f"{how} beyond a spinning sync, p50, kernel of {duration}", 10,
                    difference(wait, f"{how}/{duration}", f"sync/{duration}", "p50_us"),
                    unit=" us")
            add(f"{how}: CPU while nothing completes for 1 s", 0.05,
                wait.get(f"{how}/idle", "cpu"), unit=" cores")
    if events:
        for name in ("record_wait", "record", "wait"):
            add(f"{name} through Leat / CUDA's calls", 1.03, events.get(name, "ratio"))
    # Of these the host device is judged too: it is the same code above the seam.
    add("heap allocations for each operation, most", 0, most(results, ["heap_per_op"]),
        judged=True)
    add("CUDA allocations and events for each operation, most", 0,
        most(results, ["device_per_op", "pinned_per_op", "events_per_op"]))
    return targets


# --- printing ---------------------------------------------------------------------------------


def columns(lines, out):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        print("  " + "  ".join(cells).rstrip(), file=out)
    print(file=out)


def number(value):
    return "-" if value is None else f"{value:.4g}"


def print_link(link, out):
    def cells(direction, size, load, kinds):
        return [number(link.get(f"{direction}/{kind}/{size}/{load}", "GB_per_s"))
                for kind in kinds]

    def parts(at, load):
        return list(dict.fromkeys(name.split("/")[2] for name in link.rows
                                  if name.split("/")[3] == load and (at == name.split("/")[0])))

    for load in dict.fromkeys(name.split("/")[3] for name in link.rows):
        kinds = [kind for kind in KINDS
                 if any(name.split("/")[1::2] == [kind, load] for name in link.rows)]
        names = {link.labels[name] for name in link.labels if name.endswith(load)}
        title = load.replace("_", " ") + "".join(f" ({name})" for name in sorted(names))
        head = [f"GB/s, {title}"] + [f"{direction} {kind}" for direction in ("h2d", "d2h")
                                     for kind in kinds]
        lines = [head]
        for size in parts("h2d", load) or parts("d2h", load):
            lines.append([size] + cells("h2d", size, load, kinds) + cells("d2h", size, load, kinds))
        columns(lines, out)


def print_counters(title, results, counters, out):
    lines = [[title] + list(counters)]
    for name in sorted(results.rows):
        values = [results.get(name, counter) for counter in counters]
        if any(value is not None for value in values):
            lines.append([name] + [number(value) for value in values])
    if len(lines) > 1:
        columns(lines, out)
    for label in sorted(set(results.labels.values())):
        print(f"  {label}\n", file=out)


def print_report(results, targets, failures, out):
    print(datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), file=out)
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.platform()}", file=out)
    said = {}
    for one in results.values():
        said.update({key: value for key, value in one.context.items()
                     if key in ("device", "description", "cuda", "numa_node", "copy_engines",
                                "arena")})
    for key, value in said.items():
        print(f"{key}: {value}", file=out)
    print(file=out)
    if "link" in results:
        print_link(results["link"], out)
    if "await" in results:
        print_counters("round trip", results["await"], ("p50_us", "p99_us"), out)
        print_counters("1 s of waiting", results["await"], ("cpu",), out)
    if "events" in results:
        print_counters("events", results["events"], ("leat_ns", "raw_ns", "ratio"), out)
    columns([["target", "asked", "reached", ""]] + [target.line for target in targets], out)
    for failure in failures:
        print(f"FAILED: {failure}", file=out)


def main():
    parser = argparse.ArgumentParser(prog="./run bench gpu", description=__doc__)
    parser.add_argument("--device", default="auto", help="auto, cuda:N or host:N")
    parser.add_argument("--quick", action="store_true", help="whether it works, in seconds")
    parser.add_argument("--save", metavar="PREFIX", help="write PREFIX.txt and PREFIX.json too")
    parser.add_argument("--limit", type=float, default=900, metavar="SECONDS",
                        help="the longest that one program may take")
    parser.add_argument("--programs", type=pathlib.Path, metavar="FOLDER",
                        default=pathlib.Path(__file__).resolve().parents[2] / "build/release/bench",
                        help=argparse.SUPPRESS)
    parser.add_argument("--read", nargs="+", type=pathlib.Path, metavar="FILE",
                        help="run nothing: what they have written with --benchmark_out, files "
                        "whose names end in link.json, await.json and events.json")
    parser.add_argument("--directory", default=".", help=argparse.SUPPRESS)
    parser.add_argument("--commit", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check:
        return 0

    texts, failures = {}, []
    if options.read:
        for path in options.read:
            program = next((name for name in PROGRAMS if path.name.endswith(f"{name}.json")), None)
            if program is None:
                parser.error(f"{path}: none of {', '.join(PROGRAMS)}")
            try:
                texts[program] = path.read_text()
            except OSError as error:
                failures.append(str(error))
    else:
        options.programs = options.programs.resolve()
        with tempfile.TemporaryDirectory() as folder:
            for program in PROGRAMS:
                out = pathlib.Path(folder) / f"{program}.json"
                try:
                    status, said = run(program, options, out)
                except Failed as failure:
                    failures.append(str(failure))
                    continue
                text = out.read_text() if out.exists() else ""
                if not text.strip():  # it has not begun: no such device, most likely
                    print(said[-1] if said else f"{program}: exit status {status}",
                          file=sys.stderr)
                    return 1
                texts[program] = text
                if status != 0:
                    failures.append(f"{program}: exit status {status}")
    results = {}
    for program, text in texts.items():
        try:
            results[program] = Results(text)
        except (ValueError, KeyError):
            failures.append(f"{program}: what it has written is not complete")
            continue
        failures += [f"{program} {name}: {why}" for name, why in results[program].errors.items()]

    targets = targets_of(results)
    failures += [f"{target.what}: no row has it" for target in targets
                 if target.verdict == "NOT MEASURED"]
    print_report(results, targets, failures, sys.stdout)
    if options.save:
        prefix = pathlib.Path(options.directory) / options.save
        with open(f"{prefix}.txt", "w") as out:
            print_report(results, targets, failures, out)
        with open(f"{prefix}.json", "w") as out:
            json.dump({"commit": options.commit, "targets": [target.json for target in targets],
                       "failures": failures,
                       **{program: one.json for program, one in results.items()}}, out, indent=1)
            out.write("\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
