#include "leat/csp/base/cycles.h"

#include <algorithm>

namespace leat {
namespace {

double measure() noexcept {
  const SteadyClock& clock = SteadyClock::instance();
  const TimePoint start = clock.now();
  const Cycles first = cycles_now();
  TimePoint now = start;
  while (now - start < std::chrono::microseconds(50)) now = clock.now();
  const Cycles last = cycles_now();
  return std::max(1e-3,
                  static_cast<double>(last - first) / static_cast<double>((now - start).count()));
}

}  // namespace

double cycles_per_nanosecond() noexcept {
  if constexpr (kExploring) return 1;
  static const double rate = measure();
  return rate;
}

}  // namespace leat
