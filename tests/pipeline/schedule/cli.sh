#!/usr/bin/env bash
# Usage: cli.sh <the leat-schedule program> <root of the tree>
#
# Every command by its output, in every format, and by its exit status: 0, 1 a check failed or nothing
# fits, 2 arguments, 3 unreadable. And that the page shows what the program prints.
set -uo pipefail
root=$(readlink -f "$2")
data=$root/tests/pipeline/data
page=$root/docs/how-to/schedules.md
source "$(dirname "${BASH_SOURCE[0]}")/../../overlap/expect.sh"
program=$(readlink -f "$program")
shape=(--ranks 4 --microbatches 8)

# same <file> <arguments>...: the program prints what the file has
same() {
  local file=$1
  shift
  "$program" "$@" 2>"$scratch/notes" | cmp - "$file" || fail "$*: is not $file: $(cat "$scratch/notes")"
}

# The arguments.
expect 0 'recommend' --help
expect 0 '--capacity' check --help
expect 0 '^leat-schedule [0-9]+\.[0-9]+' --version
expect 2 'subcommand' # none
expect 2 'FILE or --kind is required' print
expect 2 'exclude each other' print "$0" --kind gpipe
expect 2 '--ranks and --microbatches are required' print --kind gpipe --ranks 4
expect 2 '--ranks and --microbatches are required' compare
expect 2 'there is no pipe; there are gpipe' print --kind pipe "${shape[@]}"
expect 2 'a FILE has its ranks' print --ranks 4 "$0"
expect 2 'kind' compare --kind gpipe "${shape[@]}"
expect 2 '0 is not in the range' print --kind gpipe --ranks 0 --microbatches 8
expect 2 '0 is not in the range' check --kind gpipe "${shape[@]}" --limit 0
expect 2 'limit' check --kind gpipe "${shape[@]}" --limit 8,8
expect 2 '-1 is not in the range' simulate --kind gpipe "${shape[@]}" --capacity -1
expect 2 'there is no command frob' frob
expect 2 'there is no xml; there are grid, csv, json' print --kind gpipe "${shape[@]}" --format xml
expect 2 'dualpipe_v' print --kind dualpipe_v --ranks 4 --microbatches 7
expect 2 'nan is not in the range' search "${shape[@]}" --seconds nan

# Files that cannot be read: where, and why.
expect 3 'cannot read .*/none: No such file' print "$scratch/none"
expect 3 'cannot read .*: Is a directory' check "$scratch"
: >"$scratch/empty"
expect 3 "$scratch/empty: .*" check "$scratch/empty"
printf '0F0,0F0x\n1F\n' >"$scratch/bad"
expect 3 "^(leat-schedule: )?$scratch/bad: row 0, column 1: " simulate "$scratch/bad"
expect 3 "^$scratch/bad: row 1, column 0: " simulate "$scratch/bad"
printf '{"forward": [1,\n-1]}' >"$scratch/model"
expect 3 "$scratch/model: row 1, column 0: \"-1\" is negative" compare "${shape[@]}" --model "$scratch/model"
printf '{"forward": [1, 2]}' >"$scratch/model"
expect 3 "$scratch/model: .*stages" simulate --kind gpipe "${shape[@]}" --model "$scratch/model"
printf '{"capacity": 2}' >"$scratch/model"
expect 3 "$scratch/model: \"capacity\"" search "${shape[@]}" --model "$scratch/model"
printf '0F0,0B0,1F0,1B0\n1F0,1B0\n' >"$scratch/twice"
expect 1 'stage 1 is on rank 0, too' search "$scratch/twice"
printf '0F0,0F1,0B1,0B0\n1F1,1B1,1F0,1B0\n' >"$scratch/crossed"
for command in check lower simulate search; do
  expect 1 'row 1, column 0: 1F1: microbatch 0 is sent before it' "$command" "$scratch/crossed"
