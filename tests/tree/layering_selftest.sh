#!/usr/bin/env bash
# Plants one include of each forbidden kind, and expects layering.sh to name exactly those. That it
# accepts what is lawful, the tree itself shows: tree.layering.
set -euo pipefail
layering=$(dirname "$(readlink -f "$0")")/layering.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

plant() { # <file> <include, with its quotes>
  mkdir -p "$tree/$(dirname "$1")"
  echo "#include $2" >>"$tree/$1"
}

expected=()
forbid() {
  plant "$@"
  expected+=("$1: $(tr -d '<>"' <<<"$2")")
}
forbid csp/a.h '"leat/gpu/device.h"'
forbid feeder/b.cpp '<nanobind/nanobind.h>'
forbid tests/feeder/b_test.cpp '<Python.h>'
forbid feeder/b.h '"leat/python/module.h"'
forbid python/src/b.cpp '<cuda_runtime_api.h>'
forbid python/src/b.cpp '"tests/gpu/cuda/stand_in/stand_in.h"'
forbid python/src/a.cpp '"leat/comm/communicator.h"'
forbid python/src/a.cpp '"leat/csp/fiber/fiber.h"'
forbid csp/b.h '<boost/context/fiber.hpp>'
forbid csp/b.cpp '<boost/fiber/context.hpp>'
forbid csp/c.h '<zlib.h>'
forbid overlap/trace/figures/a.cpp '<zlib.h>'
forbid overlap/trace/readers/a.cpp '"leat/feeder/feed.h"'
forbid overlap/trace/readers/a.cpp '"leat/gpu/trace_writer.h"'
forbid overlap/b.cpp '<sqlite3.h>'
forbid csp/d.h '"channel.h"'
forbid csp/e.h '"csp/channel.h"'
forbid csp/f.cpp '<fmt/format.h>'
forbid csp/h.cpp '"tests/support/run.h"'
forbid csp/i.cpp '"bench/support/peak.h"'
forbid tests/csp/b_test.cpp '"bench/support/peak.h"'
forbid bench/csp/e.cpp '"tests/support/run.h"'
forbid examples/a.cpp '"tests/support/run.h"'
forbid gpu/e.h '"leat/csp/sched/scheduler_core.h"'
forbid feeder/e.cpp '"leat/csp/fiber/fiber.h"'
forbid overlap/a.cpp '"leat/csp/channel/core.h"'
forbid examples/b.cpp '"leat/csp/io/poller.h"'
forbid tests/feeder/a_test.cpp '"leat/csp/fiber/stack.h"'
forbid bench/gpu/e.cpp '"leat/csp/sched/worker.h"'
forbid tests/csp/a_test.cpp '<boost/fiber/fiber.hpp>'
forbid tests/gpu/host/stream_test.cpp '<cuda_runtime_api.h>'
forbid tests/gpu/cuda/stand_in/a_test.cpp '"leat/gpu/cuda/context.h"'
forbid gpu/a.h '"leat/feeder/slots/slots.h"'
forbid gpu/b.cpp '<cuda_runtime.h>'
forbid gpu/c.cpp '"leat/gpu/cuda/backend.h"'
forbid gpu/host/a.cpp '"leat/gpu/cuda/backend.h"'
forbid feeder/e.cpp '<boost/lockfree/queue.hpp>'
forbid feeder/a.cpp '<zlib.h>'
forbid tests/feeder/sources/jpeg_test.cpp '<jpeglib.h>'
forbid tests/feeder/sources/png_test.cpp '<png.h>'
forbid feeder/a.cpp '<webp/decode.h>'
forbid feeder/sources/tar.cpp '<archive.h>'
forbid feeder/b.h '"leat/comm/task.h"'
forbid feeder/c.h '<stdint.h>'
forbid feeder/state/a.h '<nlohmann/json.hpp>'
forbid feeder/plan/a.cpp '<nlohmann/json.hpp>'
forbid feeder/d.h '"leat/feeder/interop/c/calls.h"'
forbid csp/g.h '"leat/feeder/interop/c/leat.h"'
forbid examples/c.c '"leat/feeder/prefetcher.h"'
forbid feeder/interop/dlpack.h '<dlpack/dlpack.h>'
forbid feeder/lease.h '<torch/torch.h>'
forbid tests/feeder/slots/lease_test.cpp '<ATen/ATen.h>'
forbid comm/a.h '"leat/feeder/slots/slots.h"'
forbid examples/01.cpp '"leat/gpu/host/backend.h"'
forbid bench/csp/a.cpp '<gtest/gtest.h>'
forbid bench/csp/b.cpp '<boost/fiber/all.hpp>'
forbid bench/csp/c.cpp '"peer.h"'
forbid bench/gpu/d.cpp '<cuda_runtime.h>'
forbid bench/peers/csp/a.cpp '<boost/context/fiber.hpp>'
forbid bench/peers/csp/b.cpp '"absent.h"'
# Rooms, as a README's tables have them.
mkdir "$tree/pipeline"
cat >"$tree/pipeline/README.md" <<'END'
| room, each on those above | contents |
|---|---|
| `low/`, `low.h` | |
| `high/`, `high.h` | |

| optional room | its door | contents |
|---|---|---|
| `extra/`, `extra.h` | `high/door.cpp` | |
| `alone.h` | none | |
| `told.h` | `program/` | |
| `program/` | none | |
END
plant pipeline/alone.cpp '"leat/pipeline/alone.h"'
plant pipeline/program/main.cpp '"leat/pipeline/told.h"'
plant pipeline/low/a.cpp '"leat/pipeline/low.h"'
plant pipeline/high/a.cpp '"leat/pipeline/low/a.h"'
plant pipeline/high/door.cpp '"leat/pipeline/extra.h"'
plant pipeline/extra/a.cpp '"leat/pipeline/high.h"'
forbid_room() {
  plant "$@"
  expected+=("$1: $(tr -d '<>"' <<<"$2"): pipeline/README.md tells why")
}
forbid_room pipeline/low/b.cpp '"leat/pipeline/high/a.h"'
forbid_room pipeline/low.h '"leat/pipeline/high.h"'
forbid_room pipeline/high/b.cpp '"leat/pipeline/extra/a.h"'
forbid_room pipeline/extra/b.cpp '"leat/pipeline/alone.h"'
forbid_room pipeline/alone.h '"leat/pipeline/extra.h"'
forbid_room pipeline/extra/c.cpp '"leat/pipeline/told.h"'
echo '#pragma once' >"$tree/pipeline/homeless.h"
echo '#if defined(LEAT_EXPLORE)' >"$tree/csp/k.h"
echo '// std::jthread other([] {});  // of a user' >"$tree/gpu/started.cpp"
echo 'const std::jthread other([] {});' >>"$tree/gpu/started.cpp"
if bash "$layering" "$tree" >"$tree/found.txt"; then
  echo "FAIL: accepts a tree with forbidden includes"
  exit 1
fi
diff <(printf '%s\n' "${expected[@]}" | sort) \
  <(sed -nE 's/^([^:]*):[0-9]+: may not include (.*)/\1: \2/p' "$tree/found.txt" | sort) ||
  { echo "FAIL: what was planted (<) is not what was found (>)"; exit 1; }
[[ $(grep -c 'may not start a thread' "$tree/found.txt") == 1 ]] &&
  grep -q '^gpu/started.cpp:2: may not start a thread' "$tree/found.txt" ||
  { echo "FAIL: a thread that is started without start_thread() is not found"; exit 1; }
grep -q '^pipeline/homeless.h: is in no room' "$tree/found.txt" ||
  { echo "FAIL: a file in no room is not found"; exit 1; }
grep -q '^csp/k.h:1: may not tell an exploring' "$tree/found.txt" ||
  { echo "FAIL: a macro of exploring is not found"; exit 1; }
echo "${#expected[@]} planted, ${#expected[@]} found"
