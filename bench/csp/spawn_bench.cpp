// What a fiber costs: to launch and finish it, and in memory while it is parked.
//
// The last argument is the number of workers.

#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "bench/csp/leat_peer.h"
#include "bench/csp/measure.h"
#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"

namespace {

using bench::check;
using bench::measure;

[[maybe_unused]] const bool kAdded = bench::add_problems({"Spawn/"});

/// That many fibers wait on one channel. Counter: the bytes each adds to the process. Once in a
/// process, because memory that was in use before counts as free of charge.
void parked(benchmark::State& state) {
  const std::int64_t fibers = state.range(0);
  measure(state, state.range(1), [&](std::int64_t /*n*/) {
    const leat::Channel<std::uint64_t> gate(0, "gate");
    leat::TaskGroup group;
    std::atomic<std::int64_t> arrived{0};
    std::atomic<std::int64_t> left{0};
    const double before = peer::resident();
    double after = before;
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
      after = peer::resident();
      check(state, left == 0);
      gate.close();
      group.wait();
    }
    check(state, left == fibers);
    state.counters["bytes"] = (after - before) / static_cast<double>(fibers);
  });
}
BENCHMARK(parked)
    ->Name("Parked")
    ->ArgNames({"", "workers"})
    ->ArgsProduct({{100'000}, {1, 2}})
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
