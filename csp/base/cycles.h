// The CPU's cycle counter, the clock that takes the least time to read. For decisions about
// microseconds, and for figures in reports. Never for semantics.
#pragma once

#include <cstdint>

#include "leat/csp/clock.h"

namespace leat {

using Cycles = std::uint64_t;

/// The present value of the counter.
inline Cycles cycles_now() noexcept {
#if defined(LEAT_EXPLORE)
  return hooks::cycles();
#elif defined(__x86_64__)
  return __builtin_ia32_rdtsc();  // as __rdtsc(), whose header has 35,000 lines
#elif defined(__aarch64__)
  Cycles now = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  return static_cast<Cycles>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Returns the rate of the counter. The first call of the process measures it against the steady
/// clock, which takes 50 us.
[[nodiscard]] double cycles_per_nanosecond() noexcept;
/// Returns the number of cycles in `length`, about.
[[nodiscard]] inline Cycles cycles_in(Duration length) noexcept {
  return static_cast<Cycles>(static_cast<double>(length.count()) * cycles_per_nanosecond());
}

}  // namespace leat
