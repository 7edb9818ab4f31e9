#!/usr/bin/env python3
"""Usage: python_compare_selftest.py <bench/peers/python/compare.py>

Gives it files as it saves them, with figures on both sides of each target, and expects its verdicts."""

import json
import pathlib
import subprocess
import sys
import tempfile

COMPARE = sys.argv[1]
LARGE = ("tokens_large", "cifar_large", "jpeg")
THREAD, EITHER = (f"to the C++ loop on a thread{end}" for end in (", as Python's is", " or a fiber"))
ROUNDS = 3


def figures(good):
    """Every target is met, with little to spare, or missed. C++: 1,000 samples/s; 1 ms a batch or more."""
    ours = {"tokens": (751, 749), **dict.fromkeys(LARGE, (951, 949))}
    values = {problem: {"c++": {"workers_1/thread": [1e3] * ROUNDS, "workers_1/fiber_1": [1, 1e3 + 1e-9, 1e6],
                                "workers_2/thread": [1e6]},  # it ran once: no yardstick
                        "leat": {"torch/workers_1": [1.0, both[0 if good else 1], 1e6],
                                 "numpy/workers_2": [1.0] * ROUNDS},
                        "grain": {"slices/threads_2": [750.0] * ROUNDS}, "spdl": {}}
              for problem, both in ours.items()}
    late = 24.9 if good else 25.1
    handover = {way: {"p50_us": [1.0, median, 1e3], "p99_us": [40.0] * ROUNDS, "n": [500] * ROUNDS}
                for way, median in (("leat_torch", late), ("leat_numpy", late), ("leat_none", late), ("torch_2", 715.0))}
    memory = {"leat tokens torch/workers_1": {
        "early_rss": [100e6, 200e6, 100e6], "late_rss": [101.9e6 if good else 102.1e6, 0, 200e6],
        "early_anon": [50e6] * ROUNDS, "late_anon": [50e6] * ROUNDS}}
    return values, handover, memory


def verdicts(values, handover, memory, failures=None):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "given.json"
        path.write_text(json.dumps({"facts": {"machine": "a test"}, "values": values, "handover": handover,
                                    "memory": memory, "failures": failures or {}}))
        done = subprocess.run([sys.executable, COMPARE, "--read", path, "--save", f"{folder}/saved"],
                              stdout=subprocess.PIPE, text=True)
        saved = json.loads(pathlib.Path(f"{folder}/saved.json").read_text())
        assert pathlib.Path(f"{folder}/saved.txt").read_text() == done.stdout, "what is saved is what is printed"
        assert saved["values"] == values
        judged = {target["what"]: target["verdict"] for target in saved["targets"]
                  if target["verdict"] != "not judged"}
        return done.returncode, judged, saved, done.stdout


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAIL: {what}: {found}, expected {wanted}")
    print(f"{what}: as expected")


ALL = ["tokens, to the best peer", *(f"{row}, {what}" for row in ("tokens", *LARGE) for what in (THREAD, EITHER)),
       *(f"a ready batch, leat_{framework}, p50{end}" for framework in ("torch", "numpy")
         for end in ("", ", to PyTorch's loader")),
       "memory, leat tokens torch/workers_1, last epoch over the fifth"]
status, found, saved, printed = verdicts(*figures(True))
expect("all targets are met", (status, found), (0, dict.fromkeys(ALL, "met")))
expect("the best variants are named", "torch/workers_1 against workers_1/fiber_1" in printed, True)
expect("the rows' medians are kept", [row["median"] for row in saved["rows"] if row["row"] == "tokens"],
       [{"c++": 1e3 + 1e-9, "leat": 751, "grain": 750}])
status, found, _, _ = verdicts(*figures(False))
expect("all targets are missed, which is no failure", (status, found), (0, dict.fromkeys(ALL, "MISSED")))

values, handover, memory = figures(True)
for of in values["jpeg"].values():
    for variant in of:
        of[variant] = [1e4 * value for value in of[variant]]
del values["cifar_large"]["leat"]["torch/workers_1"], handover["leat_numpy"]
values["cifar_large"]["leat"].clear()
status, found, _, printed = verdicts(values, handover, memory, {"leat cifar_large torch/workers_1": "wrong data"})
expect("a row whose batches are too short is not judged", f"jpeg, {THREAD}" in found, False)
expect("what failed is told, and is a failure",
       (status, found[f"cifar_large, {EITHER}"], found["a ready batch, leat_numpy, p50"],
        "failed: leat cifar_large torch/workers_1: wrong data" in printed), (1, "NOT MEASURED", "NOT MEASURED", True))
status, found, _, printed = verdicts(*figures(True), {"grain tokens slices/threads_2": "no such thing",
                                                       "torch_2": "neither"})
expect("a peer's is told, and is none", (status, "no such thing" in printed), (0, True))
alone = {problem: {name: of for name, of in programs.items() if name in ("c++", "leat")}
         for problem, programs in figures(True)[0].items()}
status, found, _, _ = verdicts(alone, None, None)
expect("what was not asked for is not judged", sorted(found), sorted(what for what in ALL if "C++" in what))
