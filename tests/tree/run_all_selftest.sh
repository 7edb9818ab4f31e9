#!/usr/bin/env bash
# Usage: run_all_selftest.sh <root of the tree>
#
# What run_all.sh makes of a bundle's programs, here stubs, on a machine with a GPU and without.
set -uo pipefail
scratch=$(cd "$(mktemp -d)" && pwd -P)
trap 'rm -rf "$scratch"' EXIT
bundle="$scratch/a bundle"
mkdir -p "$bundle/bin" "$scratch/path"
cp "$1/cmake/run_all.sh" "$bundle/"
echo '{"commit": "0"}' >"$bundle/build.json"
failures=0

stub() { # <program>, its text on stdin
  { echo '#!/bin/bash' && cat; } >"$bundle/bin/$1"
  chmod +x "$bundle/bin/$1"
}

good_bundle() {
  rm -f "$bundle"/bin/* "$scratch/gpu" "$scratch"/path/*
  for command in nvidia-smi python3; do # whatever this machine has of them
    printf '#!/bin/sh\nexit 1\n' >"$scratch/path/$command"
    chmod +x "$scratch/path/$command"
  done
  stub test_gpu <<'END'
echo '[ RUN      ] Backends/A.B/Cuda'
if [[ -e $(dirname "$0")/../../gpu ]]; then
  echo '[       OK ] Backends/A.B/Cuda (0 ms)'
  echo '[ RUN      ] Backends/A.Two/CudaInARunOf2Workers'
  echo 'a_test.cpp:1: Skipped'
  echo 'cannot open cuda:1: there is 1 device'
  echo '[  SKIPPED ] Backends/A.Two/CudaInARunOf2Workers (0 ms)'
  echo '[ RUN      ] CudaUnavailable.A'
  echo '[  SKIPPED ] CudaUnavailable.A (0 ms)'
  echo '[  PASSED  ] 1 test.'
  echo '[  SKIPPED ] 2 tests, listed below:'
else
  echo 'cannot open cuda:0: no driver'
  echo '[  SKIPPED ] Backends/A.B/Cuda (0 ms)'
  echo '[  PASSED  ] 3 tests.'
  echo '[  SKIPPED ] 1 test, listed below:'
fi
END
  stub example_01 <<<'echo "a \"quoted\" line"'
  stub example_08_real_trainer <<<'echo trained "$@"'
  stub gpu_at_exit <<<'echo "$@"'
  stub mnist <<<'echo trained "$@"; echo "test accuracy 97.10 %"'
  for name in link await events; do
    stub "bench_gpu_$name" <<'END'
for word; do
  case $word in
    --benchmark_out=*) printf '{\n  "benchmarks": [\n    {\n    }\n  ]\n}\n' >"${word#*=}" ;;
    --device=cuda:0) [[ -e $(dirname "$0")/../../gpu ]] || { echo 'no "driver"' >&2; exit 1; } ;;
  esac
done
END
  done
}

# expect <what> <status> <line of the report>...: the last line is said too, in the JSON
expect() {
  local what=$1 wanted=$2 status=0 line missing=()
  shift 2
  PATH="$scratch/path:$PATH" "$bundle/run_all.sh" --limit 2 >"$scratch/printed" 2>&1 || status=$?
  for line; do grep -qE -- "$line" "$bundle/report.txt" || missing+=("$line"); done
  cmp -s "$scratch/printed" "$bundle/report.txt" || missing+=("what is printed")
  if [[ -n $python ]]; then
    "$python" -c 'import json, sys; json.load(open(sys.argv[1]))' "$bundle/report.json" ||
      missing+=("sound JSON")
  fi
  if [[ $status != "$wanted" || ${#missing[@]} -gt 0 ]]; then
    echo "FAIL: $what: exit status $status, expected $wanted; missing in the report:"
    printf '  %s\n' "${missing[@]}"
    cat "$scratch/printed"
    failures=$((failures + 1))
  else
    echo "$what: as expected"
  fi
}
python=$(command -v python3) || python=""

good_bundle
expect "without a GPU, what needs one is skipped" 0 'no GPU for this run: no "driver"' \
  '^test_gpu +passed \(3 passed, 0 failed, 1 skipped\)' '^trainer_host +passed' \
  '^trainer_cuda +skipped' '^link +passed' '^programs: 8 passed, 0 failed, 1 skipped$'
good_bundle && touch "$scratch/gpu"
expect "with one GPU, tests of two may be skipped" 0 \
  '^test_gpu +passed \(1 passed, 0 failed, 2 skipped\)' '^trainer_cuda +passed' \
  '^programs: 12 passed, 0 failed, 0 skipped$'
good_bundle && touch "$scratch/gpu"
stub test_gpu <<'END'
echo '[ RUN      ] Backends/A.B/Cuda'
echo '[  SKIPPED ] Backends/A.B/Cuda (0 ms)'
echo '[  PASSED  ] 0 tests.'
END
expect "with a GPU, its tests may not be skipped" 1 \
  '^FAILED: test_gpu: skipped on a machine with a GPU: Backends/A.B/Cuda$'
good_bundle && touch "$scratch/gpu"
stub mnist <<<'[[ $* == *cuda* ]] && echo "test accuracy 97.00 %" || echo "test accuracy 97.31 %"'
expect "the GPU's accuracy is the host's" 1 \
  '^FAILED: test accuracy: host 97.31, cuda:0 97.00; at most 0.3 apart$'
good_bundle && touch "$scratch/gpu"
stub mnist <<<'[[ $* == *cuda* ]] && echo "test accuracy 97.30 %" || echo "test accuracy 97.01 %"'
expect "or nearly so" 0 '^programs: 12 passed, 0 failed, 0 skipped$'
good_bundle
printf '#!/bin/sh\necho "0, a GPU"\n' >"$scratch/path/nvidia-smi"
expect "a GPU that does not open is a failure" 1 '^FAILED: nvidia-smi sees a GPU' 'a GPU$'
good_bundle
stub example_01 <<<'exit 3'
stub test_gpu <<<'kill -SEGV $$'
stub bench_gpu_link <<'END'
for word; do
  [[ $word != --benchmark_out=* ]] || printf '{\n  "benchmarks": [\n    {\n    }' >"${word#*=}"
done
sleep 60
END
expect "what fails, crashes or hangs is told, and the rest is run" 1 \
  '^FAILED: example_01: exit status 3$' '^FAILED: test_gpu: exit status 139$' \
  '^FAILED: link: took more than 2 s$' '^events +passed'

((failures == 0))
