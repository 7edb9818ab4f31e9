#!/usr/bin/env bash
# Usage: cli.sh <the leat-comm-report program>
#
# What the program prints of files, and its exit status: 0 all read and nothing open, 1 something
# missing or open, 2 arguments or nothing readable.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../overlap/expect.sh"

# file <rank> <of> <line>...: a recorder's file, whole
file() {
  local name="$scratch/rank-$1.leat-comm"
  printf '%s\n' "leat-comm-recorder 1 rank $1 of $2 pid 7 host h operations 1" \
    'communicator 0 joined ranks 0-1' '# a comment' "${@:3}" end >"$name"
}
first=$scratch/rank-0.leat-comm
second=$scratch/rank-1.leat-comm

file 0 2 '1 0 all_reduce sum float32 25 -1 0 -1 - fc%201 5 6 ended'
file 1 2 '1 0 all_reduce sum float32 25 -1 0 -1 - fc%201 5 6 ended'
expect 0 '^communicator 0 of ranks 0-1: all ended up to number 0$' "$first" "$second"
expect 1 '^rank 1: no file; killed' "$first"
expect 1 "^warning: $first is left out: rank 0 has another file" "$first" "$second" "$first"

file 0 2 '1 0 all_reduce sum float32 25 -1 0 -1 - fc%201 5 - open'
file 1 2
expect 1 '^    not called: rank 1$' "$first" "$second"
expect 1 '^  number 0: all_reduce of 25 float32, tensor fc 1$' "$first" "$second"

# Cut off, foreign, or not there: told with file and line, and the others are read.
head -c 100 "$second" >"$scratch/cut"
expect 1 "^warning: $scratch/cut:3: cut off" "$first" "$scratch/cut"
expect 1 "^warning: $0:1: no flight recorder" "$first" "$0"
expect 1 "^warning: $scratch/none: cannot be read: No such file" "$scratch/none" "$first"
expect 1 '^1 of 2 ranks have a file$' "$scratch/none" "$first"
expect 1 "^warning: $scratch: cannot be read: Is a directory" "$first" "$scratch"

expect 2 "^warning: $scratch/none: cannot be read" "$scratch/none"
expect 2 'FILE is required'
expect 2 'no-such' --no-such "$first"
expect 0 'Exit status: 0 if' --help
expect 2 "^warning: -h: cannot be read" -- -h
expect 0 '^leat-comm-report [0-9]+\.[0-9]+' --version
"$program" "$first" >/dev/full 2>"$scratch/out"
[[ $? == 2 ]] || fail "a full disk is no error"
grep -q 'cannot write to the standard output: No space' "$scratch/out" || fail "a full disk: $(cat "$scratch/out")"
finish
