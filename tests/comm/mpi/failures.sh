#!/usr/bin/env bash
# Usage: failures.sh <mpirun> <test_comm_mpi>
#
# Runs each test of the suite Failures on 4 ranks of their own: it ends the world, and with it all
# use of MPI in its processes. They end without MPI_Finalize, which mpirun forgives with
# --enable-recovery alone; it then returns 0 whatever they return, so each rank writes its outcome to
# a file.
set -euo pipefail
mpirun=$1 program=$2
ranks=4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LEAT_TEST_OUTCOMES=$folder
export OMPI_MCA_btl=self,vader OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

failed=0 run=0
while read -r name; do
  rm -f "$folder"/*
  timeout -k 5 60 "$mpirun" --enable-recovery --oversubscribe -np "$ranks" "$program" \
    --gtest_filter="Ranks/Failures.$name" </dev/null >"$folder/output" 2>&1 || true
  run=$((run + 1))
  good=$(cat "$folder"/rank-* 2>/dev/null | grep -cx 0 || true)
  if [[ $good != "$ranks" ]]; then
    echo "FAILED: $name: $good of $ranks ranks passed"
    cat "$folder/output"
    failed=$((failed + 1))
  fi
done < <("$program" --gtest_list_tests --gtest_filter='Ranks/Failures.*' | sed -n 's/^  \([^ ]*\).*/\1/p')
echo "$run tests, $failed failed"
((run > 0 && failed == 0))
