#!/usr/bin/env bash
# Usage: commands.sh <the program 13_commands>
#
# A trainer that is told what to do by several clients at a time, among them some that send nonsense,
# too long lines, or nothing, and some that are killed, trains on, and stops when it is told to.
set -uo pipefail
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
socket=$scratch/train.socket
failures=0

expect() { # <words of the output, as a regex> <exit status> <arguments>...
  local words=$1 expected=$2 status=0
  shift 2
  timeout 60 "$program" "$@" >"$scratch/out" 2>&1 || status=$?
  if [[ $status != "$expected" ]] || ! tr '\n' ' ' <"$scratch/out" | grep -qE -- "$words"; then
    echo "FAIL: $*: exit status $status, expected $expected and /$words/; it printed:"
    cat "$scratch/out"
    failures=$((failures + 1))
  fi
}

expect "SOCKET COMMAND" 0 --help
expect "no trainer listens at" 1 "$socket" status
python3 -c 'import socket, sys, time
one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
one.bind(sys.argv[1])
time.sleep(60)' "$scratch/datagrams" &
owner=$!
until [[ -S $scratch/datagrams ]] || ! kill -0 "$owner"; do sleep 0.05; done
expect "Protocol wrong type" 1 "$scratch/datagrams"
[[ -S $scratch/datagrams ]] || { echo "FAIL: took over a socket of datagrams"; failures=1; }
kill "$owner"
expect "has 1 to 107 characters" 1 "$(printf 'x%.0s' {1..200})"
touch "$scratch/file"
expect "is there, and is no socket" 1 "$scratch/file"

timeout 100 "$program" "$socket" >"$scratch/trainer" 2>&1 &
trainer=$!
trap 'kill "$trainer" 2>/dev/null; rm -rf "$scratch"' EXIT
until [[ -S $socket ]] || ! kill -0 "$trainer"; do sleep 0.05; done
expect "status -> training, step [0-9]+, loss [^,]+, lr 0.1 " 0 "$socket" status
expect "another trainer listens there" 1 "$socket"
expect "-> ok: paused.*-> paused" 0 "$socket" pause status
for i in 1 2 3 4; do
  "$program" "$socket" "hello $i" "lr $i" "" status >/dev/null &
  timeout -s KILL 0.0$i "$program" "$socket" status status status status >/dev/null 2>&1 &
done
expect "the trainer is gone" 1 "$socket" "$(printf 'x%.0s' {1..5000})"
expect "no such command.*lr takes.*lr takes.*lr takes.*lr 0.25" 0 \
  "$socket" "$(printf '\001\377')" "lr x" "lr -1" "lr nan" "lr 1e9" $'lr 0.25\r'
expect "-> ok: training" 0 "$socket" resume
expect "-> ok: stopped" 0 "$socket" stop
wait "$trainer" || { echo "FAIL: the trainer: $(cat "$scratch/trainer")"; failures=1; }
wait
[[ ! -e $socket ]] || { echo "FAIL: the socket is left"; failures=1; }
((failures == 0))
