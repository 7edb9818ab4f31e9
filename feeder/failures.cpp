#include "leat/feeder/failures.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace leat::feeder {

const char* to_string(FailingStage stage) noexcept {
  switch (stage) {
    case FailingStage::kRead: return "read";
    case FailingStage::kTransform: return "transform";
  }
  return "?";
}

bool Failures::set_aside(FailedSample failed, std::string& why_not) {
  const auto stage = static_cast<std::size_t>(failed.stage);
  const FailureBudget& budget = budgets_.at(stage);
  const std::scoped_lock lock(mutex_);
  const double share = budget.rate * static_cast<double>(attempts_.load(std::memory_order_relaxed));
  const double most = std::max(static_cast<double>(budget.count), share);
  std::uint64_t& count = counts_.at(stage);
  if (static_cast<double>(count + 1) <= most) {
    ++count;
    list_.push_back(std::move(failed));
    return true;
  }
  if (budget.count > 0 || budget.rate > 0) {
    std::array<char, 160> text{};
    std::snprintf(
        text.data(), text.size(),
        "; %llu samples failed before it, and %s_failures allows %llu or %g of those read",
        static_cast<unsigned long long>(count), to_string(failed.stage),
        static_cast<unsigned long long>(budget.count), budget.rate);
    why_not = text.data();
  }
  return false;
}

std::vector<FailedSample> Failures::list() const {
  const std::scoped_lock lock(mutex_);
  return list_;
}

}  // namespace leat::feeder
