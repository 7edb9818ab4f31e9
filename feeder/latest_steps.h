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

  /// A step took `t_step`, and max(Tc, Tx) of it was `longest`, if that is known. In seconds.
  void add(double t_step, std::optional<double> longest) noexcept;
  void clear() noexcept;
  /// Puts both quantiles into `stats`; leaves one where there is no step to take it of.
  void add_to(Stats& stats) const;

 private:
  struct Step {
    double t_step;
    std::optional<double> bubble;
  };
  std::vector<Step> steps_;
  std::size_t next_ = 0;  // to be overwritten, once the ring is full
};

}  // namespace leat::feeder
