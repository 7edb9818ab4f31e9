// Counts the samples that failed against the budget for failures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/failures.h"
#include "leat/feeder/prefetcher_options.h"

namespace leat::feeder {

/// A failed sample of a batch that has not been handed out yet.
struct Failure {
  FailedSample sample;
  std::size_t attempted = 0;  // samples of the batch read so far, this one included
  std::exception_ptr cause;
};

/// Counts failures against their budgets when their batches are handed out. So whether a run
/// continues does not depend on how far ahead the readers are. Thread-safe.
class Failures {
 public:
  /// `dataset` is its name, for messages. An epoch has `samples` for this prefetcher.
  Failures(std::string dataset, std::uint64_t samples, const FailureBudget& read,
           const FailureBudget& transform)
      : dataset_(std::move(dataset)), samples_(samples), budgets_{read, transform} {}

  /// Returns whether failures of that stage have a budget.
  [[nodiscard]] bool has_budget(FailingStage stage) const noexcept;
  /// Called when a batch is handed out: `attempted` samples were read, `failures` of them failed.
  /// Moves the failures to the list and clears the vector. Throws as fail() for the first failure
  /// beyond its budget.
  void charge(std::size_t attempted, std::vector<Failure>& failures);
  /// Throws SampleError, with `why_not` in its text. The cause is nested in it.
  [[noreturn]] void fail(const Failure& failure, const std::string& why_not = {}) const;
  /// Returns the first kMostListed failures, in the order in which their batches were handed out.
  [[nodiscard]] std::vector<FailedSample> list() const;
  /// Returns how many failures were charged in all.
  [[nodiscard]] std::uint64_t count() const;

 private:
  const std::string dataset_;
  const std::uint64_t samples_;
  const std::array<FailureBudget, 2> budgets_;
  mutable std::mutex mutex_;
  std::uint64_t attempts_ = 0;
  std::array<std::uint64_t, 2> counts_{};
  std::vector<FailedSample> list_;
};

}  // namespace leat::feeder
