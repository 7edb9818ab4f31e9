// The latest sampled steps, from which quantiles are computed.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "leat/feeder/stats.h"

namespace leat::feeder {

/// A ring of the latest kLatestSteps steps, allocated once. Not thread-safe.
class LatestSteps {
 public:
  LatestSteps() { steps_.reserve(kLatestSteps); }

  /// Adds a step, in seconds: the step took `t_step`, its work `t_c`, and its copy `t_x`. `t_x` is
  /// empty if the copy was not timed.
  void add(double t_step, double t_c, std::optional<double> t_x) noexcept;
  void clear() noexcept;
  /// Writes the quantiles of the step and of the bubble into `stats`. If a step's copy was not
  /// timed, its bubble uses the mean Tx of `stats`, if there is one. No effect without steps.
  void add_to(Stats& stats) const;

 private:
  struct Step {
    double t_step;
    double t_c;
    std::optional<double> t_x;
  };
  std::vector<Step> steps_;
  std::size_t next_ = 0;  // overwritten next, once the ring is full
};

}  // namespace leat::feeder
