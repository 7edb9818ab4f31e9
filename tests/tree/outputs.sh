#!/usr/bin/env bash
# Usage: outputs.sh <root of the tree> <markdown file> <folder of programs>
#
# Fails unless every text block marked with a program is what that program prints:
#
#   <!-- output: example_01_hello_channel -->
#   ```text
#   1 4 9 16 25 and silence
#   ```
set -euo pipefail
cd "$1"
markdown=$2 programs=$3

blocks=0 wrong=0
while read -r program; do
  blocks=$((blocks + 1))
  diff <("$programs/$program") <(awk -v marker="<!-- output: $program -->" '
    $0 == marker { marked = 1; next }
    marked && inside && $0 == "```" { exit }
    marked && inside { print }
    marked && /^```text/ { inside = 1 }' "$markdown") || {
    echo "$markdown: $program prints otherwise (< in fact, > there)"
    wrong=$((wrong + 1))
  }
done < <(sed -nE 's/^<!-- output: ([^ ]+) -->$/\1/p' "$markdown")
echo "$markdown: $blocks outputs, $wrong wrong"
((wrong == 0))
