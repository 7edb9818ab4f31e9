#!/usr/bin/env python3
"""Usage: comm_compare_selftest.py <bench/peers/comm/compare.py>

Gives it the figures of a run, on both sides of each target, and expects its verdicts; and contestants
that do as they are told."""

import json
import pathlib
import subprocess
import sys
import tempfile

COMPARE = sys.argv[1]
KIB, MIB = 1 << 10, 1 << 20
sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(COMPARE).parent))
import compare  # noqa: E402


def figures(good):
    """All rows, in ns; `good`: each target is met, with little to spare, or missed. The median of
    three rounds counts."""
    values = {}
    for ranks in (2, 4):
        for size in (4, 4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB):
            local = 100.0 * size
            of = {"local": local, "bare": local / (1.19 if good else 1.21),
                  "openmpi": local * 2.9, "gloo": local * 100}
            if size == 4:
                of["local"] = 1990.0 if good else 2010.0
                of["mpi"] = (29.9e3 if ranks == 2 else 99e3) if good else (31e3 if ranks == 2 else 101e3)
            else:
                if size >= 16 * MIB and good:
                    of["openmpi"] = local * 3.1
                speed = {16 * MIB: 0.9, 64 * MIB: 1.3}.get(size, 0.7)
                of["mpi"] = of["openmpi"] / speed * (0.99 if good else 1.01)
            if size >= 64 * KIB and not good:
                of["gloo"] = local * 0.99
                if size in (MIB, 4 * MIB, 16 * MIB, 64 * MIB):
                    of["mpi"] = of["gloo"] / {16 * MIB: 0.9, 64 * MIB: 1.3}.get(size, 0.7) * 1.01
            values[f"all_reduce/ranks:{ranks}/bytes:{size}"] = {
                name: [value * 0.01, value, value * 50] for name, value in of.items()}
    for policy in ("fifo", "priority", "bucketed"):
        values[f"pieces/{policy}"] = {"local": [990.0 if good else 1010.0]}
    return values


def verdicts(values, failures=None):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "given.json"
        path.write_text(json.dumps({"facts": {"machine": "a test"}, "values": values,
                                    "failures": failures or {}}))
        done = subprocess.run([sys.executable, COMPARE, "--read", path, "--save", f"{folder}/saved"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        saved = json.loads(pathlib.Path(f"{folder}/saved.json").read_text())
        assert pathlib.Path(f"{folder}/saved.txt").read_text() == done.stdout, (
            "what is saved is what is printed")
        assert saved["values"] == values
        return done.returncode, {one["what"]: one["verdict"] for one in saved["targets"]}, done.stdout


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAIL: {what}: {found}, expected {wanted}")
    print(f"{what}: as expected")


status, found, printed = verdicts(figures(True))
expect("all targets are met", (status, len(found), set(found.values())), (0, 2 * 20 + 3, {"met"}))
expect("a cell has the time, and how many times local's that is",
       "1 MiB 2 105 ms 88.1 ms 0.84x 304 ms 2.9x" in " ".join(printed.split()), True)
status, found, printed = verdicts(figures(False))
expect("all targets are missed, which is no failure", (status, set(found.values())), (0, {"MISSED"}))
expect("and are counted", "0 met, 43 MISSED, 0 not judged" in printed, True)

values = figures(True)
for of in values.values():
    of.pop("openmpi", None), of.pop("gloo", None), of.pop("mpi", None)
status, found, _ = verdicts(values)
expect("without peers only local, bare and the exchange are judged",
       (status, {what: verdict for what, verdict in found.items() if verdict != "met"}),
       (0, {what: "not judged" for what in found
            if "mpi" in what or "others" in what or "OpenMPI" in what}))
status, found, printed = verdicts(figures(True), {"gloo, 4 ranks": "no such thing"})
expect("a peer's failure is told, and is none of Leat's",
       (status, "FAILED: gloo, 4 ranks: no such thing" in printed), (0, True))
for name in ("mpi, 2 ranks", "local, 4 ranks", "exchange"):
    status, _, _ = verdicts(figures(True), {name: "wrong result"})
    expect(f"that of {name} is", status, 1)


class Told:
    """A contestant that does its n-th turn in n ns, and fails where it is told to."""

    def __init__(self, name, failing=None):
        self.name, self.failing, self.turns = name, failing, 0

    def run(self, ranks, sizes, _seconds, _limit):
        asked.append((self.name, ranks))
        if ranks == self.failing:
            raise compare.Failed("as told")
        self.turns += 1
        return {size: (float(self.turns), "") for size in sizes}


asked = []
rows = [compare.row_of(2, 4), compare.row_of(4, 4)]
results = compare.Results({}, {})
compare.measure([Told("a"), Told("b", failing=4)], rows, 2, 0, 0, results, {})
expect("contestants take turns, the first of a round too, and one that failed has none",
       asked, [("a", 2), ("b", 2), ("a", 4), ("b", 4), ("b", 2), ("a", 2), ("a", 4)])
expect("what they did is kept", (results.values, results.failures), (
    {rows[0]: {"a": [1.0, 3.0], "b": [1.0, 2.0]}, rows[1]: {"a": [2.0, 4.0]}},
    {"b, 4 ranks": "as told"}))


# --- wire.py: ./run bench comm --hosts

import wire  # noqa: E402


def wire_rows(**steps):
    """The rows of a run whose formulas all say 100 ms. The medians count."""
    return wire.rows_of("wire", {"rows": [
        {"name": name.replace("_", " "), "steps_ns": [1, step * 1e6, 9e9], "formula_ns": 100e6}
        for name, step in steps.items()]})


def wire_verdicts(**steps):
    return [one["verdict"] for one in wire.targets_of(wire_rows(**steps))]


expect("steps within 10 % of the formula, in their order, meet all targets",
       wire_verdicts(no_overlap=109, bucketed=105, priority=91), ["met"] * 4)
expect("a step that is slower, or faster, by more than that is missed",
       wire_verdicts(no_overlap=111, bucketed=105, priority=89), ["MISSED", "met", "MISSED", "met"])
expect("buckets that are slower than no overlap are missed",
       wire_verdicts(no_overlap=100, bucketed=101, priority=99), ["met"] * 3 + ["MISSED"])
expect("priority that is slower than buckets is missed",
       wire_verdicts(no_overlap=105, bucketed=100, priority=101), ["met"] * 3 + ["MISSED"])
drawn = wire.figure(wire_rows(no_overlap=105, bucketed=100, priority=95))
expect("the figure has a bar and a mark for each row", (drawn.count("<rect"), drawn.count('class="mark"')), (3, 3))
for hosts in ("1", "0", "x", "300", "-4", "4.0"):
    done = subprocess.run([sys.executable, pathlib.Path(COMPARE).parent / "wire.py", "--check", f"--hosts={hosts}"],
                          stderr=subprocess.PIPE, text=True)
    expect(f"--hosts {hosts} is refused", (done.returncode, "is no number from 2 to 16" in done.stderr), (2, True))
