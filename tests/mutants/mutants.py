#!/usr/bin/env python3
"""Planted faults, and the tests that find them: README.md.

mutants.py check            checks that each planted text stands in the tree exactly once
mutants.py run [NAME...]    builds a copy of the tree with all faults planted, runs the tests against each
                            (or against the named ones, or those of the named rooms), writes results.txt
mutants.py plant LIST OUT   plants a list for an explorer: tests/explore.cmake
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results.txt"
ROOMS = ("csp", "gpu", "feeder", "comm", "pipeline", "python")
LOST = "NOT FOUND"
# The planted copy does without the tests of the tree itself and without the explorers' own plants.
EDITS = {"tests/CMakeLists.txt": [("add_subdirectory(tree)\n", ""), ("  add_subdirectory(csp/refused)\n", "")],
         "tests/explore.cmake": [("if(LEAT_SANITIZE OR NOT PYTHON_PROGRAM)", "if(TRUE)")]}
# As the release preset. The tests of a large program run in a few processes, as their start takes long.
CONFIGURE = """-G Ninja -DCMAKE_BUILD_TYPE=Release -DLEAT_WARNINGS=OFF -DLEAT_BUILD_BENCH=OFF -DLEAT_MPI=OFF
    -DLEAT_BUILD_EXAMPLES=OFF -DLEAT_BUILD_PROGRAMS=OFF -DLEAT_TORCH=OFF -DLEAT_TEST_SHARDS=8""".split()


# ---- the lists


@dataclass
class Fault:
    """One entry of a list: in `file`, the first text of each hunk becomes the second."""

    room: str
    where: str  # in the list
    name: str
    file: str
    sentence: str = ""
    found: tuple[str, str] | None = None  # by an explorer: with this argument it prints what matches that
    hunks: list[tuple[list[str], list[str]]] = field(default_factory=list)  # lines

    @property
    def number(self) -> int:
        """Of the name alone: a new fault makes no other file compile anew."""
        return zlib.crc32(self.name.encode()) or 1

    def replacements(self) -> list[tuple[str, str]]:
        python = f'(__import__("os").environ.get("LEAT_MUTANT") == "{self.number}")'
        is_on = python if self.file.endswith(".py") else f"leat_mutant({self.number}UL)"
        return [("\n".join(old), re.sub(r"\bMUTANT\b", is_on, "\n".join(new))) for old, new in self.hunks]


def read_list(path: Path) -> list[Fault]:
    faults: list[Fault] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where, words, last = f"{path.relative_to(ROOT)}:{number}", line[2:].split(), faults[-1:]
        if line.startswith("== ") and len(words) == 2:
            faults.append(Fault(path.stem, where, *words))
        elif last and line.startswith("# "):
            last[0].sentence += line[1:]
        elif last and line.startswith("? ") and len(words) > 1:
            last[0].found = words[0], " ".join(words[1:])
        elif last and line.startswith("-"):
            if not last[0].hunks or last[0].hunks[-1][1]:
                last[0].hunks.append(([], []))
            last[0].hunks[-1][0].append(line[1:])
        elif last and last[0].hunks and line.startswith("+"):
            last[0].hunks[-1][1].append(line[1:])
        elif line:
            sys.exit(f'{where}: expected "== name file", then lines with #, with - and with +')
    return faults


def plant(text: str, faults: list[Fault], wrong: list[str]) -> str:
    """The file's text with the faults. Adds to `wrong` what cannot be planted."""
    places = []
    for one in faults:
        for old, new in one.replacements():
            count = text.count(old) if old else 0
            if count == 1:
                places.append((text.index(old), text.index(old) + len(old), new, one))
            else:
                wrong.append(f"{one.where}: {one.name}: {one.file} has this {count} times, not once:\n{old}\nThe "
                             "code has changed: plant the fault anew, in what does that work now. It is dropped only "
                             "with the work itself.")
    places.sort(key=lambda place: place[:2])
    for (_, end, _, one), (begin, _, _, other) in zip(places, places[1:]):
        if begin < end:
            wrong.append(f"{other.where}: {other.name} and {one.name} change the same text of {one.file}")
    for begin, end, new, _ in reversed(places):
        text = text[:begin] + new + text[end:]
    return text


