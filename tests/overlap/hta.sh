#!/usr/bin/env bash
# Usage: hta.sh <the leat-overlap program>
#
# Compute and its overlap with communication, as HolisticTraceAnalysis has them of the same trace,
# whose last step it leaves out. Skipped where python3 has no HTA.
set -uo pipefail
python3 -c 'from hta.trace_analysis import TraceAnalysis' 2>/dev/null || { echo "no HTA here" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 - "$scratch" "$1" <<'END'
import json, logging, subprocess, sys
from hta.trace_analysis import TraceAnalysis

logging.disable(logging.WARNING)
scratch, program = sys.argv[1:]
events, calls = [], 0
for step in range(1, 5):
    begin = 1000 * step
    host = {"ph": "X", "pid": 9, "tid": 9}
    events.append(host | {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begin, "dur": 990, "args": {}})
    for name, stream, at, length in (
        ("gemm", 7, 20, 300 + 10 * step),
        ("ncclDevKernel_AllReduce", 20, 200, 400),
        ("gemm", 7, 500, 50),
        ("gemm", 13, 530, 40),
    ):
        calls += 1
        args = {"correlation": calls, "External id": calls}
        events.append(host | {"cat": "cpu_op", "name": "aten::mm", "ts": begin + at - 16, "dur": 10, "args": args})
        events.append(host | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": begin + at - 15, "dur": 8, "args": args})
        events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": begin + at,
                       "dur": length, "args": args | {"device": 0, "stream": stream}})
file = scratch + "/trace.json"
with open(file, "w") as out:
    json.dump({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}, out)

hta = TraceAnalysis(trace_files={0: file}, trace_dir=scratch)
compute = hta.get_temporal_breakdown(visualize=False)["compute_time(us)"][0]
overlap = hta.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"][0]
report = subprocess.run([program, "trace", file, "--steps", "1-3", "--json", "-"], capture_output=True, check=True)
mean = json.loads(report.stdout)["traces"][0]["devices"][0]["mean"]
ours = 3 * mean["compute_ns"] / 1000, round(100 * mean["hidden"]["comm"], 2)
print("compute, overlap: HTA", (compute, overlap), "ours", ours)
sys.exit((compute, overlap) != ours)
END
