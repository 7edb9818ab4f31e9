#!/usr/bin/env python3
"""Usage: feed_compare_selftest.py <bench/peers/feed/compare.py>

Gives it files as it saves them, with figures on both sides of each target, and expects its
verdicts."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

COMPARE = sys.argv[1]
LATE = {"handover_to_fiber": "p50_us", "handover_to_thread": "p50_us", "leave_files": "p99_us",
        "leave_slow": "p99_us", "leave_queued": "p99_us"}


def figures(good):
    """Every target is met, with little to spare, or missed."""
    ours = {"tokens": (300.1, 299.9), "cifar": (300.1, 299.9), "jpeg": (80.1, 79.9),
            "jpeg_bilinear": (100.1, 99.9), "jpeg_large": (80.1, 79.9),
            "jpeg_large_bilinear": (100.1, 99.9), "jpeg_scaled": (150.1, 149.9)}
    values = {problem: {"leat": {"workers_1": [1.0, 1.0, 1.0],
                                 "workers_2": [0.5, both[0 if good else 1], 1e6]},
                        "torch": {"slices/0": [90.0, 100.0, 110.0], "collate/0": [10.0],
                                  "lucky/0": [1e6]},  # it ran once: no yardstick
                        "grain": {"slices/threads_2": [99.0, 99.0, 99.0]},
                        "spdl": {}}
              for problem, both in ours.items()}
    for problem in ("jpeg", "jpeg_large"):  # who resizes alike; opencv_linear is no such
        values[problem]["torch"]["pillow_simd/2"] = [80.0, 80.0, 80.0]
        values[problem]["torch"]["opencv_area/2"] = [1e6]
    values["jpeg_scaled"]["torch"] = {"pillow/0": [1e6, 1e6, 1e6]}  # the target is against jpeg_large
    latencies = {name: {counter: ((1.9 if good else 2.1) if counter == "p50_us"
                                  else (49e3 if good else 51e3)), "n": 1000}
                 for name, counter in LATE.items()}
    return values, latencies


def verdicts(values, latencies, failures=None, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "given.json"
        path.write_text(json.dumps({"facts": {"machine": "a test"}, "values": values,
                                    "latencies": latencies, "failures": failures or {}}))
        done = subprocess.run([sys.executable, COMPARE, "--read", path, "--save",
                               f"{folder}/saved", *options], stdout=subprocess.PIPE, text=True)
        saved = json.loads(pathlib.Path(f"{folder}/saved.json").read_text())
        assert pathlib.Path(f"{folder}/saved.txt").read_text() == done.stdout, (
            "what is saved is what is printed")
        assert saved["values"] == values
        others = [target for target in saved["targets"]
                  if re.search("reads ahead|antialiased or not", target["what"])]
        assert {target["verdict"] for target in others} <= {"not judged"}, "that is for comparison"
        return (done.returncode, {target["what"].split(",")[0]: target["verdict"]
                                  for target in saved["targets"] if target not in others},
                done.stdout)


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAIL: {what}: {found}, expected {wanted}")
    print(f"{what}: as expected")


ALL = ["tokens", "cifar", "jpeg", "jpeg_bilinear", "jpeg_large", "jpeg_large_bilinear",
       "jpeg_scaled", *LATE]
status, found, printed = verdicts(*figures(True))
expect("all targets are met", (status, found), (0, dict.fromkeys(ALL, "met")))
expect("the best variants are named", ("workers_2 against torch slices/0" in printed,
                                       "workers_2 against grain slices/threads_2" in printed),
       (True, True))
status, found, _ = verdicts(*figures(False))
expect("all targets are missed, which is no failure", (status, found),
       (0, dict.fromkeys(ALL, "MISSED")))

values, latencies = figures(True)
status, found, _ = verdicts({"tokens": values["tokens"]}, latencies)
expect("what was not asked for is not judged", set(found), {"tokens", *LATE})
alone = {problem: {"leat": of["leat"]} for problem, of in values.items()}
status, found, _ = verdicts(alone, latencies)
expect("without peers there is no ratio", [found[problem] for problem in ALL[:4]],
       ["not judged"] * 4)
values["cifar"]["leat"] = {}
del latencies["leave_slow"]
status, found, printed = verdicts(values, latencies, {"leat cifar workers_1": "wrong data"})
expect("a benchmark that failed is a failure",
       (status, found["cifar"], found["leave_slow"], found["tokens"],
        "failed: leat cifar workers_1: wrong data" in printed),
       (1, "NOT MEASURED", "NOT MEASURED", "met", True))
status, found, printed = verdicts(*figures(True), {"grain cifar slices/threads_2": "no such thing"})
expect("a peer's is told, and is none", (status, "no such thing" in printed), (0, True))

base = {"tokens": {"leat": {"once_slow": [50, 97, 100], "slower": [96, 96, 95], "new": [1]},
                   "base": {"once_slow": [98, 100, 100], "slower": [100, 100, 100], "old": [1]}}}
status, found, _ = verdicts(base, None)
expect("slower than the base is what medians and least times call slower", (status, found),
       (0, {"tokens once_slow": "met", "tokens slower": "MISSED"}))

# Rates and CPU seconds; the median of the rounds' ratios, whatever the machine did in a round.
cold = {"cold_8k": {"fio": [[100, 1], [200, 1], [50, 1]], "leat workers_1": [[76, 1], [150.2, 1], [20, 1]],
                    "leat workers_4": [[89, 1], [179, 1], [45, 1]]},
        "ring_8k": {"leat workers_1": [[109, 1]], "base workers_1": [[100, 1]]}}
status, found, printed = verdicts(cold, None, {"fio cold_web": "no such thing"}, "--cold")
expect("cold files are judged against fio, hot ones against the base", (status, found),
       (0, {"cold_8k workers_1": "not judged", "cold_8k workers_4": "not judged", "ring_8k workers_1": "MISSED"}))
expect("with the ratios", (re.findall(r"cold_8k workers_\d, to fio .*", printed), "no such thing" in printed),
       (["cold_8k workers_1, to fio             >= 0.75x   0.751x  met",
         "cold_8k workers_4, to fio              >= 0.9x   0.895x  MISSED"], True))
