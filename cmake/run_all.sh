#!/usr/bin/env bash
# Runs what this bundle holds, and writes report.txt, report.json, and a folder with all output.
#
#   ./run_all.sh [--quick] [--limit SECONDS] [--out FOLDER]
#
#   --quick    fewer sizes and samples in the benchmarks of gpu
#   --limit    the longest that one program may take; 600 where it is not said
#   --out      where the reports go; here, where it is not said
#
# Works without a GPU: what needs one is then reported as skipped. Exit status 1 if anything failed.
# It asks for bash, coreutils, awk and sed; python3, where there is one, adds the table of targets.
set -uo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
quick=() limit=600 out=$here

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
  exit "$1"
}
while (($#)); do
  case $1 in
    --quick) quick=(--quick) ;;
    --limit | --out)
      (($# > 1)) || usage 2 >&2
      if [[ $1 == --limit ]]; then limit=$2; else out=$(mkdir -p "$2" && readlink -f "$2") || exit 1; fi
      shift
      ;;
    -h | --help) usage 0 ;;
    *) usage 2 >&2 ;;
  esac
  shift
done
cd "$here" || exit 1
logs=$out/run_all_output
rm -rf "$logs"
mkdir -p "$logs" || exit 1

# Text as a JSON string. By bash alone: a report has hundreds, and four processes each took seconds.
json() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\t'/\\t}
  text=${text//$'\n'/\\n}
  printf '"%s"' "${text//[[:cntrl:]]/}"
}

# The lines of a text as a JSON array.
json_lines() {
  local line comma=""
  printf '['
  [[ -z $1 ]] || while IFS= read -r line; do
    printf '%s%s' "$comma" "$(json "$line")" && comma=", "
  done <<<"$1"
  printf ']'
}

smi() { command -v nvidia-smi >/dev/null && timeout 60 nvidia-smi "$@" 2>/dev/null; }

# --- the machine ------------------------------------------------------------------------------

asked=index,name,driver_version,memory.total,pcie.link.gen.current,pcie.link.gen.max
asked+=,pcie.link.width.current,pcie.link.width.max,persistence_mode,ecc.mode.current
gpus=$(smi --query-gpu="$asked" --format=csv) || gpus=""
topology=$(smi topo -m) || topology=""
cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1)
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)
began=$(date -u +%FT%TZ)

# There is a GPU if one opens; one that nvidia-smi sees and that does not open is a failure.
if why=$(timeout 120 bin/bench_gpu_events --device=cuda:0 --benchmark_list_tests 2>&1 >/dev/null); then
  gpu=1 why=""
else
  gpu=0
fi

# --- running ----------------------------------------------------------------------------------

programs=() # as JSON
passed=0 failed=0 skipped=0
failures=()

# count <file> <PASSED|FAILED|SKIPPED>: what GoogleTest says of tests.
count() { sed -nE "s/^\[ *$2 *\] ([0-9]+) tests?.*/\1/p" "$1" | head -1 | grep . || echo 0; }

