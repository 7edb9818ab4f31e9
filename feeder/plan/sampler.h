// Samplers: in which order an epoch visits the samples.
//
// The order is a pure function of (seed, epoch, position): it does not depend on how many workers
// read, how many slots there are, or what was read before. A shuffled epoch is a keyed permutation
// that is computed, not stored, so its memory does not grow with the dataset.
//
// The order must never change. A resumed run relies on it: with another order it would read some
// samples twice and others never. tests/feeder/plan/sampler_test.cpp pins the order down.
#pragma once

#include <cstdint>
#include <span>

#include "leat/csp/base/random.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/order.h"

namespace leat::feeder {

/// Returns the key of (seed, number): of an epoch's order, of a part's seed. Without the outer mix,
/// the keys of successive numbers would be successive counters, and the round keys of one epoch
/// would be those of the next, shifted by one.
[[nodiscard]] constexpr std::uint64_t key_of(std::uint64_t seed, std::uint64_t number) noexcept {
  return mix(mix(seed + kRandomStep) + number + kRandomStep);
}

/// The order of `size` samples. A value: copy freely. Thread-safe.
class Sampler {
 public:
  /// `size` may be 0 (an epoch without samples). `seed` has an effect on kShuffled alone.
  Sampler(std::uint64_t size, Order order, std::uint64_t seed) noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Returns the sample at `position` of `epoch`: each of 0 .. size()-1 for exactly one position.
  /// Asserts that position < size(). In shuffled order, takes some 70 ns, and up to four times that
  /// if size() is just above a power of 4. Allocates nothing.
  [[nodiscard]] std::uint64_t at(std::uint64_t epoch, std::uint64_t position) const noexcept;
  /// Writes the samples at the positions from `first` on to `out`. Positions from size() on begin
  /// again at 0. Takes about a third of the time for each sample.
  void at(std::uint64_t epoch, std::uint64_t first, std::span<std::uint64_t> out) const noexcept;

 private:
  std::uint64_t size_;
  Order order_;
  unsigned half_bits_;  // the network's domain has 2^(2 * half_bits_) numbers
  std::uint64_t seed_;
};

/// Returns the order of a dataset's samples: by number, if the numbers are an order already.
[[nodiscard]] Sampler sampler_of(const Dataset& dataset, Order order, std::uint64_t seed) noexcept;

}  // namespace leat::feeder
