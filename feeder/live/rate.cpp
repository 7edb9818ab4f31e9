#include "leat/feeder/live/rate.h"

#include <algorithm>
#include <chrono>

namespace leat::feeder {
namespace {

// Rates are of so long and so many steps, at least: of less they would flicker.
constexpr std::chrono::seconds kLeast{1};
constexpr std::uint64_t kLeastSteps = 4;

}  // namespace

void LiveRate::add(TimePoint at, std::uint64_t batches, std::uint64_t samples) {
  if (!releases_.empty()) {
    if (batches == releases_.back().batches) return;
    if (at < releases_.back().at) releases_.clear();
  }
  releases_.push_back({.at = at, .batches = batches, .samples = samples});
  while (releases_.size() > 2 && at - releases_[1].at >= kLeast &&
         batches - releases_[1].batches >= kLeastSteps) {
    releases_.pop_front();
  }
}

std::optional<LiveRate::Rates> LiveRate::rates(TimePoint now) const {
  if (releases_.size() < 2) return std::nullopt;
  const Release& first = releases_.front();
  const Release& last = releases_.back();
  const auto seconds = [](Duration length) {
    return std::chrono::duration<double>(length).count();
  };
  const double known = seconds(last.at - first.at);
  if (known <= 0) return std::nullopt;
  const auto steps = static_cast<double>(last.batches - first.batches);
  const double under_way = std::max(seconds(now - last.at), 0.0);
  const double batches = std::min(steps / known, (steps + 1) / (known + under_way));
  return Rates{.batches = batches,
               .samples = batches / steps * static_cast<double>(last.samples - first.samples)};
}

}  // namespace leat::feeder
