#!/usr/bin/env bash
# Usage: trace.sh <the leat-overlap program> <root of the tree>
#
# leat-overlap trace: exit statuses, and what goes where.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
traces=$2/tests/overlap/traces
mi250=$traces/mi250.json.gz
nccl=$traces/nccl_a100_cut.json.gz
alexnet=$traces/alexnet_a100_pageable.json.gz

expect 0 '^ *trace .*GPU program' --help
expect 0 '--fail-if' trace --help
expect 0 'OE 0\.0129: compute' trace "$mi250"
grep -qE 'ProfilerStep#2 +no kernels' "$scratch/out" || fail "an empty step: $(cat "$scratch/out")"
expect 0 'h2d pageable .* 4\.40 GB/s, 18 % of the link' trace "$alexnet" --link 25GB/s

# 1: a condition holds.
expect 1 "--fail-if 'oe<0.9': device 2: oe is 0\\.01" trace "$mi250" --fail-if 'oe<0.9'
expect 0 'OE' trace --fail-if 'oe>0.9' "$mi250" --fail-if 'idle.host_ns>5ms'
expect 1 'idle\.host_ns is 1568309' trace "$mi250" --fail-if 'oe>0.9' --fail-if 'idle.host_ns>1.5ms'
expect 0 'OE' trace "$mi250" --fail-if 'hidden.comm<1' # not known

# 2: usage.
expect 2 'files' trace
expect 2 '"\(" is no regular expression' trace "$mi250" --step '('
expect 2 '"\[" is no regular expression' trace "$mi250" --data '['
expect 2 '"a-b" is no range of numbers' trace "$mi250" --steps a-b
expect 2 '"3-1" ends before it begins' trace "$mi250" --steps 3-1
expect 2 'moon' trace "$mi250" --clock moon
expect 2 '"fast" is no rate' trace "$mi250" --link fast
expect 2 'device' trace "$mi250" --device -1
expect 2 'one file at most' trace "$mi250" --json - --csv -
for condition in 'oe' 'oe<' '<1' 'oe<0.9ms' 'oe<=1' 'oe<nan' 'idle.host_ns>5 days'; do
  expect 2 'is no condition' trace "$mi250" --fail-if "$condition"
done
expect 2 '"nope" is no figure .*idle\.host_ns' trace "$scratch/none" --fail-if 'nope<1' # before a file is read
expect 2 '"t_x_ns" is a figure .*none in these' trace "$mi250" --fail-if 't_x_ns<1'
expect 2 '--depth is of a loop, and trace runs none' --depth 2 trace "$mi250"
expect 2 'depth' trace "$mi250" --depth 2

# 3: what cannot be read or written, and a trace without a device.
expect 3 "$scratch/none: .*No such file" trace "$scratch/none"
expect 3 'Is a directory|directory' trace "$scratch"
echo '{"traceEvents": []}' >"$scratch/empty.json"
expect 3 'no op of a GPU\. Record some: with ProfilerActivity\.CUDA' trace "$scratch/empty.json"
expect 3 'no op of device 7; it has some of device 2' trace "$mi250" --device 7
expect 3 'cannot write .*no/where' trace "$mi250" --json "$scratch/no/where"
"$program" trace "$mi250" >/dev/full 2>"$scratch/out"
[[ $? == 3 ]] && grep -q 'cannot write to the standard output' "$scratch/out" || fail "a full disk: $(cat "$scratch/out")"

# Several files are ranks; --device leaves one.
expect 0 'mi250.json.gz, device 2 ' trace "$nccl" "$mi250"
expect 0 'us a step  .* here' trace "$mi250" --compare "$alexnet"
expect 0 'not compared: 1 more devices here' trace "$nccl" "$mi250" --compare "$alexnet"
expect 0 'device 2' trace "$mi250" --device 2
# JSON and CSV: one goes to the standard output, without the table.
"$program" trace "$nccl" --json - --csv "$scratch/steps.csv" --steps 5-6 >"$scratch/nccl.json" || fail "--json -"
[[ $(wc -l <"$scratch/steps.csv") == 3 ]] || fail "--csv: $(cat "$scratch/steps.csv")"
# A loop of Leat's own: its copies take turns with the compute, and a second slot hides them.
loop=(--device host --virtual --link 1MB/s --batch 3kB --compute 5ms --steps 80)
"$program" "${loop[@]}" --depth 1 --trace "$scratch/loop.json" >/dev/null || fail "--trace"
expect 0 'Tstep +8000\.000 us' trace "$scratch/loop.json"
grep -qE 'copies hidden .* 5000\.000 us' "$scratch/out" || fail "what-if: $(cat "$scratch/out")"
expect 1 'device 0: oe is 0\.625' trace "$scratch/loop.json" --fail-if 'oe<0.9'
"$program" "${loop[@]}" --depth 2 --trace "$scratch/loop.json" >/dev/null || fail "--trace"
expect 0 'hidden 100\.0 % of the shorter' trace "$scratch/loop.json" --fail-if 'oe<0.999'
if command -v python3 >/dev/null; then
  python3 - "$scratch/nccl.json" "$scratch/steps.csv" <<'END' || failures=$((failures + 1))
import csv, json, sys
report = json.load(open(sys.argv[1]))
device = report["traces"][0]["devices"][0]
assert report["command"].startswith("leat-overlap trace "), report["command"]
assert [step["name"] for step in device["steps"]] == ["ProfilerStep#5", "ProfilerStep#6"], device["steps"]
mean = device["mean"]
assert mean["t_step_ns"] == (219732155 + 218764039) // 2, mean
assert device["whole"]["t_step_ns"] == 660551005 and device["whole"]["oe"] < 0.18, device["whole"]
assert abs(sum(mean["sum"].values()) - mean["t_step_ns"]) <= 3, mean
assert device["what_if"]["all"]["best_ns"] <= device["what_if"]["comm"]["best_ns"] <= mean["t_step_ns"]
rows = list(csv.DictReader(open(sys.argv[2])))
assert [row["t_step_ns"] for row in rows] == ["219732155", "218764039"], rows
assert rows[0]["idle.host_ns"] == str(device["steps"][0]["idle"]["host_ns"]), rows[0]
END
fi

finish
