#!/usr/bin/env bash
# Usage: outputs.sh <folder of the built examples> <markdown file>...
#
# Fails unless every output that the files show is what the program prints now, and there is one:
#
#   <!-- output: example_01_hello_channel -->
#   ```text
#   ...exactly its standard output...
#   ```
set -euo pipefail
examples=$1
shift

printed=$(mktemp -d)
trap 'rm -rf "$printed"' EXIT
shown=0 wrong=0
for markdown; do
  for program in $(sed -n 's/^<!-- output: \([^ ]*\) -->$/\1/p' "$markdown"); do
    shown=$((shown + 1))
    [[ -f $printed/$program ]] || "$examples/$program" >"$printed/$program" || true
    if ! diff <(awk -v marker="<!-- output: $program -->" '
        inside && $0 == "```" { exit }
        inside { print }
        $0 == marker { getline; inside = 1 }' "$markdown") "$printed/$program"; then
      echo "$markdown: $program prints something else (< shown, > printed)"
      wrong=$((wrong + 1))
    fi
  done
done
((shown > 0)) || echo "no output is shown: $*"
((shown > 0 && wrong == 0))
