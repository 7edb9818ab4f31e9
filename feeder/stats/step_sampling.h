// Which steps are sampled: one in so many, at irregular distances.
#pragma once

#include <algorithm>
#include <cstdint>

#include "leat/csp/base/random.h"

namespace leat::feeder {

/// Chooses one step in `every` on average; none if that is 0. The distance from one to the next is
/// random, `least` to 2 every - least. A fixed distance would always sample the same phase of a
/// loop that repeats itself, for instance where several readers deliver in bursts. For one fiber or
/// thread.
class StepSampling {
 public:
  StepSampling(std::uint64_t every, std::uint64_t least) noexcept
      : every_(every), least_(least), left_(std::max(every, least)) {}

  /// A step begins. Returns how many steps are left to the one that is sampled; 0: it is this one.
  std::uint64_t count() noexcept {
    if (every_ == 0) return ~std::uint64_t{0};
    const std::uint64_t left = --left_;
    if (left == 0) skip();
    return left;
  }
  /// The step that was to be sampled is not; it is not made up for: the next one would be of
  /// another kind.
  void skip() noexcept {
    const std::uint64_t distances = std::max(2 * (std::max(every_, least_) - least_) + 1, least_);
    left_ = least_ + mix(++drawn_ * kRandomStep) % distances;
  }
  /// Returns whether the next step is sampled.
  [[nodiscard]] bool is_next() const noexcept { return every_ != 0 && left_ == 1; }

 private:
  const std::uint64_t every_;
  const std::uint64_t least_;
  std::uint64_t left_;
  std::uint64_t drawn_ = 0;
};

}  // namespace leat::feeder
