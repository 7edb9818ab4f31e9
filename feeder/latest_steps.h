// The latest sampled steps: what quantiles are taken of.
#pragma once

#include <cstddef>
#include <vector>

#include "leat/feeder/stats.h"

namespace leat::feeder {

/// A ring of the latest kLatestSteps steps, allocated once. Not thread-safe.
class LatestSteps {
 public:
  LatestSteps() { steps_.reserve(kLatestSteps); }

  /// A step took `t_step`, and max(Tc, Tx) of it was `longest`. In seconds.
  void add(double t_step, double longest) noexcept;
  void clear() noexcept;
  /// Puts both quantiles into `stats`; leaves them where there is no step.
  void add_to(Stats& stats) const;

 private:
  struct Step {
    double t_step;
    double bubble;
  };
  std::vector<Step> steps_;
  std::size_t next_ = 0;  // to be overwritten, once the ring is full
};

}  // namespace leat::feeder
