// Samplers: in which order an epoch visits the samples.
//
// The order is a pure function of (seed, epoch, position): it does not depend on how many workers
// read, how many slots there are, or what was read before. A shuffled epoch is a keyed permutation
// that is computed, not stored, so its memory does not grow with the dataset.
#pragma once

#include <cstdint>

namespace leat::feeder {

/// Order of an epoch.
enum class Order : std::uint8_t {
  kSequential,  // 0, 1, 2, ...
  kShuffled,    // a permutation keyed by (seed, epoch)
};

/// The order of `size` samples. A value: copy freely. Thread-safe.
class Sampler {
 public:
  /// `size` may be 0 (an epoch without samples).
  Sampler(std::uint64_t size, Order order, std::uint64_t seed) noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// The sample at `position` < size() of `epoch`: each of 0 .. size()-1 for exactly one position.
  [[nodiscard]] std::uint64_t at(std::uint64_t epoch, std::uint64_t position) const noexcept;

 private:
  std::uint64_t size_;
  Order order_;
  std::uint64_t seed_;
};

}  // namespace leat::feeder