def plant_all(faults: list[Fault], edits: dict[str, list[tuple[str, str]]] = EDITS) -> dict[str, str]:
    """The text of each file that is another in the copy. Ends the program if a fault cannot be planted."""
    wrong = []
    for i, one in enumerate(faults):
        if not one.sentence or not one.hunks:
            wrong.append(f"{one.where}: {one.name} needs a sentence (#), what stands there (-), and instead (+)")
        if not re.search(r"\bMUTANT\b", str([new for _, new in one.hunks])):
            wrong.append(f"{one.where}: {one.name} has no MUTANT, which is true while the fault is on")
        if one.name in ROOMS or one.number in (other.number for other in faults[:i]):
            wrong.append(f"{one.where}: the name {one.name} is taken")
        if not (ROOT / one.file).is_file():
            wrong.append(f"{one.where}: {one.name}: there is no file {one.file}")
    planted = {}
    for file in {one.file: None for one in faults if (ROOT / one.file).is_file()}:
        planted[file] = plant((ROOT / file).read_text(), [one for one in faults if one.file == file], wrong)
    for file, changes in edits.items():
        planted[file] = (ROOT / file).read_text()
        for old, new in changes:
            if planted[file].count(old) != 1:
                wrong.append(f"{file} no longer has once {old!r}: EDITS in mutants.py")
            planted[file] = planted[file].replace(old, new)
    if wrong:
        sys.exit("\n".join(wrong))
    return planted


# ---- the planted copy


def write(to: Path, content: bytes) -> None:
    """A file that is as it should be is not written, so that nothing is compiled anew."""
    if not to.is_file() or to.read_bytes() != content:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)


def with_mutant_h(header: Path, name: str, text: str) -> bytes:
    return ((f'#include "{header}"\n' if name.endswith((".h", ".cpp")) else "") + text).encode()


def plant_for_explorer(path: Path, out: Path) -> None:
    """Writes the planted files, as out/leat/..., and out/mutants.cmake, which tells of them."""
    faults = read_list(path)
    planted = plant_all(faults, {})
    for name, text in planted.items():
        write(out / "leat" / name, with_mutant_h(HERE / "mutant.h", name, text))
    lines = [f"set(planted {' '.join(planted)})"]
    for one in faults:
        argument, found = one.found or (one.name, "")
        lines.append(f"leat_add_mutant({one.name} {one.number} [==[{argument}]==] [==[{found}]==])")
    write(out / "mutants.cmake", "\n".join([*lines, ""]).encode())


