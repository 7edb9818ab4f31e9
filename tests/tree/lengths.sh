#!/usr/bin/env bash
# Usage: lengths.sh <root of the tree>
#
# Fails on any C++ file of more than 400 lines, and names it. A class whose members stand in several .cpp of
# a folder is read as one: these files together have at most 400 lines, too. The classes below have more,
# and may not grow.
set -euo pipefail
cd "$1"

declare -A allowed=(
  [csp/sched:SchedulerCore]=1250 # idle.cpp, due.cpp, settle.cpp, deadlock.cpp: what its one lock guards
  [csp/sched:Worker]=470         # steal.cpp
  [comm/exchange:Exchange]=760   # trainer.cpp and fiber.cpp: its two sides
  [feeder/state:State]=480       # state_text.cpp
)
violations=0
refuse() {
  echo "$1"
  violations=$((violations + 1))
}

files=$(git ls-files 2>/dev/null | grep -E '\.(h|cpp|cu|cuh)$' || find . -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')
while read -r lines file; do
  [[ $file == total ]] || ((lines <= 400)) || refuse "$file: $lines lines; at most 400"
done < <(xargs wc -l <<<"$files")

# <folder>:<class> <lines in all its .cpp>, where two of these define two members or more each.
classes=$(grep -E '^(\./)?(csp|gpu|feeder|comm|pipeline|overlap)/.*\.cpp$' <<<"$files" | xargs awk '
  FNR == 1 { folder = FILENAME; sub(/^\.\//, "", folder); sub(/\/[^\/]*$/, "", folder) }
  { length_of[FILENAME] = FNR }
  match($0, /^([A-Za-z_][A-Za-z0-9_:<>,&* ]* [*&]?)?[A-Z][A-Za-z0-9]*::~?[A-Za-z_0-9]+\(/) {
    name = substr($0, 1, RLENGTH)
    sub(/::~?[A-Za-z_0-9]+\($/, "", name)
    sub(/.*[ *&]/, "", name)
    if (++defined[folder ":" name, FILENAME] == 2) {
      ++files_of[folder ":" name]
      in_file[folder ":" name] = in_file[folder ":" name] " " FILENAME
    }
  }
  END {
    for (one in files_of) {
      if (files_of[one] < 2) continue
      sum = 0
      count = split(in_file[one], all, " ")
      for (i = 1; i <= count; ++i) sum += length_of[all[i]]
      print one, sum
    }
  }')
while read -r class lines; do
  [[ -z $class ]] || ((lines <= ${allowed[$class]:-400})) ||
    refuse "${class/:/: class } has $lines lines in several files; at most ${allowed[$class]:-400}"
done <<<"$classes"
echo "$(wc -l <<<"$files") files, $violations too long"
((violations == 0))
