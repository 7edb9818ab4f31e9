#!/usr/bin/env bash
# Usage: same_bits.sh <mpirun> <same_bits>
#
# Fails unless all ranks of "local" and of "mpi" print the same digest, for 2 to 4 ranks.
set -euo pipefail
mpirun=$1 program=$2
for ranks in 2 3 4; do
  all=$("$program" "local:$ranks" && timeout -k 5 60 "$mpirun" -np $ranks "$program" mpi </dev/null)
  digests=$(cut -d' ' -f2 <<<"$all" | sort | uniq -c)
  echo "$ranks ranks: $digests"
  read -r times _ <<<"$digests"
  [[ $times == $((2 * ranks)) ]] || { echo "$all"; exit 1; }
done
