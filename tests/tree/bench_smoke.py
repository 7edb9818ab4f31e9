#!/usr/bin/env python3
"""Usage: bench_smoke.py <bench> feed|gpu <folder of the benchmarks>

Runs Leat's benchmarks of feeding, or of the host device, as quickly as they go, without a peer, and expects a figure for
each row and target: what is wrong in them (their data are verified) fails here, and so do names that they and the suite do
not share."""

import json
import pathlib
import subprocess
import sys
import tempfile

bench, suite, programs = sys.argv[1:]
OPTIONS = {"feed": ["--smoke", "--only", "", "--rounds", "1", "--seconds", "0.05", "--peers", ""], "gpu": ["--device", "host"]}
CUDA_ALONE = ("through Leat / CUDA's calls", "CUDA allocations and events")

with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([sys.executable, f"{bench}/compare.py", suite, "--quick", f"--programs={programs}", "--save",
                           f"{folder}/saved", *OPTIONS[suite]], stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(f"FAIL: exit status {done.returncode}")
    saved = json.loads(pathlib.Path(f"{folder}/saved.json").read_text())
wrong = [target["what"] for target in saved["targets"]
         if target["reached"] is None and not (target["verdict"] == "not judged" and suite == "feed")
         and not any(words in target["what"] for words in CUDA_ALONE)]
if suite == "feed":  # all variants of the first row (workers, where the loop is, how far ahead), one of each other
    counts = [len(of) for row, of in saved["values"].items() if not row.startswith("host time")]
    wrong += [counts] if counts != [2 * 3 * 2] + [1] * 10 else []
sys.exit(f"FAIL: no figure: {wrong}" if wrong else 0)
