// The latest sampled steps: what quantiles are taken of.
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

  /// A step took `t_step`, its work `t_c`, and its copy `t_x`, if that was timed. In seconds.
  void add(double t_step, double t_c, std::optional<double> t_x) noexcept;
  void clear() noexcept;
  /// Puts both quantiles into `stats`: that of the bubble with the mean Tx there for steps whose
  /// copy was not timed, if it is measured. Leaves them where there is no step.
  void add_to(Stats& stats) const;

 private:
  struct Step {
    double t_step;
    double t_c;
    std::optional<double> t_x;
  };
  std::vector<Step> steps_;
  std::size_t next_ = 0;  // to be overwritten, once the ring is full
};

}  // namespace leat::feeder
