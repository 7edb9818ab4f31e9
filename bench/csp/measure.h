// How the benchmarks of csp/ measure, which bench/peers/csp/ does in the same way.
//
// A benchmark is asked for n operations and does them once; Google Benchmark raises n until they
// take long enough, so the runs before that one are its warm-up. The clock runs from before the
// first fiber of the problem is launched until the last result is there. Everything happens on
// fibers that may move between the workers: the one that run() pins to its thread only waits. Hence
// the CPU column says nothing; it is of one thread.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <exception>

#include "bench/peers/csp/peer.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"

namespace bench {

/// Calls problem(n) on a fiber, where n is the number of operations wanted. The problem does them
/// within `while (state.KeepRunningBatch(n))`, or more of them, with their true number in its
/// place.
template <class Problem>
void measure(benchmark::State& state, std::int64_t workers, Problem problem) {
  try {
    leat::run(
        [&] {
          leat::TaskGroup group;
          group.go([&] { problem(static_cast<std::int64_t>(state.max_iterations)); });
          group.wait();
        },
        {.workers = static_cast<int>(workers)});
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

inline void check(benchmark::State& state, bool right) {
  if (!right) state.SkipWithError("wrong result");
}

/// For Apply(): the argument is the number of workers.
inline void one_and_two_workers(benchmark::internal::Benchmark* row) {
  row->ArgName("workers")->Arg(1)->Arg(2)->UseRealTime();
}

using peer::InOrder;
using peer::round_up;

}  // namespace bench
