#!/usr/bin/env python3
"""Usage: gpu_bench_smoke.py <bench/gpu/report.py> <folder of the benchmarks>

Runs the benchmarks of gpu/ on the host device, as quickly as they go, and expects a figure for each
target that has one there: names that the benchmarks and the report do not share would leave it
without."""

import json
import pathlib
import subprocess
import sys
import tempfile

report, programs = sys.argv[1:]
CUDA_ALONE = ("through Leat / CUDA's calls", "CUDA allocations and events")

with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([sys.executable, report, "--quick", "--device", "host", "--programs",
                           programs, "--save", f"{folder}/saved"], stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(f"FAIL: exit status {done.returncode}")
    targets = json.loads(pathlib.Path(f"{folder}/saved.json").read_text())["targets"]
for target in targets:
    if target["reached"] is None and not any(words in target["what"] for words in CUDA_ALONE):
        sys.exit(f"FAIL: {target['what']}: no figure")
print(f"{len(targets)} targets: as expected")
