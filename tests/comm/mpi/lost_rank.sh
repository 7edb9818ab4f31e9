#!/usr/bin/env bash
# Usage: lost_rank.sh <mpirun> <lost_rank> <how> <rank> [<leat-comm-report>]
#        lost_rank.sh <mpirun> <lost_party> <how> <rank> none
#
# Loses a rank of three (lost_rank.cpp), or of four (lost_party.cpp, without flight recorders), and
# fails unless every rank that lives had the right error in time, the processes ended, and the ranks'
# flight recorders, joined, name the rank. Without --enable-recovery mpirun would kill the others;
# with it, mpirun waits for a stopped rank, and returns 0 whatever its ranks return.
set -euo pipefail
mpirun=$1 program=$2 how=$3 lost=$4 report=${5:-}
ranks=3
[[ $report != none ]] || ranks=4
folder=$(mktemp -d)
stopped=
cleanup() {
  [[ -z $stopped ]] || kill -KILL "$stopped" 2>/dev/null || true
  [[ -z ${run:-} ]] || kill -KILL "$run" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT

timeout -k 5 40 "$mpirun" --enable-recovery -np $ranks "$program" "$how" "$lost" "$folder" \
  </dev/null >"$folder/output" 2>&1 &
run=$!

# have <rank>...: waits until each has written its outcome, at most 30 s.
have() {
  local rank waited=0
  for rank; do
    until [[ -e $folder/outcome-$rank ]]; do
      sleep 0.05
      if ((++waited > 600)); then
        echo "rank $rank has no outcome"
        cat "$folder/output"
        return 1
      fi
    done
  done
}

living=()
for ((rank = 0; rank < ranks; ++rank)); do ((rank == lost)) || living+=("$rank"); done
have "${living[@]}"
if [[ $how == *stopped ]]; then
  for process in $(pgrep -f "^$program $how $lost $folder"); do
    [[ $(ps -o stat= -p "$process") != T* ]] || stopped=$process
  done
  [[ -n $stopped ]] || { echo "no rank is stopped"; exit 1; }
  kill -CONT "$stopped"
  have "$lost"
fi
[[ $how != late* && $how != *unfetched && $how != *busy ]] || have "$lost"
stopped=
wait "$run" || { echo "mpirun did not end, or failed"; cat "$folder/output"; exit 1; }
run=
cat "$folder"/outcome-*
(($(grep -L '^ok' "$folder"/outcome-* | wc -l) == 0))
[[ $how != killed_at_end && $report != none ]] || exit 0 # no failure
for rank in "${living[@]}"; do
  [[ -s $folder/rank-$rank.leat-comm ]] || { echo "rank $rank has written no flight recorder"; exit 1; }
done
[[ -n $report ]] || exit 0
joined=$("$report" "$folder"/rank-*.leat-comm || true) # 1: something is open
words="^    (not called|not called, has left|no file): rank $lost\$"
case $how in
  # It has called by now, or is not the one that is waited for.
  exits) words="^    not called.*: ranks? (.*[ -])?$lost\$" ;; # another may not have come to it yet
  late*) words="^ranks? .* failed: .* waits for rank $lost longer" ;;
  stopped | chain*) words="^ranks? .* failed: .* rank $lost(, which)? does not answer" ;;
esac
grep -qE "$words" <<<"$joined" || { echo "leat-comm-report has no /$words/: $joined"; exit 1; }
