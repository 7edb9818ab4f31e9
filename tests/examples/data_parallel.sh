#!/usr/bin/env bash
# Usage: data_parallel.sh <the data_parallel program> <a folder with MNIST> <steps> <exchange|servers>
#                         [mpirun|absent]
#
# exchange: ranks in one process and ranks of mpirun end with the same bits, whatever the policy.
# servers: so do workers with parameter servers, with the same bits as with an exchange. Bad input gives exactly one line on stderr that names it. absent: the program was linked without MPI.
set -uo pipefail
program=$1 steps=$3 what=$4 mpirun=${5:-} has_mpi=1
[[ $mpirun != absent ]] || mpirun="" has_mpi=""
mnist=$2
# Few images: 5 steps of 62 samples an epoch, the last of 57; or 102 of 3, the last of 2.
source "$(dirname "${BASH_SOURCE[0]}")/few_images.sh"

train() { # <arguments>...: one process
  timeout 120 "$program" --data "$data" --device host --epochs 100 --steps "$steps" "$@"
}
train_with_mpi() { # <ranks> <arguments>...: the same, a process for each rank
  local ranks=$1
  shift
  timeout -k 5 120 "$mpirun" -np "$ranks" "$program" --transport mpi --data "$data" --device host --epochs 100 --steps "$steps" "$@"
}
digest() { # <what> <command>...: of the weights, which the program has found equal on all ranks
  local what=$1 text
  shift
  text=$("$@") || fail "$what: exit status $?"
  sed -n 's/^weights \([0-9a-f]*\), on all [a-z]*$/\1/p' <<<"$text"
}

for batch in 62 3; do
  first=$(digest "batches of $batch" train --ranks 4 --global-batch $batch)
  [[ $first =~ ^[0-9a-f]{16}$ ]] || fail "batches of $batch: no digest"
  echo "batches of $batch: $first"
  if [[ $what == servers ]]; then
    other=$(digest "servers" train --ranks 6 --servers 2 --global-batch $batch --partition-bytes 9001)
    [[ $other == "$first" ]] || fail "batches of $batch, servers: $other"
    [[ -n $mpirun ]] || continue
    other=$(digest "a server, mpi" train_with_mpi 5 --servers 1 --global-batch $batch)
    [[ $other == "$first" ]] || fail "batches of $batch, a server, mpi: $other"
    continue
  fi
  other=$(digest "fifo" train --ranks 4 --global-batch $batch --policy fifo --partition-bytes 9001)
  [[ $other == "$first" ]] || fail "batches of $batch, fifo: $other"
  for policy in ${mpirun:+priority bucketed}; do
    other=$(digest "mpi, $policy" train_with_mpi 4 --global-batch $batch --policy $policy)
    [[ $other == "$first" ]] || fail "batches of $batch, mpi, $policy: $other"
  done
done
[[ $(digest "another seed" train --ranks 4 --global-batch 3 --seed 2) != "$first" ]] ||
  fail "the digest does not depend on the weights"

expect() { # <status> <what> <words of the line, as a regex> <arguments>...
  expect_line "${@:1:3}" "$program" "${@:4}"
}
if [[ $what == servers ]]; then
  expect 1 "servers alone" "servers 4: of 4 ranks none would train" --ranks 4 --servers 4 --data "$data"
  expect 1 "no bound" "bound of staleness is for asynchronous" --servers 1 --staleness 2 --data "$data"
  expect 1 "a negative bound" "staleness -1: a whole number" --staleness -1
  expect 1 "buckets" "kFifo or kPriority, not kBucketed" --servers 1 --policy bucketed --data "$data"
  exit $((failures > 0))
fi
expect 1 "an unknown argument" 'cannot use "--frobnicate"' --frobnicate
expect 1 "a value missing" "[-]-device: its value is missing" --device
expect 1 "no ranks" "ranks 0: a whole number from 1 to 64" --ranks 0
expect 1 "another policy" "policy lifo: one of fifo, priority, bucketed" --policy lifo
expect 1 "no data" "$scratch/no" --data "$scratch/no"
expect 1 "no partition" "partition-bytes 0" --partition-bytes 0
[[ -n $has_mpi ]] || expect 1 "no MPI" "linked without MPI" --transport mpi --data "$data"

((failures == 0))