# Tests for a GPU that were skipped though there is one. On a machine with one device that is right
# of those that ask for two.
wrongly_skipped() {
  awk '
    /^\[ RUN +\] / { reason = "" }
    /^\[ +SKIPPED \] .*\/Cuda[A-Za-z0-9]* \(/ { if (reason !~ /cuda:1/) print $4; next }
    { reason = reason $0 }' "$1"
}

# run <name> <program> <argument>...: one program, and what became of it.
run() {
  local name=$1 log=$logs/$1.txt status=0 verdict=passed why="" start=$SECONDS tests="" skips
  shift
  printf '%-32s ' "$name"
  # Outside goes what bash itself says of a crash; the status tells it.
  { timeout --kill-after=10 "$limit" "$@" </dev/null >"$log" 2>&1; } 2>/dev/null || status=$?
  case $status in
    0) ;;
    124) why="took more than $limit s" ;;
    137) ((SECONDS - start < limit)) && why="was killed" || why="took more than $limit s" ;;
    *) why="exit status $status" ;;
  esac
  if [[ $name == test_* ]]; then
    tests="$(count "$log" PASSED) passed, $(count "$log" FAILED) failed, $(count "$log" SKIPPED) skipped"
    if ((gpu)); then
      skips=$(wrongly_skipped "$log")
      [[ -z $skips ]] || why+="${why:+; }skipped on a machine with a GPU: ${skips//$'\n'/ }"
    fi
  fi
  if [[ -n $why ]]; then
    verdict=FAILED failed=$((failed + 1))
    failures+=("$name: $why")
  else
    passed=$((passed + 1))
  fi
  printf '%s%s, %d s%s\n' "$verdict" "${tests:+ ($tests)}" $((SECONDS - start)) "${why:+: $why}"
  [[ -z $why ]] || tail -n 15 "$log" | sed 's/^/    /'
  record "$name" "${verdict,,}" "$why" "$status" $((SECONDS - start)) "$log" "$*"
}

# skip <name> <why>
skip() {
  skipped=$((skipped + 1))
  printf '%-32s skipped: %s\n' "$1" "$2"
  record "$1" skipped "$2" 0 0 "" ""
}

# record <name> <verdict> <why> <status> <seconds> <log> <command>: a program's line in the JSON.
record() {
  local tests=""
  if [[ $1 == test_* && -n $6 ]]; then
    tests=", \"tests\": {\"passed\": $(count "$6" PASSED), \"failed\": $(count "$6" FAILED)"
    tests+=", \"skipped\": $(count "$6" SKIPPED)}"
  fi
  programs+=("{\"name\": $(json "$1"), \"verdict\": \"$2\", \"why\": $(json "$3"), \"status\": $4,
   \"seconds\": $5, \"command\": $(json "$7")$tests}")
}

benchmark() { # <name> <program> <argument>...: one that writes JSON
  local name=$1
  shift
  run "$name" "$@" --benchmark_out="$logs/$name.json" --benchmark_out_format=json
}

# compare_accuracies: the device computes what the host does, but in another order.
compare_accuracies() {
  local device of=()
  for device in host cuda; do
    of+=("$(sed -nE 's/^test accuracy ([0-9.]+) %.*/\1/p' "$logs/trainer_$device.txt" | tail -1)")
  done
  awk -v host="${of[0]}" -v cuda="${of[1]}" 'BEGIN {
    exit !(host != "" && cuda != "" && host - cuda < 0.301 && cuda - host < 0.301) }' && return
  failed=$((failed + 1))
  failures+=("test accuracy: host ${of[0]:-not said}, cuda:0 ${of[1]:-not said}; at most 0.3 apart")
}

