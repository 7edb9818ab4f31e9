#!/usr/bin/env bash
# Expects snippets.sh to accept a faithful block, and to refuse a changed one, one without its
# marker comment, and one whose source is gone.
set -euo pipefail
snippets=$(dirname "$(readlink -f "$0")")/snippets.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

cat >"$tree/hello.cpp" <<'END'
int main() {
  // [hello]
  if (true) {

    greet();
  }
  // [/hello]
}
END

readme() { printf '%s\n' 'Words.' '' "$@" '' 'More words.' >"$tree/README.md"; }
comment='<!-- snippet: hello.cpp#hello -->'
body=('```cpp' 'if (true) {' '' '  greet();' '}' '```')

expect() { # accepts|refuses <what>
  local verdict=accepts
  bash "$snippets" "$tree" README.md >"$tree/out.txt" || verdict=refuses
  [[ $verdict == "$1" ]] || {
    echo "FAIL: $verdict $2" && cat "$tree/out.txt"
    exit 1
  }
}

readme "$comment" "${body[@]}" && expect accepts "a faithful block"
readme "$comment" '' "${body[@]}" && expect accepts "an empty line after the marker"
readme '```sh' 'make' '```' && expect accepts "a block in another language"
readme "$comment" "${body[@]/cpp/c}" && expect accepts "a faithful block of C"
readme "${body[@]/cpp/c}" && expect refuses "a block of C without a marker"
readme '```cmake' 'project(mine)' '```' && expect accepts "a block in a language that begins with c"
printf '# [hello]\ngreet()\n# [/hello]\n' >"$tree/hello.py"
readme "${comment/cpp/py}" '```python' 'greet()' '```' && expect accepts "a faithful block of Python"
readme "${comment/cpp/py}" '```python' 'shout()' '```' && expect refuses "a changed block of Python"
readme "$comment" "${body[@]/greet/shout}" && expect refuses "a changed block"
readme "$comment" "${body[@]:0:5}" && expect refuses "an unclosed block"
readme "${body[@]/#/ }" && expect refuses "an indented block without a marker"
readme "${body[@]}" && expect refuses "a block without a marker"
readme "$comment" 'Words between.' "${body[@]}" && expect refuses "a marker that belongs elsewhere"
readme "${comment/hello -/bye -}" "${body[@]}" && expect refuses "a marker without a source"
readme "${comment/hello.cpp/bye.cpp}" "${body[@]}" && expect refuses "a source that is gone"
echo "all as expected"
