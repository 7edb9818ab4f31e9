# For tests of the examples, which source it: `scratch`, a folder that is removed at the end; fail, which counts
# `failures`; and expect_line, of a command that has to say in one line what is wrong.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

expect_line() { # <exit status> <what> <words the line on stderr must contain, as a regex> <command>...
  local expected=$1 what=$2 words=$3 status=0
  shift 3
  timeout 60 "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
  if [[ $status != "$expected" || $(wc -l <"$scratch/err") != 1 ]] ||
    ! grep -qE "$words" "$scratch/err"; then
    fail "$what: exit status $status, expected $expected and one line with /$words/; stderr:"
    cat "$scratch/err"
  else
    echo "$what: $(cat "$scratch/err")"
  fi
}
