// What the benchmarks that time single events share: lengths of time, their quantiles, errors.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <vector>

#include "leat/csp/clock.h"

namespace bench {

[[nodiscard]] inline double microseconds(leat::Duration length) {
  return std::chrono::duration<double, std::micro>(length).count();
}

/// The value below which `share` of the values lie. There is at least one value; their order is
/// changed.
[[nodiscard]] inline double quantile(std::vector<double>& values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

/// Calls `body`. An exception that leaves it is the benchmark's error.
template <class Body>
void guarded(benchmark::State& state, Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

}  // namespace bench