done
expect 3 'cannot write' print --kind gpipe "${shape[@]}" --svg "$scratch/no/where.svg"
"$program" print --kind gpipe "${shape[@]}" >/dev/full 2>"$scratch/out"
[[ $? == 3 ]] || fail "a full disk is no error"
grep -q 'cannot write to the standard output: No space' "$scratch/out" || fail "a full disk: $(cat "$scratch/out")"

# print: what was read comes back, in each format.
for file in "$data"/torch/*-comms.csv "$data"/torch/*-compute.csv; do
  same "$file" print "$file" --format csv
done
"$program" print --kind one_f_one_b "${shape[@]}" >"$scratch/grid"
same "$scratch/grid" print "$scratch/grid"
"$program" print --kind one_f_one_b "${shape[@]}" --format csv >"$scratch/1f1b"
same "$scratch/1f1b" print "$scratch/grid" --format csv
"$program" print - --format csv <"$scratch/1f1b" | cmp - "$scratch/1f1b" || fail "the standard input"
expect 0 '^\{"stages":4,"microbatches":8,"rows":\[\["0F0","0F1",' print "$scratch/1f1b" --format json

expect 0 '"microbatches":9,' print "$scratch/1f1b" --format json --microbatches 9
expect 1 '0F8 is missing' simulate "$scratch/1f1b" --microbatches 9

# check
expect 0 'one_f_one_b: no fault' check --kind one_f_one_b "${shape[@]}"
expect 0 '^least capacity: to run 1, for full speed 1$' check "$scratch/1f1b"
expect 0 '^peak activations: 4 3 2 1$' check "$scratch/1f1b" --limit 4
expect 0 '"can_run":true.*"capacity_to_run":1,.*"peak_activations":\[4,3,2,1\]' check "$scratch/1f1b" --format json
expect 0 '^row,column,reason$' check "$scratch/1f1b" --format csv
expect 1 'limit|most' check "$scratch/1f1b" --limit 3
expect 0 'no fault' check "$scratch/1f1b" --limit 4,3,2,1
expect 1 '0SEND_F3' check "$scratch/1f1b" --capacity 0
expect 1 '3B0' check "$data/torch/torch-2.15-1F1B-v1-r4-b8-compute.csv"
expect 0 'no fault' check "$data/torch/torch-2.15-Interleaved1F1B-v2-r4-b8-comms.csv"

# lower: what it prints stops at 0 and runs at 1.
"$program" lower "$scratch/1f1b" --format csv >"$scratch/lowered"
grep -q '^0F0,0SEND_F0,0F1,0SEND_F1,' "$scratch/lowered" || fail "lower: $(head -1 "$scratch/lowered")"
same "$scratch/lowered" lower "$scratch/lowered" --format csv
for stuck in 0SEND_F3 1SEND_F2 2SEND_F1 3SEND_B0; do expect 1 "$stuck" check "$scratch/lowered"; done
expect 1 '"stuck":\[\{"row":0,"column":7,"action":"0SEND_F3","peer":1\}' check "$scratch/lowered" --format json
expect 0 'no fault' check "$scratch/lowered" --capacity 1
expect 1 'fault|without|no ' lower "$data/torch/torch-2.15-1F1B-v1-r4-b8-compute.csv"

# simulate
expect 0 '^makespan 33, bubble 27.3 %$' simulate "$scratch/1f1b"
expect 0 '^ +1 +24 +1 +[0-9]+ +2 +3 +3$' simulate "$scratch/1f1b"
expect 0 '^  0 to 4, rank 0: 0F0|^  0 to 1, rank 0: 0F0' simulate "$scratch/lowered"
expect 0 '^rank,busy,fill,wait,drain,peak_activations,peak_bytes$' simulate "$scratch/1f1b" --format csv
expect 0 '^\{"makespan":33,"bubble":0.2727.*"ranks":\[\{"rank":0,"busy":24,' simulate "$scratch/1f1b" --format json
expect 1 '0SEND_F3' simulate "$scratch/1f1b" --capacity 0
printf '{"forward": 2, "backward_input": 2, "backward_weight": 2, "activation_bytes": 10}' >"$scratch/model"
expect 0 '^makespan 66,' simulate "$scratch/1f1b" --model "$scratch/model"
expect 0 ' 40$' simulate "$scratch/1f1b" --model "$scratch/model"

# Figures, of what was searched and of what stops, too.
"$program" simulate "$scratch/1f1b" --svg "$scratch/svg" --trace "$scratch/trace" >/dev/null || fail "figures"
grep -q '^<svg' "$scratch/svg" || fail "no figure"
grep -q '"ph":"f"' "$scratch/trace" || fail "no timeline"
expect 1 'stuck|stops' check "$scratch/lowered" --svg "$scratch/svg"
grep -q '0SEND_F3 is stuck' "$scratch/svg" || fail "no stop in the figure"
expect 1 '3B0 is without 3F0' simulate "$data/torch/torch-2.15-1F1B-v1-r4-b8-compute.csv" --svg "$scratch/none"
[[ ! -e $scratch/none ]] || fail "a figure of a schedule with faults"
expect 1 'nothing is drawn' print "$data/torch/torch-2.15-1F1B-v1-r4-b8-compute.csv" --svg "$scratch/svg"

# search: CSV that passes the check, and what is known about it.
"$program" search --ranks 4 --microbatches 6 --limit 3 >"$scratch/found" 2>"$scratch/notes" || fail "search"
grep -q '^makespan 24, proved' "$scratch/notes" || fail "search: $(cat "$scratch/notes")"
expect 0 'no fault' check "$scratch/found" --limit 3
expect 0 '^makespan 24, bubble 25.0 %' simulate "$scratch/found"
expect 0 '^makespan 39, proved' search --ranks 4 --microbatches 6 --limit 2 --unsplit --model <(printf '{"backward_input": 1, "backward_weight": 1}')
expect 0 '"makespan":24,"bound":24,"proved":true,"stages":4' search --ranks 4 --microbatches 6 --limit 3 --format json
expect 0 '^makespan [0-9]+, proved' search "$scratch/1f1b" --limit 4
expect 2 'limit' search --kind zbv --ranks 2 --microbatches 4 --limit 1

# compare and recommend
expect 0 '^gpipe +1 +33.000 +33 +0.273 +8 +8 +0 +0$' compare "${shape[@]}"
expect 0 '^zbv,2,25.5,51,' compare "${shape[@]}" --format csv
expect 0 '"kind":"dualpipe_v","stages_per_rank":2,' compare "${shape[@]}" --format json
expect 0 '^zero_bubble ' recommend "${shape[@]}" --limit 4
"$program" recommend "${shape[@]}" --limit 4 | sed -n 2p | grep -q '^zero_bubble ' || fail "the fastest is not first"
expect 1 'no kind fits' recommend "${shape[@]}" --limit 1

# The page: its files, and what the program prints of them.
mkdir "$scratch/page"
cd "$scratch/page" || exit 1
block() { # <first line of the block>: the lines between the fences that follow it
  awk -v first="$1" '$0 == first { found = 1; next } found && /^```/ { if (inside) exit; inside = 1; next } inside' "$page"
}
shown=0
while IFS= read -r line; do
  case $line in
    "<!-- file: "*) name=${line#<!-- file: } && block "$line" >"${name% -->}" ;;
    "<!-- leat-schedule "*)
      arguments=${line#<!-- leat-schedule }
      # shellcheck disable=SC2086 # several words
      "$program" ${arguments% -->} >out 2>notes
      [[ $arguments != search* ]] || : >out # one of several that are as short
      cat out notes | diff - <(block "$line" | if [[ -s out ]]; then cat; else tail -1; fi) || fail "the page: $line"
      shown=$((shown + 1))
      ;;
  esac
done <"$page"
((shown >= 4)) || fail "the page shows $shown outputs"
finish
