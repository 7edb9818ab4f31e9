#!/usr/bin/env bash
# Usage: full_disk.sh <folder of the built examples>
#
# An example whose output cannot be written says so, and fails.
set -uo pipefail
failures=0
programs=0
for program in "$1"/example_*; do
  [[ -f $program && -x $program && $program != *_own_stream ]] || continue # that one needs a GPU
  programs=$((programs + 1)) status=0
  error=$(timeout 250 "$program" 2>&1 >/dev/full) || status=$?
  if [[ $status != 1 || $error != *"cannot write to standard output: No space left"* ]]; then
    echo "FAIL: ${program##*/}: exit status $status, and on stderr: $error"
    failures=$((failures + 1))
  fi
done
((failures == 0 && programs > 0))
