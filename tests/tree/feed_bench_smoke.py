#!/usr/bin/env python3
"""Usage: feed_bench_smoke.py <bench/peers/feed/compare.py> <folder of the benchmarks>

Runs Leat's benchmarks of feeding as quickly as they go, without a peer, and expects a figure for each
row, and for each of Leat's variants in the first: what is wrong in them (their data are verified) fails here, and so do
names that they and compare.py do not share."""

import json
import pathlib
import subprocess
import sys
import tempfile

compare, programs = sys.argv[1:]
VARIANTS = 2 * 3 * 2  # workers, where the loop is, and how far ahead

with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([sys.executable, compare, "--quick", "--smoke", "--only", "", "--rounds", "1",
                           "--seconds", "0.05", "--peers", "", f"--programs={programs}", "--save",
                           f"{folder}/saved"], stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(f"FAIL: exit status {done.returncode}")
    saved = json.loads(pathlib.Path(f"{folder}/saved.json").read_text())
for number, (problem, of) in enumerate(saved["values"].items()):
    if len(of["leat"]) != (VARIANTS if number == 0 else 1):
        sys.exit(f"FAIL: {problem}: no figure")
for target in saved["targets"]:
    if target["verdict"] == "NOT MEASURED":
        sys.exit(f"FAIL: {target['what']}: no figure")
print(f"{len(saved['values'])} problems, {len(saved['targets'])} targets: as expected")
