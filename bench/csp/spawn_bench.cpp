// What a fiber costs: to launch and finish it, and in memory while it is parked.
//
// The last argument is the number of workers.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>

#include "bench/csp/measure.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"

namespace {

using bench::check;
using bench::measure;

/// Launches `at_once` fibers, then waits for them; again and again. An operation is one fiber.
void spawn(benchmark::State& state) {
  const std::int64_t at_once = state.range(0);
  measure(state, state.range(1), [&](std::int64_t n) {
    n = bench::round_up(n, at_once);
    std::atomic<std::int64_t> ran{0};
    while (state.KeepRunningBatch(n)) {
      for (std::int64_t i = 0; i < n; i += at_once) {
        leat::TaskGroup group;
        for (std::int64_t j = 0; j < at_once; ++j) {
          group.go([&] { ran.fetch_add(1, std::memory_order_relaxed); });
        }
        group.wait();
      }
    }
    check(state, ran == n);
  });
}
BENCHMARK(spawn)
    ->Name("Spawn")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{256, 1'000, 1'000'000}, {1, 2}})
    ->UseRealTime();

/// Bytes of memory that this process occupies.
std::int64_t resident() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == "Rss:" && file >> kib) return kib * 1024;
  }
  throw std::runtime_error("there is no Rss in /proc/self/smaps_rollup");
}

/// That many fibers wait on one channel. Counter: the bytes each adds to the process. Once in a
/// process, because memory that was in use before counts as free of charge.
void parked(benchmark::State& state) {
  const std::int64_t fibers = state.range(0);
  measure(state, state.range(1), [&](std::int64_t /*n*/) {
    const leat::Channel<std::uint64_t> gate(0, "gate");
    leat::TaskGroup group;
    std::atomic<std::int64_t> arrived{0};
    std::atomic<std::int64_t> left{0};
    const std::int64_t before = resident();
    std::int64_t after = before;
    while (state.KeepRunning()) {
      for (std::int64_t i = 0; i < fibers; ++i) {
        group.go([&, gate] {
          ++arrived;
          gate.recv();
          ++left;
        });
        if (i % 256 == 0) leat::yield();
      }
      while (arrived < fibers) leat::yield();
      leat::sleep_for(std::chrono::milliseconds(10));  // the last to arrive is not parked yet
      after = resident();
      check(state, left == 0);
      gate.close();
      group.wait();
    }
    check(state, left == fibers);
    state.counters["bytes"] = static_cast<double>(after - before) / static_cast<double>(fibers);
  });
}
BENCHMARK(parked)
    ->Name("Parked")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{100'000}, {1, 2}})
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
