# Sourced by cli.sh and figures.sh, with the leat-overlap program as $1.
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

# expect <exit status> <regex of the output, both streams> <arguments>...
expect() {
  local wanted=$1 words=$2 status=0
  shift 2
  timeout 120 "$program" "$@" >"$scratch/out" 2>&1 || status=$?
  [[ $status == "$wanted" ]] || fail "$*: exit status $status, expected $wanted: $(cat "$scratch/out")"
  grep -qE -- "$words" "$scratch/out" || fail "$*: no /$words/ in: $(cat "$scratch/out")"
}

finish() {
  ((failures == 0)) || { echo "$failures failed" && exit 1; }
  echo "all as expected"
}
