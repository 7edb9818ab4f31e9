#!/usr/bin/env bash
# Usage: cli.sh <the leat-overlap program>
#
# That what cannot be is refused: exit status 2 for arguments, 1 for a machine that has not what they
# ask for, and a line that names it.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"

expect 0 '--straggler-factor' --help
expect 0 '^leat-overlap [0-9]+\.[0-9]+' --version
expect 2 'batch.*unit' --batch 64
expect 2 'batch' --batch 1B
expect 2 'compute' --compute 5
expect 2 'compute' --compute -5ms
expect 2 'depth' --depth 0
expect 2 'depth' --depth two
expect 2 'shape' --shape bert
expect 2 'excludes' --shape unet3d --batch 1MiB
expect 2 'excludes' --sweep --batch 1MiB
expect 2 'no-such' --no-such
expect 1 'cuda:99|no CUDA|driver' --device cuda:99
expect 1 'toaster' --device toaster
expect 1 'cpu|busy' --device host --virtual --compute-kind gemm --steps 2 --batch 1kB
expect 2 'max_pinned_bytes' --device host --virtual --batch 1MiB --max-pinned 1MiB --steps 2
expect 2 '8 bytes' --device host --virtual --batch 16B --tensors 8 --steps 2
expect 1 'cannot write' --device host --virtual --batch 1kB --steps 2 --json "$scratch/no/where.json"
head -c 100000 /dev/zero >"$scratch/some.bin"
expect 2 'no dataset "bert:x"; there are mnist:' --data bert:x
expect 2 'no dataset "records:x:y"' --data records:x:y
expect 2 'no dataset "tokens:"' --data tokens:
expect 1 "$scratch/none" --data "cifar10:$scratch/none"
expect 2 'has 100 samples, fewer than a batch of 101' --data "records:1000:$scratch/some.bin" --samples 101
expect 2 'excludes' --data mnist:x --shape unet3d
# What would have no effect is refused, and so is what virtual time has not.
expect 2 'excludes' --data mnist:x --read 1ms
expect 2 'excludes' --data mnist:x --jitter 1
expect 2 'excludes' --sweep --depth 2
expect 2 'excludes' --sweep --steps 5
expect 2 'seconds.*requires|requires.*sweep' --seconds 2
# No number is NaN or infinite: a sweep of NaN seconds would not end.
for number in nan NaN -nan inf 1e999 -1; do
  expect 2 'seconds' --sweep --seconds "$number"
  expect 2 'jitter' --jitter "$number"
  expect 2 'straggler-factor' --straggler-factor "$number"
  expect 2 'compute' --compute "${number}ms"
  expect 2 'batch' --batch "${number}MiB"
  expect 2 'link' --device host --link "${number}GB/s"
done
expect 2 'gemm' --products 3
expect 2 'no CPU computes in virtual time' --device host --virtual --compute-kind cpu
expect 2 'no CPU computes in virtual time' --device host --virtual --read 1ms --read-kind computing
expect 2 'straggler-every' --straggler-every -5
expect 2 'link' --device host --link 1B/s
expect 2 'one shape' --shape mlperf --trace x
expect 2 'one file at most' --json - --svg -
# Output that cannot be written is an error, found before anything is measured where it can be.
"$program" --device host --virtual --batch 1kB --steps 2 >/dev/full 2>"$scratch/out" && fail "a full disk is no error"
grep -q 'cannot write to the standard output: No space' "$scratch/out" || fail "a full disk: $(cat "$scratch/out")"
timeout 10 "$program" --device host --batch 1kB --compute 1s --steps 1000 --svg "$scratch/no/where.svg" \
  >"$scratch/out" 2>&1 && fail "a missing folder is no error"
grep -q 'cannot write .*/no/where.svg: No such file' "$scratch/out" || fail "a missing folder: $(cat "$scratch/out")"
finish
