#!/usr/bin/env bash
# Runs every test, example and benchmark of this bundle and keeps what they print in report.txt.
#
#   ./run_all.sh [seconds]    the longest that one program may take; 600 where it is not said
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
limit=${1:-600}
passed=0 failed=0

run() {
  local status=0
  echo "== $*"
  timeout --kill-after=10 "$limit" "$@" </dev/null 2>&1 || status=$?
  case $status in
    0) passed=$((passed + 1)) ;;
    *) failed=$((failed + 1)) && echo "== FAILED, status $status: $1" ;;
  esac
}

all() {
  date -u +%FT%TZ
  uname -srm
  lscpu | grep -E '^(Model name|CPU\(s\)|Thread|NUMA node\(s\))'
  nvidia-smi -L 2>/dev/null || echo "no NVIDIA driver"
  for program in bin/test_*; do run "$program"; done
  for program in bin/example_* bin/mnist; do [[ ! -x $program ]] || run "$program"; done
  for program in bin/bench_*; do [[ ! -x $program ]] || run "$program"; done
  echo "programs: $passed passed, $failed failed"
  ((failed == 0))
}

all | tee report.txt
