// Samplers: in which order an epoch visits the samples.
//
// The order is a pure function of (seed, epoch, position): it does not depend on how many workers
// read, how many slots there are, or what was read before. A shuffled epoch is a keyed permutation
// that is computed, not stored, so its memory does not grow with the dataset.
//
// The order is for ever: resuming a training run relies on it, so a version of Leat that changed it
// would read some samples twice and others never. tests/feeder/plan/sampler_test.cpp pins it down.
#pragma once

#include <cstdint>
#include <span>

#include "leat/feeder/order.h"

namespace leat::feeder {

/// The order of `size` samples. A value: copy freely. Thread-safe.
class Sampler {
 public:
  /// `size` may be 0 (an epoch without samples). `seed` has no effect on kSequential.
  Sampler(std::uint64_t size, Order order, std::uint64_t seed) noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// The sample at `position` of `epoch`: each of 0 .. size()-1 for exactly one position. A
  /// position of size() or more is asserted against. Shuffled, it takes some 70 ns, and up to four
  /// times that where size() is just above a power of 4; allocates nothing.
  [[nodiscard]] std::uint64_t at(std::uint64_t epoch, std::uint64_t position) const noexcept;
  /// The samples at the positions from `first` on, likewise; positions from size() on begin again
  /// at 0. Takes some third of the time for each.
  void at(std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const noexcept;

 private:
  std::uint64_t size_;
  Order order_;
  unsigned half_bits_;  // shuffled over 2^(2 * half_bits_) numbers, of which size_ count
  std::uint64_t seed_;
};

}  // namespace leat::feeder
