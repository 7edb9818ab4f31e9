#!/usr/bin/env python3
"""Usage: gpu_report_selftest.py <bench/gpu/report.py>

Gives it files as the benchmarks write them, with figures on both sides of each target, and expects
its verdicts."""

import json
import pathlib
import subprocess
import sys
import tempfile

REPORT = sys.argv[1]


def row(name, **counters):
    return {"name": f"{name}/iterations:5/manual_time", "run_type": "iteration", **counters}


def rows(good):
    """All programs' rows; `good`: every target is met, with little to spare, or missed."""
    alone, compute = (98.1, 95.1) if good else (97.9, 94.9)
    zero = 0.0 if good else 0.5
    link = [row("h2d/pinned/64MiB/alone", GB_per_s=100.0, heap_per_op=zero, pinned_per_op=zero),
            row("h2d/pageable/64MiB/alone", GB_per_s=500.0),  # not pinned: no yardstick
            row("h2d/arena/64KiB/alone", GB_per_s=10.0),  # too small to count
            row("h2d/arena/4MiB/alone", GB_per_s=alone),
            row("h2d/arena/64MiB/alone", GB_per_s=99.0),
            row("h2d/arena/4MiB/under_compute", GB_per_s=compute),
            row("h2d/arena/64MiB/two_streams", GB_per_s=400.0)]
    beyond, cpu = (9.9, 0.04) if good else (10.1, 0.06)
    wait = []
    for duration, base in (("50us", 60.0), ("500us", 510.0)):
        wait += [row(f"sync/{duration}", p50_us=base + noise) for noise in (0, -20, 30)]
        wait += [row(f"{how}/{duration}", p50_us=base + beyond) for how in ("await", "on_done")]
    wait += [row(f"{how}/idle", cpu=cpu) for how in ("await", "on_done")]
    events = [row(name, leat_ns=1.0, raw_ns=1.0, ratio=1.02 if good else 1.04)
              for name in ("record_wait", "record", "wait")]
    return {"link": link, "await": wait, "events": events}


def verdicts(device, programs):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, found in programs.items():
            paths.append(pathlib.Path(folder) / f"{name}.json")
            paths[-1].write_text(json.dumps({"context": {"device": device}, "benchmarks": found}))
        done = subprocess.run([sys.executable, REPORT, "--read", *paths, "--save",
                               f"{folder}/saved"], stdout=subprocess.PIPE, text=True)
        saved = json.loads(pathlib.Path(f"{folder}/saved.json").read_text())
        assert pathlib.Path(f"{folder}/saved.txt").read_text().split("\n", 1)[1] == (
            done.stdout.split("\n", 1)[1]), "what is saved is what is printed"
        return done.returncode, [target["verdict"] for target in saved["targets"]], done.stdout


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"FAIL: {what}: {found}, expected {wanted}")
    print(f"{what}: as expected")


status, found, _ = verdicts("cuda:0", rows(True))
expect("all targets are met", (status, set(found)), (0, {"met"}))
status, found, _ = verdicts("cuda:0", rows(False))
expect("all targets are missed, which is no failure", (status, set(found)), (0, {"MISSED"}))
status, found, _ = verdicts("host:0", rows(False))
expect("on the host device only allocations are judged",
       (status, set(found[:-2]), found[-2]), (0, {"not judged"}, "MISSED"))
few = {"await": [row("sync/50us", p50_us=60.0)]}
status, found, printed = verdicts("cuda:0", few)
expect("what was not measured on a GPU is a failure",
       (status, set(found), "FAILED: await: CPU while nothing completes for 1 s: no row has it"
        in printed), (1, {"NOT MEASURED"}, True))
status, found, _ = verdicts("host:0", few)
expect("on the host device, where it is judged there",
       (status, set(found[:-2]), found[-2]), (1, {"not judged"}, "NOT MEASURED"))
broken = rows(True)
broken["link"][3] = {**broken["link"][3], "error_occurred": True, "error_message": "wrong data"}
status, found, printed = verdicts("cuda:0", broken)
expect("a benchmark that failed is a failure",
       (status, "FAILED: link h2d/arena/4MiB/alone: wrong data" in printed), (1, True))
