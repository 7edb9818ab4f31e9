#!/usr/bin/env bash
# Usage: hta.sh <the leat-overlap program>, in the root of the tree
#
# Compute and its overlap with communication of a real GPU, as HolisticTraceAnalysis has them of the
# same trace, whose last step it leaves out. Skipped where python3 has no HTA.
set -uo pipefail
python3 -c 'from hta.trace_analysis import TraceAnalysis' 2>/dev/null || { echo "no HTA here" && exit 77; }
python3 - "$1" <<'END'
import json, logging, subprocess, sys
from hta.trace_analysis import TraceAnalysis

logging.disable(logging.WARNING)
file = "tests/overlap/traces/train_a100_cut.json.gz"
hta = TraceAnalysis(trace_files={3: file}, trace_dir=".")
compute = hta.get_temporal_breakdown(visualize=False)["compute_time(us)"][0]
overlap = hta.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"][0]
report = subprocess.run([sys.argv[1], "trace", file, "--steps", "1009-1013", "--json", "-"], capture_output=True, check=True)
mean = json.loads(report.stdout)["traces"][0]["devices"][0]["mean"]
ours = 5 * mean["compute_ns"] / 1000, round(100 * mean["hidden"]["comm"], 2)
print("compute, overlap: HTA", (compute, overlap), "ours", ours)
sys.exit((compute, overlap) != ours)
END
