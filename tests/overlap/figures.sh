#!/usr/bin/env bash
# Usage: figures.sh <the leat-overlap program> <root of the tree>
#
# What it prints and writes.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
page=$2/docs/guide/overlap.md

# 3 ms of copying behind 5 ms of compute.
expect 0 'OE 1\.000 ' --device host --virtual --link 1GB/s --batch 3MB --compute 5ms --json "$scratch/one.json" \
  --svg "$scratch/one.svg"
grep -q 'serial loop takes 8.00 ms a step, 1.60 times as long' "$scratch/out" || fail "the serial loop: $(cat "$scratch/out")"
# Real data.
mnist=$2/examples/data/mnist
expect 0 'batches of 201 kB \(256 samples, 2 tensors\)' --device host --data "mnist:$mnist" --samples 256 \
  --compute 200us --steps 50
head -c 100000 /dev/zero >"$scratch/some.bin"
expect 0 'batches of 8.00 kB \(8 samples, 1 tensor\)' \
  --device host --virtual --data "records:1000:$scratch/some.bin" --samples 8 --steps 30
# In epochs of one batch, a step leads to the next epoch. Of a single step nothing is known.
expect 0 'Overlap can save at most Tx, 2\.0 % of the step' --device host --virtual --link 1GB/s \
  --data "records:1000:$scratch/some.bin" --samples 100 --steps 5
expect 0 'OE \?   hidden \?   feed efficiency \?' --device host --virtual --link 1GB/s --data "records:1000:$scratch/some.bin" \
  --samples 100 --steps 1
# Batches of whole samples: of 1 kB each at 100 MB/s, 10 us.
expect 0 '^- Tx 10\.0 ms, depth 2: not measured; .*, 1000 samples; .*has not enough' \
  --device host --virtual --sweep --seconds 0.01 --data "records:1000:$scratch/some.bin"
grep -qE '^  1\.00 ms      1\.000        1\.000        - ' "$scratch/out" || fail "cells of whole samples: $(cat "$scratch/out")"

# What the guide shows.
arguments=$(sed -n 's/^<!-- leat-overlap \(.*\) -->$/\1/p' "$page")
[[ -n $arguments ]] || fail "$page shows nothing"
# shellcheck disable=SC2086 # several arguments
"$program" $arguments >"$scratch/out" 2>&1
awk -v marker="<!-- leat-overlap $arguments -->" '
  $0 == marker { here = 1; next } here && /^```text/ { inside = 1; next } inside && /^```/ { exit } inside' \
  "$page" | diff - "$scratch/out" || fail "the guide shows something else (< there, > here)"

# In turns.
expect 0 'OE 0\.625 ' --device host --virtual --link 1GB/s --batch 3MB --compute 5ms --depth 1
grep -q 'prefetch_depth is 1' "$scratch/out" || fail "the sentence: $(cat "$scratch/out")"

"$program" --device host --virtual --link 10MB/s --sweep --seconds 0.01 --json - --svg "$scratch/sweep.svg" \
  >"$scratch/sweep.json" 2>"$scratch/err" || fail "--sweep: $(cat "$scratch/err")"
# Nothing takes any time, so that nothing is known.
expect 0 'OE \?   hidden \?   feed efficiency \?   AU \?' --device host --virtual --batch 1MB --compute 0ms
# No cell can be measured: batches of 2 GiB and more.
expect 1 'nothing to draw' --device host --virtual --link 100000GB/s --sweep --seconds 0.01 --svg "$scratch/none.svg"
[[ $(grep -c ': not measured; a batch would be' "$scratch/out") == 120 ]] || fail "cells: $(cat "$scratch/out")"
# Cells with copies shorter than 64 B are left out.
expect 0 'not measured; a batch would be 64\.0 B, the least, whose copy takes 640 us' \
  --device host --virtual --link 100kB/s --sweep --seconds 0.01
# A pipe is not opened twice, and a link stays one.
mkfifo "$scratch/pipe"
timeout 60 cat "$scratch/pipe" >"$scratch/piped" &
reader=$!
ln -s target.svg "$scratch/link.svg"
timeout 60 "$program" --device host --virtual --batch 1kB --steps 20 --json "$scratch/pipe" --svg "$scratch/link.svg" \
  >/dev/null || fail "a pipe and a link"
wait "$reader"
grep -q '"leat-overlap": 1' "$scratch/piped" || fail "a pipe got $(head -c 100 "$scratch/piped")"
[[ -L $scratch/link.svg && -s $scratch/target.svg ]] || fail "the link is $(ls -l "$scratch/link.svg")"
# Readers limit the loop, and the sentence is of the figures above it.
expect 0 'The readers limit the loop' --device host --virtual --link 1GB/s --batch 3MB --compute 5ms --read 4ms \
  --straggler-every 5 --straggler-factor 20
