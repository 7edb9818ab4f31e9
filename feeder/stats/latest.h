// The latest values of a measurement, in bounded memory, and their quantiles.
#pragma once

#include <cstddef>
#include <vector>

#include "leat/feeder/stats.h"

namespace leat::feeder {

/// A ring of the latest kLatestSteps values, allocated once. Not thread-safe.
template <class T>
class Latest {
 public:
  Latest() { values_.reserve(kLatestSteps); }

  void add(const T& value) noexcept {
    if (values_.size() < kLatestSteps) {
      values_.push_back(value);  // memory was reserved
      return;
    }
    values_[next_] = value;
    next_ = (next_ + 1) % kLatestSteps;
  }
  void clear() noexcept {
    values_.clear();
    next_ = 0;
  }
  /// In no order.
  [[nodiscard]] const std::vector<T>& values() const noexcept { return values_; }

 private:
  std::vector<T> values_;
  std::size_t next_ = 0;  // overwritten next, once the ring is full
};

/// Returns quantiles by nearest rank: the smallest value such that at least that share of the
/// values does not exceed it. Zeros without values.
[[nodiscard]] Quantiles quantiles_of(std::vector<double> values);

}  // namespace leat::feeder
