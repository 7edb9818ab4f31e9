// The latest values of a measurement, in bounded memory, and their quantiles.
#pragma once

#include <cstddef>
#include <optional>
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

/// The latest kLatestSteps steps. Not thread-safe.
class LatestSteps {
 public:
  /// Adds a step, in seconds: the step took `t_step`, its work `t_c`, and its copy `t_x`. `t_x` is
  /// empty if the copy was not timed.
  void add(double t_step, double t_c, std::optional<double> t_x) noexcept {
    steps_.add({.t_step = t_step, .t_c = t_c, .t_x = t_x});
  }
  void clear() noexcept { steps_.clear(); }
  /// Writes the quantiles of the step and of the bubble into `stats`. If a step's copy was not
  /// timed, its bubble uses the mean Tx of `stats`, if there is one. No effect without steps.
  void add_to(Stats& stats) const;

 private:
  struct Step {
    double t_step;
    double t_c;
    std::optional<double> t_x;
  };
  Latest<Step> steps_;
};

}  // namespace leat::feeder
