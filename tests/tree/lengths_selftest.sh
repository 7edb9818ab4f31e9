#!/usr/bin/env bash
# Plants a file that is too long, and a class that is; expects lengths.sh to name exactly those.
set -euo pipefail
lengths=$(dirname "$(readlink -f "$0")")/lengths.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/csp/a" "$tree/csp/b"

lines() { # <file> <how many> <what stands twice in it>
  printf '%s\n' "$3first() {" "$3second() {" >"$tree/$1"
  printf '//\n%.0s' $(seq "$(($2 - 2))") >>"$tree/$1"
}
lines csp/long.h 401 'int '
lines csp/full.h 400 'int '
lines csp/a/one.cpp 200 'void Long::'
lines csp/a/two.cpp 201 'std::vector<int>& Long::~'
lines csp/a/short.cpp 200 'Short::'
lines csp/b/short.cpp 201 'Short::' # of another folder: another class
lines csp/b/other.cpp 200 'void Other::'
echo 'void Short::once() {' >>"$tree/csp/b/other.cpp" # a single member

expected='csp/a: class Long has 401 lines in several files; at most 400
csp/long.h: 401 lines; at most 400'
if found=$(bash "$lengths" "$tree"); then
  echo "lengths.sh has found nothing" >&2
  exit 1
fi
diff <(sed '$d; s|^\./||' <<<"$found" | sort) <(echo "$expected")
