#include "leat/feeder/stats/latest_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace leat::feeder {

void LatestSteps::add_to(Stats& stats) const {
  const std::vector<Step>& steps = steps_.values();
  if (steps.empty()) return;
  std::vector<double> values(steps.size());
  std::ranges::transform(steps, values.begin(), &Step::t_step);
  stats.step = quantiles_of(values);
  if (!stats.is_measured()) return;
  std::ranges::transform(steps, values.begin(), [&](const Step& step) {
    return std::max(step.t_step - std::max(step.t_c, step.t_x.value_or(stats.t_x)), 0.0);
  });
  stats.bubble = quantiles_of(std::move(values));
}

}  // namespace leat::feeder
