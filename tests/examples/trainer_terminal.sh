#!/usr/bin/env bash
# Usage: trainer_terminal.sh <the mnist program>
#
# The live line is drawn only where it can be cleared again: not in a pipe, nor on a terminal that
# says it is dumb, or says nothing.
set -uo pipefail
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# Two black images, to train and to test on.
for set in train t10k; do
  { printf '\0\0\010\003\0\0\0\002\0\0\0\034\0\0\0\034' && head -c $((2 * 28 * 28)) /dev/zero; } \
    >"$scratch/$set-images-idx3-ubyte"
  printf '\0\0\010\001\0\0\0\002\0\0' >"$scratch/$set-labels-idx1-ubyte"
done
train=("$program" --device host --data "$scratch" --batch-size 2 --epochs 1)

expect() { # <what> <live or plain> <command>...
  local what=$1 expected=$2 found=plain
  shift 2
  timeout 60 "$@" >"$scratch/out" 2>&1 </dev/null || found="exit status $?"
  if grep -q $'\x1b' "$scratch/out"; then found=live; fi
  if [[ $found != "$expected" ]] || ! grep -q 'epoch 1/1  loss' "$scratch/out"; then
    echo "FAIL: $what: $found, expected $expected; output:"
    cat -v "$scratch/out"
    failures=$((failures + 1))
  else
    echo "$what: $found"
  fi
}

on_terminal() { # <expected> <what env is given>...
  local expected=$1
  shift
  # script(1) runs a command on a terminal of its own.
  expect "a terminal, env $*" "$expected" \
    script -qec "$(printf '%q ' env "$@" "${train[@]}")" /dev/null
}

expect "a pipe" plain env TERM=xterm "${train[@]}"
missing=
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
  on_terminal live TERM=xterm
  on_terminal plain TERM=dumb
  on_terminal plain TERM=
  on_terminal plain -u TERM
else
  missing="script(1) is not there, or can make no terminal here"
fi

((failures == 0)) || exit 1
[[ -z $missing ]] || { echo "skipped: $missing" && exit 77; }