def write_tree(tree: Path, planted: dict[str, str]) -> None:
    """Copies the tree."""
    listed = subprocess.run("git ls-files -z --cached --others --exclude-standard".split(), cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source, to = ROOT / name, tree / name
        if source.is_symlink() and not to.is_symlink():
            to.parent.mkdir(parents=True, exist_ok=True)
            to.symlink_to(os.readlink(source))
        if source.is_symlink() or not source.is_file():
            continue
        header = tree / "tests/mutants/mutant.h"
        write(to, with_mutant_h(header, name, planted[name]) if name in planted else source.read_bytes())
        shutil.copymode(source, to)


def build(tree: Path, out: Path, pythons: Path | None, jobs: int) -> None:
    targets, more = ["all"], []
    if shutil.which("ccache"):
        more = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    if pythons:
        more += ["-DLEAT_BUILD_PYTHON=ON", f"-DPython_EXECUTABLE={pythons / 'tools/bin/python'}"]
    subprocess.run(["cmake", "-S", tree, "-B", out, *CONFIGURE, *more], check=True, stdout=subprocess.DEVNULL)
    help_text = subprocess.run(["cmake", "--build", out, "--target", "help"], capture_output=True, text=True).stdout
    targets += [one for one in ("leat_python", "leat_python_stand_in") if f"\n{one}:" in help_text]
    subprocess.run(["cmake", "--build", out, "-j", str(jobs), "--target", *targets], check=True)


# ---- tests


@dataclass
class Test:
    """A process that runs tests."""

    name: str
    room: str
    command: list[str]
    folder: Path | str
    environment: dict[str, str]
    skipped: int | None = None  # its exit status if nothing of it can run here
    usual: float = 0  # seconds, without a fault

    @property
    def program(self) -> str:
        return self.name if self.room == "python" else Path(self.command[0]).name

    def alone(self, one: str) -> "Test":
        """One of its tests."""
        if one == self.name:
            return self
        if self.room == "python":
            return replace(self, command=[*self.command, "-k", one.split("[")[0]], usual=min(self.usual, 4))
        environment = {name: value for name, value in self.environment.items() if not name.startswith("GTEST_")}
        return replace(self, command=[self.command[0], f"--gtest_filter={one}"], environment=environment,
                       usual=min(self.usual, 4))


def tests_of(tree: Path, out: Path, pythons: Path | None) -> list[Test]:
    """ctest's tests that have a room for their label; the files of pytest."""
    shown = subprocess.run(["ctest", "--test-dir", out, "--show-only=json-v1"], check=True, capture_output=True)
    tests = []
    for one in json.loads(shown.stdout)["tests"]:
        of = {each["name"]: each["value"] for each in one["properties"]}
        for room in set(ROOMS) & set(of.get("LABELS", [])):
            tests.append(Test(one["name"], room, one["command"], of["WORKING_DIRECTORY"],
                              dict(each.split("=", 1) for each in of.get("ENVIRONMENT", [])),
                              of.get("SKIP_RETURN_CODE")))
    environment = {"PYTHONPATH": str(out / "python"), "PYTHONDONTWRITEBYTECODE": "1", "JAX_PLATFORMS": "cpu",
                   "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for file in sorted((tree / "python/tests").glob("test_*.py")) if pythons else []:
        command = [str(pythons / "newest/bin/python"), *"-m pytest -x -q -p no:cacheprovider".split(), str(file)]
        tests.append(Test(file.stem, "python", command, tree, environment, 5))
        if (out / "python/stand_in").is_dir() and "stand_in" in file.read_text():
            on_stand_in = environment | {"LEAT_TEST_STAND_IN": str(out / "python/stand_in")}
            tests.append(Test(file.stem + "_on_stand_in", "python", command, tree, on_stand_in, 5))
    return tests


class Running:
    """A test that runs, in a process group of its own."""

    def __init__(self, test: Test, number: int) -> None:
        self.test, self.began, self.output = test, time.monotonic(), tempfile.TemporaryFile()
        self.limit = 20 + 5 * test.usual if number else 600
        environment = os.environ | test.environment | {"GTEST_FAIL_FAST": "1", "LEAT_MUTANT": str(number)}
        self.process = subprocess.Popen(
            test.command, cwd=test.folder, env=environment, stdin=subprocess.DEVNULL, stdout=self.output,
            stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # and what it has left running
        except ProcessLookupError:
            pass
        self.process.wait()

    def outcome(self) -> str | None:
        """None while it runs, "" if it has passed, otherwise the test that has failed, and how."""
        code, seconds = self.process.poll(), time.monotonic() - self.began
        if code is None and seconds < self.limit:
            return None
        self.end()
        self.output.seek(0)
        text = self.output.read().decode(errors="replace")
        if code is not None and code in (0, self.test.skipped):
            self.test.usual = max(self.test.usual, seconds)
            return ""
        failed = re.findall(r"^(?:\[  FAILED  \] (?=\S+\.)|FAILED \S*::)([^\s,]+)", text, re.M)
        began = re.findall(r"^\[ RUN      \] (\S+)", text, re.M) or [self.test.name]
        how = "hang in " if code is None else f"{signal.Signals(-code).name} in " if code < 0 else ""
        return f"{how}{self.test.program}: {(began[-1:] if how else failed or began[-1:])[0]}"


def run_tests(tests: list[Test], number: int, jobs: int, before: str = "") -> str:
    """What finds the fault of that number (0: none), or "". First the test that has found it `before`, then the
    shortest."""
    waiting = sorted(tests, key=lambda test: test.usual, reverse=True)
    if known := re.search(r"(\S+): (\S+)$", before):
        some = sorted((test for test in tests if test.program == known[1]), key=lambda test: test.name == known[2])
        waiting += [test.alone(known[2]) for test in some[-1:]]
    running: list[Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(Running(waiting.pop(), number))
            time.sleep(0.01)
            for one in list(running):
                outcome = one.outcome()
                if outcome is not None:
                    running.remove(one)
                if outcome:
                    return outcome
        return ""
    finally:
        for one in running:
            one.end()


# ---- results


def read_results() -> dict[str, tuple[str, str]]:
    """By name: the commit, and what has found the fault there."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    rows = [line.split(None, 4) for line in lines if not line.startswith("#")]
    return {name: (commit, found) for _, name, _, commit, found in rows}


def write_results(faults: list[Fault], results: dict[str, tuple[str, str]]) -> None:
    rows = [(one.room, one.name, one.file, *results[one.name]) for one in faults if one.name in results]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    found = [row[0] for row in rows if row[4] != LOST]
    of_rooms = ", ".join(f"{room} {found.count(room)} of {sum(one.room == room for one in faults)}" for room in ROOMS)
    RESULTS.write_text(f"# {len(faults)} planted faults; {len(rows)} were run, of which {len(found)} were found: "
                       f"{of_rooms}.\n"
                       "# Room, fault, file, the commit at which it was run, the test that has found it.\n"
                       + "".join("  ".join(map(str.ljust, row, [*widths, 0])) + "\n" for row in rows))


def run(faults: list[Fault], arguments: argparse.Namespace) -> int:
    planted = plant_all(faults)
    names = set(arguments.names) or set(ROOMS)
    if unknown := names - {one.name for one in faults} - set(ROOMS):
        sys.exit(f"mutants.py: there is no fault and no room {', '.join(sorted(unknown))}")
    pythons = arguments.pythons.resolve()
    if not (pythons / "newest").is_dir():
        print(f"going on without python: ./run python makes the environments in {pythons}", flush=True)
        pythons = None
    results = read_results()
    wanted = [one for one in faults if {one.name, one.room} & names and (pythons or one.room != "python")
              and not (arguments.go_on and one.name in results)]
    tree, out = arguments.build.resolve() / "tree", arguments.build.resolve() / "build"
    write_tree(tree, planted)
    build(tree, out, pythons, arguments.jobs)
    commit = subprocess.run("git describe --always --dirty --abbrev=12 --exclude=*".split(), cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()
    tests = tests_of(tree, out, pythons)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what runs
    for room in {one.room: None for one in wanted}:
        of_room = [test for test in tests if test.room == room]
        if failed := run_tests(of_room, 0, arguments.jobs):
            sys.exit(f"mutants.py: {failed} fails without a fault")
        for one in (one for one in wanted if one.room == room):
            began = time.monotonic()
            before = results.get(one.name, ("", ""))[1]
            results[one.name] = commit, run_tests(of_room, one.number, arguments.jobs, before) or LOST
            write_results(faults, results)
            print(f"{one.name}: {results[one.name][1]} ({time.monotonic() - began:.0f} s)", flush=True)
    return int(any(results[one.name][1] == LOST for one in wanted))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("check", "run", "plant"))
    parser.add_argument("names", nargs="*", help="faults or rooms; none: all")
    parser.add_argument("--build", type=Path, default=ROOT / "build/mutants", help="the folder of the copy")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="leave out what results.txt has")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--pythons", type=Path, default=ROOT / "build/python",
                        help="the folder that has the environments tools and newest of ./run python")
    arguments = parser.parse_args()
    if arguments.verb == "plant":
        plant_for_explorer(*(Path(name).resolve() for name in arguments.names))
        return 0
    faults = [fault for room in ROOMS for fault in read_list(HERE / f"{room}.txt")]
    if arguments.verb == "run":
        return run(faults, arguments)
    plant_all(faults)
    print(f"{len(faults)} faults can be planted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
