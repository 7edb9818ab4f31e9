// The random numbers of a sample: the same for every reader, at any time, on every machine.
#pragma once

#include <cstdint>
#include <limits>

#include "leat/csp/base/random.h"

namespace leat::feeder {

/// The random numbers of one sample in one epoch. They depend on (seed, epoch, sample) alone, so an
/// augmented sample is the same for any number of workers and after a resume. SplitMix64 in counter
/// mode: good statistics, not for cryptography. A UniformRandomBitGenerator. The distributions of
/// `<random>` differ from one standard library to the next; below() and uniform() do not. A value;
/// not thread-safe.
class Random {
 public:
  using result_type = std::uint64_t;

  /// The numbers of sample `sample` in epoch `epoch`.
  Random(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample) noexcept
      : counter_(mix(mix(mix(seed + kRandomStep) + epoch + kRandomStep) + sample + kRandomStep)) {}

  /// The next 64 random bits.
  result_type operator()() noexcept { return mix(counter_ += kRandomStep); }
  /// The least number that operator() returns.
  static constexpr result_type min() noexcept { return 0; }
  /// The largest number that operator() returns.
  static constexpr result_type max() noexcept { return std::numeric_limits<result_type>::max(); }

  /// Returns a number in 0 .. bound-1, or 0 if `bound` is 0. All are equally likely, to within
  /// bound / 2^64.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>((*this)()) * bound) >> 64);
  }
  /// Returns a number in [0, 1), a multiple of 2^-53.
  [[nodiscard]] double uniform() noexcept {
    return static_cast<double>((*this)() >> 11) * 0x1.0p-53;
  }

 private:
  std::uint64_t counter_;
};

}  // namespace leat::feeder
