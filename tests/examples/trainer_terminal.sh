#!/usr/bin/env bash
# Usage: trainer_terminal.sh <the mnist program>
#
# The live line is drawn only where it can be cleared again: not in a pipe, nor on a terminal that
# says it is dumb, or says nothing. Ctrl-C leaves the terminal on a line of its own.
set -uo pipefail
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# images_are <count> <count in octal escapes>: so many black images, to train and to test on.
images_are() {
  for set in train t10k; do
    { printf "\\0\\0\\010\\003$2\\0\\0\\0\\034\\0\\0\\0\\034" && head -c $(($1 * 28 * 28)) /dev/zero; } \
      >"$scratch/$set-images-idx3-ubyte"
    { printf "\\0\\0\\010\\001$2" && head -c "$1" /dev/zero; } >"$scratch/$set-labels-idx1-ubyte"
  done
}
images_are 2 '\0\0\0\002'
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

  # An epoch of seconds, and its live line, which begins with an escape.
  images_are 20000 '\0\0\116\040'
  printf -v long '%q ' env TERM=xterm "${train[@]}" --batch-size 1
  exec 3< <(exec script -qec "echo \$\$ >$scratch/pid; exec $long" /dev/null </dev/null)
  read -r -d $'\x1b' -u 3
  kill -INT "$(cat "$scratch/pid")"
  cat <&3 >"$scratch/out"
  if [[ $(tail -c 1 "$scratch/out" | od -An -c) != *'\n'* ]]; then
    echo "FAIL: Ctrl-C leaves the cursor at the end of: $(tail -n 1 "$scratch/out" | cat -v)"
    failures=$((failures + 1))
  fi
else
  missing="script(1) is not there, or can make no terminal here"
fi

((failures == 0)) || exit 1
[[ -z $missing ]] || { echo "skipped: $missing" && exit 77; }
