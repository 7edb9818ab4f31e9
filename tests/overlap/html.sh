#!/usr/bin/env bash
# Usage: html.sh <the leat-overlap program>
#
# The report in a browser, headless: its script runs to its end, and draws what the run has. With
# LEAT_SCREENSHOTS=<folder> leaves pictures to look at, light and dark. Skipped without Chromium.
set -uo pipefail
program=$1
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo "no Chromium here" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

browse() { # <arguments>...
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$scratch/profile" --hide-scrollbars --virtual-time-budget=5000 "$@" 2>"$scratch/log"
}

# expect <page> <regex> <least matches> in the page as the browser has it
expect() {
  local count
  count=$(grep -oE -- "$2" "$scratch/$1.dom" | wc -l)
  ((count >= $3)) && return
  echo "FAIL: $1: $count of /$2/, expected at least $3"
  failures=$((failures + 1))
}

page() { # <name> <arguments of the program>...
  local name=$1 shade
  shift
  "$program" --device host --virtual "$@" --html "$scratch/$name.html" >/dev/null 2>&1 || {
    echo "FAIL: $name: the program failed"
    failures=$((failures + 1))
  }
  if grep -qE 'src=|href=|https?://[^w]' "$scratch/$name.html"; then
    echo "FAIL: $name asks for something from elsewhere"
    failures=$((failures + 1))
  fi
  browse --dump-dom "file://$scratch/$name.html" >"$scratch/$name.dom"
  # Outside of the script itself.
  if sed '/<script/,/<\/script>/d' "$scratch/$name.dom" | grep -qE 'undefined|NaN|>null'; then
    echo "FAIL: $name shows something that is not there"
    failures=$((failures + 1))
  fi
  [[ -z ${LEAT_SCREENSHOTS:-} ]] || for shade in light dark; do
    local dark=()
    [[ $shade == light ]] || dark=(--force-dark-mode)
    browse "${dark[@]}" --window-size=1000,1500 --screenshot="$LEAT_SCREENSHOTS/$name-$shade.png" \
      "file://$scratch/$name.html"
  done
}

# Every figure, of a run in which they differ, against the same run's JSON.
page figures --link 1GB/s --batch 3MB --compute 5ms --read 12ms --jitter 0.4 --workers 3 --devices 2 \
  --json "$scratch/figures.json"
expect figures '<section id="timeline"' 1
expect figures '<rect ' 20                                # spans, and the stages' shares
expect figures '<title>(read|copy|use) [0-9]+: ' 15
expect figures '<title>consumer works: [0-9.]+ %' 1
expect figures '<dd>[^<]+</dd>' 12
expect figures 'class="sentence">The [a-z ]+ limits? the loop|class="sentence">No stage' 1
expect figures '3 workers|workers 3' 1
expect figures 'host:1: copies</text>' 1
if command -v python3 >/dev/null; then
  python3 - "$scratch/figures.json" "$scratch/figures.dom" <<'END' || failures=$((failures + 1))
import json, re, sys
run = json.load(open(sys.argv[1]))["runs"][0]
rank = max(run["ranks"], key=lambda one: one["t_step"])
page = open(sys.argv[2]).read()
shown = {name: (value, note) for name, value, note in re.findall(
    r'<dt>([^<]*)</dt><dd>([^<]*)</dd><span class="note">([^<]*)</span>', page)}
def time(s):
    for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "\u00b5s"), (1e-9, "ns")):
        if s >= 0.9995 * size or size == 1e-9:
            value = s / size
            return "%.*f %s" % (2 if value < 10 else 1 if value < 100 else 0, value, name)
wanted = {
    "OE": ("%.3f" % run["overlap_efficiency"], None), "feed efficiency": ("%.3f" % run["feed_efficiency"], None),
    "Tstep": (time(run["t_step"]), "mean; p99 " + time(rank["step"]["p99"])),
    "Tread": (time(rank["t_read"]), "3 workers"),
    "Tc": (time(rank["t_c"]), "alone " + time(run["t_c_alone"])),
    "Tx": (time(rank["t_x"]), "alone " + time(run["t_x_alone"])),
    "bubble": (time(rank["bubble"]["p50"]), "p50; p99 " + time(rank["bubble"]["p99"])),
    "hidden": ("%.1f %%" % (100 * run["hidden_fraction"]), None),
    "AU": ("%.1f %%" % (100 * run["accelerator_utilization"]), None),
    "serial loop": (time(run["t_serial"]), "%.2f times as long" % run["speed_up"]),
    "headspace": ("%.1f %%" % (100 * run["headspace"]), "without feeding: " + time(run["t_replay"])),
    "pinned memory": ("%.1f MB" % (run["pinned_bytes"] / 1e6), "no cap"),
    "device memory": ("%.2f MB" % (run["device_bytes"] / 1e6), "each; no cap"),
}
for name, (value, note) in wanted.items():
    assert shown[name][0] == value and note in (None, shown[name][1]), (name, shown[name], value, note)
ranks = "; ".join("rank %d: Tstep %s, OE %.3f" % (number, time(one["t_step"]), one["overlap_efficiency"])
                  for number, one in enumerate(run["ranks"]))
assert len(run["ranks"]) == 2 and ranks in page, ranks
for stage in ("reader", "copier", "consumer"):
    last = "does other things" if stage == "consumer" else "is ahead"
    for part, told in (("busy", "works"), ("starved", "waits"), ("blocked", last)):
        title = "<title>%s %s: %.1f %%</title>" % (stage, told, 100 * rank[stage][part])
        # Of the bar, before its title: colour and width.
        bar = re.search(r'<rect ([^>]*)>' + re.escape(title), page)
        assert bar and "fill: var(--%s)" % part in bar[1], (title, bar)
        width = float(re.search(r' width="([^"]*)"', " " + bar[1])[1])
        assert abs(width - 810 * rank[stage][part]) < 0.5, (title, width)
END
fi

# All in one file: timelines, stages, the sentence and the maps.
page sweep --link 10MB/s --sweep --seconds 0.01
expect sweep '<section id="timeline"' 1
expect sweep 'depth 1: [^<]*OE 0\.500</text>' 1
expect sweep 'depth 2: [^<]*OE 1\.000</text>' 1
expect sweep '<section id="stages"' 1
expect sweep 'class="sentence">The consumer limits' 1
expect sweep '<section id="sweep"' 1
expect sweep '<rect [^>]*><title>Tstep ' 120
expect sweep '>1\.000</text>' 80

# Of what is not known: a single step.
page unknown --data "mnist:$(dirname "$0")/../../examples/data/mnist" --samples 60000 --steps 1 --link 1GB/s
expect unknown '<dt>OE</dt><dd>\?</dd>' 1
expect unknown 'Tx \?, Tc \?, Tstep [^<]*, OE \?</text>' 1

if ((failures)); then
  cat "$scratch/log"
  echo "$failures failed"
  exit 1
fi
echo "as expected"
