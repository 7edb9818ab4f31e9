// Pseudo-random numbers for choices that must be fair and replayable, but not secret: splitmix64
// (Steele, Lea, Flood 2014), a mixing function applied to a counter.
#pragma once

#include <cstdint>

#include "leat/csp/base/required.h"

namespace leat {

/// The step from one counter of a sequence to the next.
inline constexpr std::uint64_t kRandomStep = 0x9E3779B97F4A7C15ULL;

/// Returns the random number for `counter`. Neighbouring counters give unrelated numbers.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t counter) noexcept {
  counter = (counter ^ (counter >> 30)) * 0xBF58476D1CE4E5B9ULL;
  counter = (counter ^ (counter >> 27)) * 0x94D049BB133111EBULL;
  return counter ^ (counter >> 31);
}

/// A seed from the operating system: another one for each call. A system call.
[[nodiscard]] std::uint64_t random_seed() noexcept;

}  // namespace leat
