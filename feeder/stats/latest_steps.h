// The latest sampled steps, from which quantiles are computed.
#pragma once

#include <optional>

#include "leat/feeder/stats.h"
#include "leat/feeder/stats/latest.h"

namespace leat::feeder {

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
