#!/usr/bin/env bash
# Usage: full_disk.sh <folder of the built examples>
#
# An example whose output cannot be written says so, and fails. Of 08_real_trainer, real_trainer.sh says it.
set -uo pipefail
failures=0
programs=0
for program in "$1"/example_*; do
  [[ -f $program && -x $program && $program != *_own_stream ]] || continue # that one needs a GPU
  [[ $program != *_08_real_trainer ]] || continue
  programs=$((programs + 1)) status=0 arguments=()
  [[ $program != *_10_data_parallel && $program != *_12_pipeline ]] || arguments=(--steps 1)
  error=$(timeout 250 "$program" "${arguments[@]}" 2>&1 >/dev/full) || status=$?
  if [[ $status != 1 || $error != *"cannot write to standard output: No space left"* ]]; then
    echo "FAIL: ${program##*/}: exit status $status, and on stderr: $error"
    failures=$((failures + 1))
  fi
done
((failures == 0 && programs > 0))
