#!/usr/bin/env bash
# Usage: pipeline.sh <the pipeline program> <a folder with MNIST> <steps> <mpirun, absent or nothing>
#                    <batch size> <kind:stages a rank>...
#
# Ranks in one process, and those of mpirun, end with the bits of one device; so do two pipelines in
# one process and under mpirun. Bad input gives exactly one line on stderr that names it. absent: the
# program was linked without MPI.
set -uo pipefail
program=$1 mnist=$2 steps=$3 mpirun=$4 batch=$5 has_mpi=1
shift 5
kinds=("$@")
[[ $mpirun != absent ]] || mpirun="" has_mpi=""
# Few images: of 305, four or five batches an epoch and a rest.
source "$(dirname "${BASH_SOURCE[0]}")/few_images.sh"

train() { # <arguments>...: one process
  timeout 120 "$program" --data "$data" --device host --steps "$steps" "$@"
}
train_with_mpi() { # <arguments>...: the same, on four processes
  timeout -k 5 120 "$mpirun" -np 4 "$program" --transport mpi --data "$data" --device host --steps "$steps" "$@"
}
digest() { # <what> <command>...: of the weights
  local what=$1 text
  shift
  text=$("$@") || fail "$what: exit status $?"
  sed -n 's/^weights \([0-9a-f]*\)$/\1/p' <<<"$text"
}

declare -A one_device # digests, by order
for one in "${kinds[@]}"; do
  kind=${one%:*} stages=${one#*:}
  of=gpipe
  [[ $kind != looped_bfs ]] || of=looped_bfs # its backwards come from the last microbatch
  first=${one_device[$of]:-}
  [[ -n $first ]] ||
    first=$(digest "one device" train --ranks 1 --kind $of --stages-per-rank 1 --batch-size "$batch")
  one_device[$of]=$first
  [[ $first =~ ^[0-9a-f]{16}$ ]] || fail "one device: no digest"
  what="$kind, $stages a rank"
  echo "$what: $first"
  arguments=(--kind "$kind" --stages-per-rank "$stages" --batch-size "$batch")
  other=$(digest "$what" train "${arguments[@]}")
  [[ $other == "$first" ]] || fail "$what: $other"
  [[ -z $mpirun ]] || other=$(digest "$what, mpi" train_with_mpi "${arguments[@]}")
  [[ $other == "$first" ]] || fail "$what, mpi: $other"
  two=$(digest "$what, 2 x 2" train --ranks 2 --replicas 2 "${arguments[@]}")
  [[ $two =~ ^[0-9a-f]{16}$ && $two != "$first" ]] || fail "$what, 2 x 2: $two"
  [[ -n $mpirun ]] || continue
  other=$(digest "$what, 2 x 2, mpi" train_with_mpi --replicas 2 "${arguments[@]}")
  [[ $other == "$two" ]] || fail "$what, 2 x 2, mpi: $other, not $two"
done
[[ $(digest "another seed" train --seed 2 --batch-size "$batch") != "${one_device[gpipe]:-}" ]] ||
  fail "the digest does not depend on the weights"
train --ranks 2 --replicas 2 | grep -q "exposed communication" ||
  fail "two pipelines do not say what of their exchange is exposed"

expect() { # <status> <what> <words of the line, as a regex> <arguments>...
  expect_line "${@:1:3}" "$program" --data "$data" "${@:4}"
}
printf '0F0\r\n1F0,1F0x\r\n' >"$scratch/bad.csv"
expect 1 "an unknown argument" 'cannot use "--frobnicate"' --frobnicate
expect 1 "a value missing" "[-]-device: its value is missing" --device
expect 1 "no ranks" "ranks 0: a whole number from 1 to 8" --ranks 0
expect 1 "another kind" "kind 1f1b: one of gpipe, one_f_one_b" --kind 1f1b
expect 1 "a shape that is none" "dualpipe_v" --kind dualpipe_v --microbatches 4
expect 1 "more stages than layers" "12 stages, but 8 layers" --kind looped_bfs --stages-per-rank 3
expect 1 "no multiple of the replicas" "a batch of 63: a multiple of the replicas" --replicas 2 --batch-size 63
expect 1 "more than there are" "a batch of 306: .* at most 305" --batch-size 306
expect 1 "a bad file" "bad.csv.*row 1, column 1" --schedule "$scratch/bad.csv"
printf '0F0\r\n1F0,1B0\r\n' >"$scratch/half.csv"
expect 1 "a schedule with a fault" "half.csv: row 0: 0B0 is missing" --schedule "$scratch/half.csv"
expect 1 "no file" "$scratch/no.csv" --schedule "$scratch/no.csv"
expect 1 "no data" "$scratch/no" --data "$scratch/no"
[[ -n $has_mpi ]] || expect 1 "no MPI" "linked without MPI" --transport mpi

((failures == 0))
