#!/usr/bin/env bash
# Usage: snippets.sh <root of the tree> <markdown file>
#
# Fails unless every ```cpp, ```c or ```python block of the file is cut from one that is compiled or run:
#
#   <!-- snippet: examples/01_hello_channel.cpp#hello -->
#   ```cpp
#   ...exactly the lines between "// [hello]" and "// [/hello]" (Python: "# [hello]") there, less their indentation...
#   ```
set -euo pipefail
cd "$1"
markdown=$2

# cut <file> <name>: the text between the markers, dedented by its least indentation.
cut_snippet() {
  awk -v name="$2" '
    ($1 == "//" || $1 == "#") && $2 == "[/" name "]" { inside = 0; closed = 1 }
    inside {
      lines[++count] = $0
      if ($0 ~ /[^ ]/) { match($0, /^ */); if (indent == "" || RLENGTH < indent) indent = RLENGTH }
    }
    ($1 == "//" || $1 == "#") && $2 == "[" name "]" { inside = 1 }
    END {
      for (i = 1; i <= count; ++i) print substr(lines[i], indent + 1)
      exit !closed
    }' "$1"
}

blocks=0 wrong=0 number=0 marker="" block="" inside=0
complain() {
  echo "$markdown:$number: $1"
  wrong=$((wrong + 1))
}
check() {
  local file=${marker%%#*} name=${marker#*#} source
  blocks=$((blocks + 1))
  if [[ -z $marker ]]; then
    complain 'a block of code without <!-- snippet: path#name --> before it'
  elif ! source=$(cut_snippet "$file" "$name" 2>/dev/null); then
    complain "there is no // [$name] ... // [/$name] in $file"
  elif [[ $source != "${block%$'\n'}" ]]; then
    complain "differs from $file#$name (< there, > here)"
    diff <(echo "$source") <(echo -n "$block") || true
  fi
}

while IFS= read -r line || [[ -n $line ]]; do
  number=$((number + 1))
  if ((inside)); then
    if [[ $line =~ ^\ *'```'$ ]]; then
      check
      inside=0 marker=""
    else
      block+=$line$'\n'
    fi
  elif [[ $line =~ ^\ *'```'\ *(cpp|c\+\+|python|c([^a-z]|$)) ]]; then
    inside=1 block=""
  elif [[ $line =~ ^'<!-- snippet: '([^#]+#[^[:space:]]+)' -->'$ ]]; then
    marker=${BASH_REMATCH[1]}
  elif [[ $line =~ [^[:space:]] ]]; then
    marker=""
  fi
done <"$markdown"
((!inside)) || complain 'the last cpp block does not end'
echo "$markdown: $blocks cpp blocks, $wrong wrong"
((wrong == 0))
