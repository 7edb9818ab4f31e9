#!/usr/bin/env python3
"""Usage: pipeline_compare_selftest.py <bench/peers/pipeline/compare.py>

Gives it the figures of a run, on both sides of each target, and expects its verdicts; and contestants
that do as they are told."""

import json
import pathlib
import subprocess
import sys
import tempfile

COMPARE = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(COMPARE).parent))
import compare  # noqa: E402


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAIL: {what}: {found}, expected {wanted}")
    print(f"{what}: as expected")


def figures(good):
    """All rows; `good`: each target is met, with little to spare, or missed. The median of three counts."""
    values = {row: {"leat": 1990.0 if good else 2010.0} for row in compare.ACTIONS}
    for row, bound in compare.SIMULATED.items():
        values[row] = {"leat": bound + (0.001 if good else -0.001)}
    for row in compare.STEPS:
        factor = 0.99 if good else 1.01
        values[row] = {"torch": 100e3, "local": 10e3 * factor, "mpi": 50e3 * factor}
    return {row: {name: [value * 0.01, value, value * 50] for name, value in of.items()}
            for row, of in values.items()}


def verdicts(values, failures=None):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "given.json"
        steps = {row: {name: [[8e6, 4e6, 5e6]] for name in values[row]} for row in compare.STEPS if row in values}
        path.write_text(json.dumps({"facts": {"machine": "a test"}, "values": values, "steps": steps,
                                    "failures": failures or {}}))
        done = subprocess.run([sys.executable, COMPARE, "--read", path, "--save", f"{folder}/saved"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        saved = json.loads(pathlib.Path(f"{folder}/saved.json").read_text())
        assert pathlib.Path(f"{folder}/saved.txt").read_text() == done.stdout, (
            "what is saved is what is printed")
        assert saved["values"] == values
        return done.returncode, {one["what"]: one["verdict"] for one in saved["targets"]}, done.stdout


status, found, printed = verdicts(figures(True))
expect("all targets are met", (status, len(found), set(found.values())), (0, 9 + 18 + 8, {"met"}))
expect("the table has the step, the least, computing and the overhead",
       "one_f_one_b 2 torch 8000 4000 5000 100" in " ".join(printed.split()), True)
status, found, printed = verdicts(figures(False))
expect("all targets are missed, which is no failure", (status, set(found.values())), (0, {"MISSED"}))
expect("and are counted", "0 met, 35 MISSED, 0 not judged" in printed, True)

values = figures(True)
for row in compare.STEPS:
    del values[row]["torch"]
status, found, _ = verdicts(values)
expect("without torch, what is compared with it is not judged",
       {what for what, verdict in found.items() if verdict != "met"},
       {what for what in found if "torch" in what})
status, _, printed = verdicts(figures(True), {f"torch, {compare.STEPS[0]}": "no such thing"})
expect("torch's failure is told, and is none of Leat's", (status, "FAILED: torch, " in printed), (0, True))
for name in ("bench_pipeline_action", f"mpi, {compare.STEPS[0]}", f"local, {compare.STEPS[0]}"):
    status, _, _ = verdicts(figures(True), {name: "wrong result"})
    expect(f"that of {name} is", status, 1)

row = "overhead/one_f_one_b/ranks:2"
for kind in compare.TORCH_NAMES:
    expect(f"{kind} of 4 even stages takes (B + R - 1) (f + b)", compare.makespan(kind, [1, 2] * 4), 11 * 3)
expect("a stage that takes longer holds up all others", compare.makespan("one_f_one_b", [1, 2, 10, 20]), 1 + 8 * 30 + 2)
expect("what 4 ranks compute, 2 CPUs halve", compare.least_of("overhead/gpipe/ranks:4", [1, 2] * 4, 2), 48)
expect("4 CPUs leave it to the schedule", compare.least_of("overhead/gpipe/ranks:4", [1, 2] * 4, 4), 33)
expect("overhead is for each of the 32 actions", compare.overhead_of(row, 59.0, [1, 2] * 2, 2), 1.0)


def told(command, _limit):
    """Programs that say where their turn was."""
    asked.append(command)
    if command[0] == "fails":
        raise compare.Failed("as told")
    return "59 1 2 1 2"


asked = []
compare.execute = told
compare.step_command = lambda one, row, steps, blocks, python: ["fails" if one == "b" else one, row]
results = compare.Results({}, {}, {})
compare.measure(["a", "b"], [row], 2, 0, None, 2, results)
expect("contestants take turns, the first of a round too, and one that failed has none",
       [command[0] for command in asked], ["a", "fails", "a"])
expect("what they did is kept", (results.values, results.steps, results.failures),
       ({row: {"a": [1.0, 1.0]}}, {row: {"a": [[59.0, 27.0, 48.0], [59.0, 27.0, 48.0]]}}, {f"b, {row}": "as told"}))
for arguments in (["--only", "nosuch"], ["--peers", "jax"], ["--save", "no/such/folder/x"], ["--only", "("]):
    done = subprocess.run([sys.executable, COMPARE, "--check", *arguments], stderr=subprocess.DEVNULL)
    expect(f"{' '.join(arguments)} is refused", done.returncode, 2)
