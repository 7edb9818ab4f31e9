#!/usr/bin/env bash
# Usage: torch_data_parallel.sh <the torch_data_parallel program> [mpirun]
#
# The loss after 100 steps on two ranks, in one process and of mpirun, is within 1e-5 that of one
# rank with the same global batch. Runs in the root of the source tree, where the data is.
set -euo pipefail
program=$1 mpirun=${2:-}
[[ $mpirun != absent ]] || mpirun="" # the program was linked without MPI
runs=2
losses=$("$program" local:1 100 && "$program" local:2 100)
if [[ -n $mpirun ]]; then
  runs=3
  losses+=$'\n'$(timeout -k 5 60 "$mpirun" -np 2 "$program" mpi 100 </dev/null)
fi
echo "$losses"
awk -v runs=$runs '
  { d = NR == 1 ? 0 : $4 - first; if (NR == 1) first = $4 }
  $1 == "step" && $2 == 100 && d <= 1e-5 && d >= -1e-5 { ++right }
  END { exit right != runs || NR != runs }' <<<"$losses" || { echo "the losses differ, or are not told"; exit 1; }
