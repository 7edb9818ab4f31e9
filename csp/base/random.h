// Pseudo-random numbers for choices that must be fair and replayable, but not secret: splitmix64
// (Steele, Lea, Flood 2014), a mixing function applied to a counter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leat/csp/base/hooks.h"
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

/// Returns one of 0, ..., count - 1, each with equal probability: the choice of a select. `draw()`
/// is a random number. The explorer tries all choices of which `matters` is true: others would give
/// equal runs.
template <class Matters, class Draw>
[[nodiscard]] std::size_t choose(std::size_t count, [[maybe_unused]] Matters&& matters,
                                 [[maybe_unused]] Draw&& draw) noexcept {
#if defined(LEAT_EXPLORE)
  const hooks::Unobserved look;
  std::size_t left = 0;
  for (std::size_t i = 0; i < count; ++i) left += matters(i) ? 1U : 0U;
  if (left < 2) return 0;
  left = look.choose(left);
  for (std::size_t i = 0;; ++i) {
    if (matters(i) && left-- == 0) return i;
  }
#else
  if (count < 2) return 0;
  // The upper half of a product instead of a division; the bias is below 2^-16, for as many cases
  // as there can be, and below 2^-28 for 8.
  return ((draw() >> 32U) * count) >> 32U;
#endif
}

}  // namespace leat
