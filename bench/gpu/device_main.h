// The main program of the benchmarks of gpu/: which device, what is told of it, and when to fail.
//
// Besides Google Benchmark's arguments they take
//   --device NAME   as leat::gpu::open takes it; "auto" where nothing is said
//   --quick         fewer sizes and samples: whether it works, in seconds
#pragma once

#include <benchmark/benchmark.h>

#include <span>
#include <string>

#include "bench/gpu/allocations.h"
#include "leat/csp/clock.h"
#include "leat/gpu/device.h"

namespace bench {

struct Options {
  bool quick = false;
};

/// Opens the device, calls `add`, which registers benchmarks, and runs those that are asked for.
/// Returns the exit status: 1 where there is no such device, or a benchmark has failed.
int run_on_device(int argc, char** argv,
                  void (*add)(const leat::gpu::Device& device, const Options& options));

/// Ends the benchmark with an error, and the program with exit status 1.
void fail(benchmark::State& state, const std::string& why);

/// Calls `body` and fails with what it throws.
template <class F>
void guarded(benchmark::State& state, F&& body) {
  try {
    body();
  } catch (const std::exception& error) {
    fail(state, error.what());
  }
}

/// N of "cuda:N".
[[nodiscard]] int number_of(const leat::gpu::Device& device);

/// The value below which `share` of the samples lie; sorts them. There is at least one.
[[nodiscard]] double quantile(std::span<double> samples, double share);

[[nodiscard]] inline double seconds(leat::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Reports what was allocated since `before`, for each of `operations`: heap_per_op and, where CUDA
/// was asked, device_per_op, pinned_per_op, events_per_op.
void count_allocations(benchmark::State& state, const leat::gpu::Device& device,
                       const Allocations& before, double operations);

}  // namespace bench
