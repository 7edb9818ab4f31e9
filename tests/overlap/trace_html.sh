#!/usr/bin/env bash
# Usage: trace_html.sh <the leat-overlap program>
#
# The page of leat-overlap trace: names cannot break out of it, it stays below 3 MB, and asks for nothing
# from elsewhere. Where Chromium is, its script runs to its end. With LEAT_SCREENSHOTS=<folder> leaves
# pictures to look at, light and dark. Skipped without Python.
set -uo pipefail
program=$1
command -v python3 >/dev/null || { echo "no Python here" && exit 77; }
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}
browse() { # <arguments>...
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$scratch/profile" --hide-scrollbars --virtual-time-budget=5000 "$@" 2>"$scratch/log"
}
page() { # <name> <traces and arguments>...
  local name=$1 shade
  shift
  "$program" trace "$@" --html "$scratch/$name.html" >"$scratch/out" 2>&1 ||
    fail "$name: the program failed: $(tail -3 "$scratch/out")"
  [[ -n $browser ]] || return
  browse --dump-dom "file://$scratch/$name.html" >"$scratch/$name.dom"
  grep -q '<section' "$scratch/$name.dom" || fail "$name: the script draws nothing"
  # Outside of the script itself.
  ! sed '/<script/,/<\/script>/d' "$scratch/$name.dom" | grep -oE '.{20}(undefined|NaN|>null).{20}' ||
    fail "$name shows something that is not there"
  [[ -z ${LEAT_SCREENSHOTS:-} ]] || for shade in light dark; do
    local dark=()
    [[ $shade == light ]] || dark=(--force-dark-mode)
    browse "${dark[@]}" --window-size=1000,3600 --screenshot="$LEAT_SCREENSHOTS/trace-$name-$shade.png" \
      "file://$scratch/$name.html"
  done
}
# shows <page> <regex>, if a browser has drawn it
shows() { [[ -z $browser ]] || grep -qE -- "$2" "$scratch/$1.dom" || fail "$1 does not show /$2/"; }

python3 - "$scratch" <<'END' || fail "cannot make the traces"
import json, sys
scratch = sys.argv[1]
bad = ["</script><b id=out>", "<!--<script>", "\"'`${x}\\", "\u0001\u001f\u202e\u2028", "&lt;&amp;", "x" * 5000]
def op(name, ts, dur, device=0, stream="7", call=None, cat="kernel"):
    args = {"device": device, "stream": stream, "bytes": 1 << 21}
    if call is not None: args["correlation"] = call
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": device, "tid": stream, "args": args}
def host(name, ts, dur, cat, call=None):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 99, "tid": 1,
            "args": {} if call is None else {"correlation": call}}
def write(file, events, **more):
    with open(f"{scratch}/{file}.json", "w") as out: json.dump({"traceEvents": events, **more}, out)

events = []
for step in range(6):
    events.append(host(f"ProfilerStep#{step}{bad[step]}", 1000 * step, 900, "user_annotation"))
    for i, name in enumerate(bad):
        for device in (0, 1):
            call = 100 * step + 10 * device + i
            at = 1000 * step + 10 + 100 * i + device
            events.append(host("cuda" + name, at, 5, "cuda_runtime", call))
            events.append(op(("nccl" if i == 0 else "") + name, at + 20, (60 if device else 20) if i == 0 else 30 + step, device, f"{i % 3}{bad[i]}", call))
    events.append(op("Memcpy HtoD (Pageable -> Device)", 1000 * step + 5, 300, 0, "9", None, "gpu_memcpy"))
write("hostile", events, distributedInfo={"rank": 3}, deviceProperties=[{"id": 0, "name": bad[0]}])

steps = []
for step in range(30000):
    steps.append(host(f"ProfilerStep#{step}", 100 * step, 90, "user_annotation"))
    steps.append(host("cudaLaunchKernel", 100 * step + 1, 5, "cuda_runtime", step))
    steps.append(op(f"kernel {step % 1000} {bad[5]:.300}", 100 * step + 10, 40 + step % 30, 0, "7", step))
write("steps", steps)
write("streams", [op(f"{i % 900} {'<' * 500}", 10 * i, 7 + i % 50, i % 64, str(i // 2)) for i in range(6000)])
END

# What a page holds, however it is drawn.
check() { # <name> <Python that looks at `data`>
  python3 - "$scratch/$1.html" "$2" <<'END' || fail "$1: see above"
import html.parser, json, os, re, sys
text = open(sys.argv[1], newline="").read()
assert os.path.getsize(sys.argv[1]) <= 3_000_000, os.path.getsize(sys.argv[1])
assert text.lower().count("</script") == 2 and "<!--" not in text and "<b id" not in text
assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}
assert not re.search(r"[^-]src=|href=|@import", text)
class Page(html.parser.HTMLParser):
    tags, inside, data = [], None, ""
    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = dict(attributes).get("id")
    def handle_endtag(self, tag): self.inside = None
    def handle_data(self, data): self.data += data if self.inside == "data" else ""
page = Page()
page.feed(text)
assert page.tags.count("script") == 2, page.tags
data = json.loads(page.data)
exec(sys.argv[2])
print(os.path.basename(sys.argv[1]), os.path.getsize(sys.argv[1]), "bytes")
END
}

page hostile "$scratch/hostile.json"
check hostile '
first = data["traces"][0]["devices"][0]
assert len(data["traces"][0]["devices"]) == 2 and len(first["steps"]) == 6 and data["straggler"], data
assert any(one["name"] == "nccl</script><b id=out>" for one in first["names"]), first["names"]
assert [one["which"] for one in first["timelines"]] == ["median", "worst"]
for line in first["timelines"]:
    ops = sum(s[4] if len(s) > 4 else 1 for lane in line["lanes"] if not lane["is_idle"] for s in lane["segments"])
    step = next(one for one in first["steps"] if one["name"] == line["step"])
    idle = sum(s[5] if len(s) > 5 else s[1] for lane in line["lanes"] if lane["is_idle"] for s in lane["segments"])
    assert idle == step["sum"]["idle_ns"] and ops >= step["ops"] and line["length_ns"] == step["t_step_ns"], line'
shows hostile '&lt;/script&gt;&lt;b id=out&gt;'
shows hostile ': the straggler'
shows hostile 'The longest step, '

page steps "$scratch/steps.json"
check steps 'one = data["traces"][0]["devices"][0]; assert one["steps_thinned"] == 30000 and len(one["steps"]) > 1'
shows steps 'bars for 30,000 steps'
page streams "$scratch/streams.json"
check streams 'assert len(data["traces"][0]["devices"]) == 64'

"$program" --device host --virtual --link 1GB/s --batch 3MB --compute 5ms --trace "$scratch/loop.json" >/dev/null 2>&1 || fail "no loop"
page loop "$scratch/loop.json"
check loop '
loop = data["traces"][0]["devices"][0]
assert loop["mean"]["oe"] > 0 and loop["mean"]["t_x_ns"] == 3000000 and len(loop["steps"]) == loop["steps_measured"], loop
assert [lane["name"] for lane in loop["timelines"][0]["lanes"]] == ["stream uses", "stream copies", "idle"], loop["timelines"]'
shows loop 'of the shorter of Tx and Tc'
echo '[{"ph": "X", "cat": "leat", "name": "use 0", "pid": 1, "tid": 2, "ts": 3, "dur": 4, "args": {"epoch": 0, "batch": 0}}]' \
  >"$scratch/one.json"
page one "$scratch/one.json"
shows one 'none found: the whole span counts as one|no steps found'

if ((failures)); then
  echo "$failures failed"
  exit 1
fi
echo "as expected"