# To the standard output alone.
"$program" --device host --virtual --batch 1kB --steps 20 --svg - >"$scratch/out" 2>&1
[[ $(head -c 4 "$scratch/out") == "<svg" ]] || fail "--svg -: $(head -5 "$scratch/out")"
# 107 s, when a peak was measured by 64 MiB.
SECONDS=0
expect 0 'link efficiency .* MB/s' --device host --link 10MB/s --batch 10kB --compute 1ms --steps 3
((SECONDS < 60)) || fail "a slow link takes $SECONDS s"
# One slot, whose copy is short.
expect 0 'take turns, because prefetch_depth is 1' --device host --virtual --link 1GB/s --batch 500kB --depth 1
# Reading that is far ahead is in the figure.
"$program" --device host --virtual --link 1GB/s --batch 3MB --compute 5ms --read 15ms --workers 4 --warm-up 300 \
  --depth 24 --svg "$scratch/ahead.svg" >/dev/null
[[ $(grep -o '<title>read ' "$scratch/ahead.svg" | wc -l) -ge 6 ]] || fail "reads: $(cat "$scratch/ahead.svg")"

# In real time, and the link is the CPU's memory: no loop is faster than what it is compared with, however busy the
# machine is. (200 kB stay in a cache.)
"$program" --device host --batch 200kB --compute 1ms --steps 50 --json - >"$scratch/real.json" ||
  fail "in real time: $(cat "$scratch/real.json")"
expect 0 '4 more readers are not shown' --device host --virtual --link 1GB/s --batch 3MB --read 50ms --workers 12 --pinned-slots 24 \
  --svg -
if command -v python3 >/dev/null; then
  python3 - "$scratch/one.json" "$scratch/sweep.json" "$scratch/one.svg" "$scratch/sweep.svg" "$scratch/real.json" \
    <<'END' || failures=$((failures + 1))
import json, sys
one = json.load(open(sys.argv[1]))
run = one["runs"][0]
assert abs(run["overlap_efficiency"] - 1) < 1e-9, run
assert abs(run["t_step"] - 5e-3) < 1e-12, run
assert abs(run["t_serial"] - 8e-3) < 1e-12, run
assert abs(run["excess"] - 1) < 1e-9, run
assert run["virtual_time"] and run["device"] == "host:0" and "--batch 3MB" in one["command"], one
real = json.load(open(sys.argv[5]))["runs"][0]
assert real["overlap_efficiency"] <= 1, real
assert real["link_efficiency"] <= 1 + 1e-9 and real["accelerator_utilization"] <= 1, real
assert real["headspace"] >= 0, real
assert real["excess"] >= 1, real  # on a busy machine, 1.7 was seen
sweep = json.load(open(sys.argv[2]))["sweep"]
assert len(sweep) == 6 * 5 * 4, len(sweep)
for cell in sweep:
    result, step, ratio = cell["result"], cell["step"], cell["ratio"]
    shorter = step * min(ratio, 1 / ratio)
    expected = step + shorter if cell["depth"] == 1 else step  # in turns, or one behind the other
    assert abs(result["t_step"] / expected - 1) < 1e-3, (cell["depth"], step, ratio, result["t_step"])

# Figures: what they draw, by where it is.
import xml.etree.ElementTree as tree
name = "{http://www.w3.org/2000/svg}"
def drawn(file):
    root = tree.parse(file).getroot()
    boxes = [(float(box.get("x")), float(box.get("y")), float(box.get("width")), box[0].text)
             for box in root.iter(name + "rect")]
    return boxes, [text.text for text in root.iter(name + "text")]
boxes, texts = drawn(sys.argv[3])
copies = sorted(box for box in boxes if box[3].startswith("copy"))
uses = sorted(box for box in boxes if box[3].startswith("use"))
assert len(uses) == 5 and all(abs(use[2] - 142) < 0.2 for use in uses), uses  # 5 steps of 5 ms
assert all(abs(one[2] / uses[0][2] - 3 / 5) < 0.01 for one in copies), copies  # beside copies of 3 ms
assert any("Tx 3.00 ms, Tc 5.00 ms, Tstep 5.00 ms, OE 1.000" in text for text in texts), texts
boxes, texts = drawn(sys.argv[4])
cells = [box for box in boxes if box[3].startswith("Tstep")]
assert len(cells) == len(sweep), len(cells)
shown = sorted(text for text in texts if len(text) == 5 and text[1] == ".")
assert shown == sorted("%.3f" % cell["result"]["overlap_efficiency"] for cell in sweep), shown
assert any("--svg" in text for text in texts), texts
END
fi

finish
