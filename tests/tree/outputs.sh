#!/usr/bin/env bash
# Usage: outputs.sh <folder of the built examples> <markdown file>
#
# Fails unless every output that the file shows is what the program prints now:
#
#   <!-- output: example_01_hello_channel -->
#   ```text
#   ...exactly its standard output...
#   ```
set -euo pipefail
examples=$1
markdown=$2

programs=$(sed -n 's/^<!-- output: \([^ ]*\) -->$/\1/p' "$markdown")
[[ -n $programs ]] || {
  echo "$markdown: shows no output"
  exit 1
}
wrong=0
for program in $programs; do
  shown=$(awk -v marker="<!-- output: $program -->" '
    inside && $0 == "```" { exit }
    inside { print }
    $0 == marker { getline; inside = 1 }' "$markdown")
  if ! diff <(echo "$shown") <("$examples/$program"); then
    echo "$markdown: $program prints something else (< shown, > printed)"
    wrong=$((wrong + 1))
  fi
done
((wrong == 0))
