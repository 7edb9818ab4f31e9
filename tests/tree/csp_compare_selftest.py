#!/usr/bin/env python3
"""Usage: csp_compare_selftest.py <bench/peers/csp/compare.py>

Gives it two builds whose benchmarks print figures, and expects the ratios of both and the verdicts; and that each row is
explained where the protocol is."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(sys.argv[1]).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]
sys.dont_write_bytecode = True
import rows  # noqa: E402

# In place of a benchmark: its times in turn, by the number of workers. It fails without the variable that it is to have.
STUB = """#!/usr/bin/env python3
import json, os, pathlib, re, sys
times = {times}
problem = {problem!r}
name = lambda workers: f"{{problem}}/workers:{{workers}}/real_time"
if "--benchmark_list_tests" in sys.argv:
    print("\\n".join(name(workers) for workers in times))
    sys.exit()
pattern = next(word for word in sys.argv if word.startswith("--benchmark_filter=")).split("=", 1)[1]
workers = next(w for w in times if re.search(pattern, name(w)))
count = pathlib.Path(__file__ + f".{{workers}}{{'GLIBC_TUNABLES' in os.environ}}")
turn = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (turn + 1))
time = times[workers][turn] / (2 if "GLIBC_TUNABLES" in os.environ else 1)
print(json.dumps({{"benchmarks": [{{"name": name(workers), "real_time": time, "time_unit": "ns"}}]}}))
"""
failed = 0


def expect(what, right, found):
    global failed
    print(f"{what}: as expected" if right else f"FAIL: {what}; found:\n{found}")
    failed += not right


def compare(builds, problem, program, *arguments):
    """What is printed, and the saved file; builds: name -> workers -> times of the rounds."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for build, times in builds.items():
            stub = scratch / build / "bench" / f"bench_csp_{program}"
            stub.parent.mkdir(parents=True)
            stub.write_text(STUB.format(times=times, problem=problem))
            stub.chmod(0o755)
        start = (f"import pathlib, sys; sys.path.insert(0, {str(FOLDER)!r}); import compare\n"
                 f"compare.OURS = pathlib.Path({str(scratch / 'ours')!r})\n"
                 f"compare.BUILD = pathlib.Path({str(scratch / 'peers')!r})\nsys.exit(compare.main())")
        done = subprocess.run(
            [sys.executable, "-B", "-c", start, "--rounds", "3", "--only", f"^{problem}( streamed)?$",
             "--save", "saved", f"--directory={scratch}", *arguments],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"})
        saved = scratch / "saved.json"
        return done.stdout, json.loads(saved.read_text()) if saved.exists() else {}


# With one worker one round was disturbed: the medians and the least times differ. With two it is slower.
out, saved = compare({"ours": {1: [100, 106, 106], 2: [111, 111, 115]},
                      "base": {1: [100, 100, 101], 2: [106, 107, 107]}},
                     "ChanSync", "channel", "--base", "base")
for line in (r"ChanSync +2 +1\.047 +1\.110 +1\.1 ok",
             r"ChanSync +1 +1\.060 +1\.000 +1\.03 ok",
             r"ChanSync +2 +1\.037 +1\.047 +1\.03 MISSED",
             "2 targets met, 1 missed"):
    expect(f"the table has {line!r}", re.search(line, out), out)
met = {target["target"].split(") ")[-1]: target["met"] for target in saved.get("targets", [])
       if target["workers"] == 2}
expect("the file has both", met == {"2 workers to 1": True, "to base": False}, saved)

out, _ = compare({"ours": {1: [100] * 3, 2: [101] * 3}}, "Sieve/500", "pipeline", "--peers", "")
expect("a sieve has to gain", re.search(r"Sieve/500 +2 +1\.010 +1\.010 +1 MISSED", out), out)
out, _ = compare({"ours": {1: [100] * 3, 2: [50] * 3}}, "DoubleBuffer/1024/1", "double_buffer",
                 "--peers", "")
expect("a streamed row is run in another way", re.search(r"1024/1 streamed +1 +50", out), out)
out, _ = compare({"ours": {1: [1]}}, "ChanSync", "channel", "--base", "nowhere")
expect("a base without benchmarks is told", "nowhere/bench has no bench_csp_*" in out, out)

text = (FOLDER / "README.md").read_text()
missing = {row.problem for row in rows.ROWS if f"`{row.problem.split('/')[0]}" not in text}
expect("each row is explained", not missing, missing)

sys.exit(failed != 0)
