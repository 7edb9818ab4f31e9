#!/usr/bin/env bash
# Usage: step_cli.sh <the program bench_comm_step>
#
# What the program prints for a file: a line of nanoseconds for each rank; exit status 1 and a line
# that names the file for one that cannot be read, 2 for arguments.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../overlap/expect.sh"

file=$scratch/step.json
expect_times() { # <times, a line each> <the file's text>
  printf '%s' "$2" >"$file"
  [[ $("$program" "$file") == "$1" ]] || fail "$2: $("$program" "$file" 2>&1)"
  [[ $("$program" - <"$file") == "$1" ]] || fail "the standard input: $("$program" - <"$file" 2>&1)"
}

# A piece of 8 bytes takes 8 ns. The second gradient is ready at 20, the first at 30, and overtakes
# the third piece of the second one, or does not.
link='"bandwidth": 1e9, "partition_bytes": 8, "credit_bytes": 8'
expect_times $'62\n65' '{"ranks": [{"b": [10, 10], "f": [1, 10]}, {"b": [10, 20], "f": [11, 10]}], "bytes": [8, 24], '"$link"'}'
expect_times $'63\n73' '{"ranks": [{"b": [10, 10], "f": [1, 10]}, {"b": [10, 20], "f": [11, 10]}], "bytes": [8, 24], "policy": "fifo", '"$link"'}'
expect_times 12 '{"ranks": [{"b": [5], "f": [7]}], "bytes": [1000], "bandwidth": 1}'

# A parameter server: ByteScheduler's figure, whole layers and pieces of a byte.
figure='"ranks": [{"b": [2, 2, 2], "f": [2, 2, 2]}], "bytes": [3, 6, 3], "bandwidth": 1e9, "credit_bytes": 1, "mode": "server"'
expect_times 26 "{$figure}"
expect_times 21 "{$figure, \"partition_bytes\": 1, \"policy\": \"fifo\"}"
expect_times 18 "{$figure, \"partition_bytes\": 1}"

expect 0 'bench_comm_step FILE' --help
expect 2 'Usage'
expect 2 'Usage' --no-such
expect 2 'Usage' "$file" "$file"
expect 1 "$scratch/none: cannot be read" "$scratch/none"
echo '{"ranks": []' >"$file"
expect 1 "$file: not JSON" "$file"
echo '{"ranks": [{"b": [1], "f": [2]}], "bytes": [4], "bandwidth": 1e9, "polcy": "fifo"}' >"$file"
expect 0 '"polcy" is ignored' "$file"
"$program" "$file" >/dev/full 2>"$scratch/out" && fail "a full disk is no error"
finish
