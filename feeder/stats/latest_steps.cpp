#include "leat/feeder/stats/latest_steps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace leat::feeder {
namespace {

// Returns a quantile by nearest rank: the smallest value such that at least a share `p` of the
// values does not exceed it.
double nth(std::vector<double>& values, double p) {
  const auto count = static_cast<double>(values.size());
  const auto at = static_cast<std::ptrdiff_t>(std::ceil(p * count)) - 1;
  const auto place = values.begin() + std::max<std::ptrdiff_t>(at, 0);
  std::ranges::nth_element(values, place);
  return *place;
}

Quantiles quantiles(std::vector<double>& values) {
  return {.p50 = nth(values, 0.50), .p99 = nth(values, 0.99)};
}

}  // namespace

void LatestSteps::add(double t_step, double t_c, std::optional<double> t_x) noexcept {
  const Step step{.t_step = t_step, .t_c = t_c, .t_x = t_x};
  if (steps_.size() < kLatestSteps) {
    steps_.push_back(step);  // memory was reserved
    return;
  }
  steps_[next_] = step;
  next_ = (next_ + 1) % kLatestSteps;
}

void LatestSteps::clear() noexcept {
  steps_.clear();
  next_ = 0;
}

void LatestSteps::add_to(Stats& stats) const {
  if (steps_.empty()) return;
  std::vector<double> values(steps_.size());
  std::ranges::transform(steps_, values.begin(), &Step::t_step);
  stats.step = quantiles(values);
  if (!stats.is_measured()) return;
  values.resize(steps_.size());
  std::ranges::transform(steps_, values.begin(), [&](const Step& step) {
    return std::max(step.t_step - std::max(step.t_c, step.t_x.value_or(stats.t_x)), 0.0);
  });
  stats.bubble = quantiles(values);
}

}  // namespace leat::feeder
