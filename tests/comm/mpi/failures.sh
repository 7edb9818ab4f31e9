#!/usr/bin/env bash
# Usage: failures.sh <mpirun> <test_comm_mpi>
#
# Runs each test of the suite Failures on 3 ranks of their own: it ends the world, and with it all
# use of MPI in its processes. They end without MPI_Finalize, which mpirun forgives with
# --enable-recovery alone; it then returns 0 whatever they return, so each rank writes its outcome to
# a file. Several run at a time: most of a run is waiting for mpirun.
set -euo pipefail
mpirun=$1 program=$2
ranks=3
at_a_time=4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

run() { # <test>
  local name=$1
  export LEAT_TEST_OUTCOMES=$folder/$name
  mkdir -p "$LEAT_TEST_OUTCOMES"
  timeout -k 5 60 "$mpirun" --enable-recovery -np "$ranks" "$program" \
    --gtest_filter="Ranks/Failures.$name" </dev/null >"$LEAT_TEST_OUTCOMES/output" 2>&1 || true
}

tests=$("$program" --gtest_list_tests --gtest_filter='Ranks/Failures.*' | sed -n 's/^  \([^ ]*\).*/\1/p')
running=0
for name in $tests; do
  ((++running <= at_a_time)) || wait -n
  run "$name" &
done
wait

failed=0 all=0
for name in $tests; do
  all=$((all + 1))
  good=$(cat "$folder/$name"/rank-* 2>/dev/null | grep -cx 0 || true)
  if [[ $good != "$ranks" ]]; then
    echo "FAILED: $name: $good of $ranks ranks passed"
    cat "$folder/$name/output"
    failed=$((failed + 1))
  fi
done
echo "$all tests, $failed failed"
((all > 0 && failed == 0))
