#!/usr/bin/env bash
# Usage: run_arguments.sh <root of the tree>
#
# What ./run makes of its arguments, in a copy where building does nothing and the programs print
# where they are and what they were given.
set -uo pipefail
scratch=$(cd "$(mktemp -d)" && pwd -P)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/tree
caller="$scratch/a caller"
failures=0

mkdir -p "$root"/bench/{csp,feeder} "$root"/build/{demo/examples/03_mnist,release/bench} \
  "$caller" "$scratch/bin"
cp "$1/run" "$root/"
touch "$root"/bench/{csp/channel,feeder/handover}_bench.cpp
for program in build/demo/examples/03_mnist/mnist build/release/bench/bench_csp_channel; do
  printf '#!/bin/sh\necho "$PWD"\nfor word; do echo "$word"; done\n' >"$root/$program"
  chmod +x "$root/$program"
done
for command in g++ cmake ninja dpkg go ffmpeg mpirun mpicxx; do # all that is asked is to be there and to succeed
  printf '#!/bin/sh\n' >"$scratch/bin/$command"
  chmod +x "$scratch/bin/$command"
done
cp "$root/build/release/bench/bench_csp_channel" "$scratch/bin/python3"

expect() { # <what> <exit status> <text, of stdout and of run's complaints> <arguments of run>...
  local what=$1 expected_status=$2 expected=$3 found status=0
  shift 3
  found=$(cd "$caller" && PATH="$scratch/bin:$PATH" "$root/run" "$@" 2>"$scratch/err") || status=$?
  found+=$(grep '^run: ' "$scratch/err")
  if [[ $found != "$expected" || $status != "$expected_status" ]]; then
    echo "FAIL: $what: exit status $status, expected $expected_status; < expected, > found:"
    diff <(echo "$expected") <(echo "$found")
    cat "$scratch/err"
    failures=$((failures + 1))
  else
    echo "$what: as expected"
  fi
}

lines() { printf '%s\n' "$@"; }

expect "the demo runs where the caller is, with the tree's data" 0 \
  "$(lines "$caller" --data "$root/examples/data/mnist" --epochs 1)" demo --epochs 1
expect "the caller's data come later, which counts" 0 \
  "$(lines "$caller" --data "$root/examples/data/mnist" --data ./x)" demo --data ./x
expect "a benchmark runs where the caller is" 0 \
  "$(lines "$caller" --benchmark_out=a.json)" bench csp/channel --benchmark_out=a.json
expect "without a name, the benchmarks are listed" 0 "$(lines csp/channel feeder/handover)" bench
for suite in csp gpu feed python comm pipeline overlap techniques; do
  expect "$suite is compared, and knows where the caller is" 0 \
    "$(lines "$root" bench/compare.py $suite --save "a b" "--directory=$caller")" bench $suite --save "a b"
done
expect "a benchmark is compared with another build's" 0 \
  "$(lines "$root" bench/compare.py csp/channel --base b "--directory=$caller")" bench csp/channel --base b
for name in nosuch csp/nosuch csp/ csp_channel feeder ""; do
  expect "no benchmark \"$name\"" 1 \
    "run: there is no benchmark \"$name\"; there are: csp/channel feeder/handover, and csp, gpu, feed, python, comm, pipeline, overlap and techniques" bench "$name"
done

((failures == 0))
