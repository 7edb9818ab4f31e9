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

}  // namespace leat::feeder
