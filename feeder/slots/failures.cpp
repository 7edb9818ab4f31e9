#include "leat/feeder/slots/failures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace leat::feeder {
namespace {

// A rate allows at least as many failures as in a whole epoch, up to this number.
constexpr double kMostAtOnce = 100;

}  // namespace

const char* to_string(FailingStage stage) noexcept {
  switch (stage) {
    case FailingStage::kRead: return "read";
    case FailingStage::kTransform: return "transform";
  }
  return "?";
}

bool Failures::has_budget(FailingStage stage) const noexcept {
  const FailureBudget& budget = budgets_[static_cast<std::size_t>(stage)];
  return budget.count > 0 || budget.rate > 0;
}

void Failures::charge(std::size_t attempted, std::vector<Failure>& failures) {
  const std::scoped_lock lock(mutex_);
  for (Failure& one : failures) {
    const auto stage = static_cast<std::size_t>(one.sample.stage);
    const FailureBudget& budget = budgets_.at(stage);
    std::uint64_t& count = counts_.at(stage);
    const double so_far = budget.rate * static_cast<double>(attempts_ + one.attempted);
    const double at_once = std::min(budget.rate * static_cast<double>(samples_), kMostAtOnce);
    const double most = std::max({static_cast<double>(budget.count), so_far, at_once});
    if (static_cast<double>(count + 1) > most) {
      std::array<char, 200> text{};
      std::snprintf(text.data(), text.size(),
                    "; %llu samples failed before it, and %s_failures allows %.0f of the %llu "
                    "samples read (count %llu, rate %g)",
                    static_cast<unsigned long long>(count), to_string(one.sample.stage),
                    std::floor(most), static_cast<unsigned long long>(attempts_ + one.attempted),
                    static_cast<unsigned long long>(budget.count), budget.rate);
      fail(one, text.data());
    }
    ++count;
    if (list_.size() < kMostListed) list_.push_back(std::move(one.sample));
  }
  failures.clear();
  attempts_ += attempted;
}

void Failures::fail(const Failure& failure, const std::string& why_not) const {
  const FailedSample& sample = failure.sample;
  const SampleError error("leat: reader: sample " + std::to_string(sample.sample) +
                              " of dataset \"" + dataset_ + "\" (epoch " +
                              std::to_string(sample.epoch) + ", batch " +
                              std::to_string(sample.batch) + "): " + sample.error + why_not,
                          sample);
  try {
    std::rethrow_exception(failure.cause);
  } catch (...) {
    std::throw_with_nested(error);
  }
}

std::vector<FailedSample> Failures::list() const {
  const std::scoped_lock lock(mutex_);
  return list_;
}

std::uint64_t Failures::count() const {
  const std::scoped_lock lock(mutex_);
  return counts_[0] + counts_[1];
}

}  // namespace leat::feeder
