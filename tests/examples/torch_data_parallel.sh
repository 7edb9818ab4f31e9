#!/usr/bin/env bash
# Usage: torch_data_parallel.sh <the torch_data_parallel program> <mpirun>
#
# The loss after each 100 steps on two ranks of mpirun is, within 1e-5, that of one process with the
# same global batch. Runs in the root of the source tree, where the data is.
set -euo pipefail
program=$1 mpirun=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader
one=$("$program" local:1 200 float64)
two=$(timeout -k 5 60 "$mpirun" --oversubscribe -np 2 "$program" mpi 200 float64 </dev/null)
paste <(echo "$one") <(echo "$two") | tee /dev/stderr | awk '
  $1 == "step" && $1 == $5 && $2 == $6 { ++lines; d = $4 - $8; if (d < 0) d = -d; if (d > 1e-5) far = 1; next }
  { far = 1 }
  END { exit far || lines != 2 }' || { echo "the losses differ, or are not told"; exit 1; }
