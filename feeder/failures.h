// Samples that could not be had, and how many of them are bearable.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "leat/feeder/prefetcher_options.h"

namespace leat::feeder {

/// Where a sample may fail.
enum class FailingStage : std::uint8_t {
  kRead,       // Dataset::read
  kTransform,  // a host transform (feeder/map.h)
};
/// "read", "transform".
[[nodiscard]] const char* to_string(FailingStage stage) noexcept;

/// A sample that was left out because it failed, within the budget.
struct FailedSample {
  FailingStage stage = FailingStage::kRead;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;   // that lacks it
  std::uint64_t sample = 0;  // its number in the dataset
  std::string error;
};

/// Counts failures against their budgets. Thread-safe.
class Failures {
 public:
  Failures(const FailureBudget& read, const FailureBudget& transform) : budgets_{read, transform} {}

  /// A sample was read, or failed.
  void attempted() noexcept { attempts_.fetch_add(1, std::memory_order_relaxed); }
  /// Whether the failure is within its stage's budget: then the sample is on the list. If not,
  /// `why_not` says how large the budget is.
  [[nodiscard]] bool set_aside(FailedSample failed, std::string& why_not);
  /// The list, in the order in which they failed.
  [[nodiscard]] std::vector<FailedSample> list() const;

 private:
  const std::array<FailureBudget, 2> budgets_;
  std::atomic<std::uint64_t> attempts_{0};
  mutable std::mutex mutex_;
  std::array<std::uint64_t, 2> counts_{};
  std::vector<FailedSample> list_;
};

}  // namespace leat::feeder
