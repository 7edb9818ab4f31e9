#!/usr/bin/env bash
# Expects outputs.sh to accept what a program prints, and to refuse anything else.
set -euo pipefail
outputs=$(dirname "$(readlink -f "$0")")/outputs.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

printf '#!/bin/sh\necho "1 4 9"\necho done\n' >"$tree/squares"
chmod +x "$tree/squares"

others=()
expect() { # accepts|refuses <what>
  local verdict=accepts
  bash "$outputs" "$tree" "$tree/README.md" "${others[@]}" >"$tree/out.txt" || verdict=refuses
  [[ $verdict == "$1" ]] || {
    echo "FAIL: $verdict $2" && cat "$tree/out.txt"
    exit 1
  }
}

readme() { printf '%s\n' 'Words.' "$@" 'More words.' >"$tree/README.md"; }
readme '<!-- output: squares -->' '```text' '1 4 9' 'done' '```' && expect accepts "the true output"
readme '<!-- output: squares -->' '```text' '1 4 8' 'done' '```' && expect refuses "another output"
readme '<!-- output: squares -->' '```text' '1 4 9' '```' && expect refuses "a part of the output"
readme '<!-- output: missing -->' '```text' '1' '```' && expect refuses "a program that is not there"
readme && expect refuses "a file that shows nothing"
readme '<!-- output: squares -->' '```text' '1 4 9' 'done' '```'
printf '%s\n' '<!-- output: squares -->' '```text' '1 4 8' 'done' '```' >"$tree/other.md"
others=("$tree/other.md") && expect refuses "another output in another file"