report() {
  echo "$began, build $(cat build.json)"
  echo "$(uname -srm), $glibc, $(nproc) CPUs, $cpu"
  echo "${gpus:-nvidia-smi tells of no GPU}"
  ((gpu)) || echo "no GPU for this run: $why"
  [[ -z $topology ]] || echo "$topology"
  echo
  for program in bin/test_*; do run "${program#bin/}" "$program"; done
  # shellcheck disable=SC2016 # the inner shell expands
  local orders='for order in 0 1 2 3 4 5; do bin/gpu_at_exit "$0" $order || exit; done'
  run at_exit_host bash -c "$orders" host
  ((!gpu)) || run at_exit_cuda bash -c "$orders" cuda
  for program in bin/example_*; do run "${program#bin/}" "$program"; done
  local trainer=(bin/mnist --data examples/data/mnist --min-accuracy 97)
  run trainer_host "${trainer[@]}" --device host
  if ((gpu)); then
    run trainer_cuda "${trainer[@]}" --device cuda:0
    compare_accuracies
    local real=(bin/example_08_real_trainer --data examples/data/mnist --device cuda:0)
    [[ ! -x bin/example_10_data_parallel ]] ||
      run data_parallel_cuda bin/example_10_data_parallel --device cuda --min-accuracy 93
    run real_trainer_cuda "${real[@]}" --checkpoint "$logs/checkpoint"
    run real_trainer_cuda_resumed "${real[@]}" --epochs 3 --resume "$logs/checkpoint"
    if [[ -x bin/leat-overlap ]]; then
      local overlap=(bin/leat-overlap --device cuda:0)
      run overlap_mlperf "${overlap[@]}" --shape mlperf --steps 50 --json "$logs/overlap_mlperf.json" \
        --html "$logs/overlap_mlperf.html"
      run overlap_gemm "${overlap[@]}" --batch 256MiB --compute 5ms --compute-kind gemm \
        --json "$logs/overlap_gemm.json" --trace "$logs/overlap_trace.json"
      run overlap_sweep "${overlap[@]}" --sweep --seconds 0.3 --json "$logs/overlap_sweep.json" \
        --html "$logs/overlap_sweep.html" --svg "$logs/overlap_sweep.svg"
      if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        local shape
        for shape in tx_tc_5ms gemm_5ms tx_tc_1ms cosmoflow; do # one by one, for the limit is of each
          run "overlap_peers_$shape" python3 bench/compare.py overlap --programs bin --rounds 2 \
            --seconds 1 --kernels lib/libleat_overlap_kernels.so --only "$shape" \
            --save "$logs/overlap_peers_$shape"
        done
      else
        skip overlap_peers "no python3 with a PyTorch that sees a GPU"
      fi
    fi
  elif [[ -n $gpus ]]; then
    failed=$((failed + 1))
    failures+=("nvidia-smi sees a GPU that does not open: $why")
  else
    skip trainer_cuda "no GPU"
  fi
  # Rows that are compared with each other take turns.
  local turns=(--benchmark_repetitions=5 --benchmark_enable_random_interleaving=true)
  ((${#quick[@]} == 0)) || turns=()
  benchmark link bin/bench_gpu_link "${quick[@]}"
  benchmark await bin/bench_gpu_await "${quick[@]}" "${turns[@]}"
  benchmark events bin/bench_gpu_events "${quick[@]}" "${turns[@]}"
  echo
  if command -v python3 >/dev/null; then
    python3 bench/compare.py gpu --read "$logs"/{link,await,events}.json
  else
    echo "no python3: the targets are not judged here; bench/compare.py gpu --read $logs/*.json does"
  fi
  echo "programs: $passed passed, $failed failed, $skipped skipped"
  for failure in "${failures[@]}"; do echo "FAILED: $failure"; done
  write_json
  ((failed == 0))
}

write_json() {
  local name comma=""
  {
    echo "{\"date\": \"$began\","
    echo " \"build\": $(cat build.json),"
    echo " \"machine\": {\"kernel\": $(json "$(uname -srm)"), \"cpu\": $(json "$cpu"),"
    echo "  \"cpus\": $(nproc), \"glibc\": $(json "$glibc")},"
    echo " \"gpu\": {\"opens\": $( ((gpu)) && echo true || echo false), \"why_not\": $(json "$why"),"
    echo "  \"nvidia_smi\": $(json_lines "$gpus"), \"topology\": $(json_lines "$topology")},"
    echo " \"programs\": ["
    for program in "${programs[@]}"; do
      printf '%s  %s' "$comma" "$program" && comma=$',\n'
    done
    echo "],"
    echo " \"passed\": $passed, \"failed\": $failed, \"skipped\": $skipped,"
    echo " \"benchmarks\": {"
    comma=""
    for name in "$logs"/*.json; do
      # A benchmark that was ended has not finished its file.
      [[ -f $name && $(tail -c 16 "$name" | tr -d '[:space:]') == *"]}" ]] || continue
      printf '%s%s: ' "$comma" "$(json "$(basename "$name" .json)")" && comma=", "
      cat "$name"
    done
    echo "}}"
  } >"$out/report.json"
}

report | tee "$out/report.txt"
