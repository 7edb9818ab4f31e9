#include "leat/feeder/stats/latest.h"

#include <algorithm>
#include <cmath>

namespace leat::feeder {
namespace {

double nth(std::vector<double>& values, double p) {
  const auto count = static_cast<double>(values.size());
  const auto at = static_cast<std::ptrdiff_t>(std::ceil(p * count)) - 1;
  const auto place = values.begin() + std::max<std::ptrdiff_t>(at, 0);
  std::ranges::nth_element(values, place);
  return *place;
}

}  // namespace

Quantiles quantiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  const double p50 = nth(values, 0.50);
  return {.p50 = p50, .p99 = nth(values, 0.99)};
}

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
