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

/// A failed sample while its batch is on its way.
struct Failure {
  FailedSample sample;
  std::size_t attempted = 0;  // samples of the batch by then, this one among them
  std::exception_ptr cause;
};

/// Counts failures against their budgets when their batches are handed out: whether a run goes on
/// does not depend on how far the readers are ahead. Thread-safe.
class Failures {
 public:
  /// `dataset` is its name, for messages.
  Failures(std::string dataset, const FailureBudget& read, const FailureBudget& transform)
      : dataset_(std::move(dataset)), budgets_{read, transform} {}

  /// Whether there is a budget for failures of that stage at all.
  [[nodiscard]] bool has_budget(FailingStage stage) const noexcept;
  /// A batch of `attempted` samples is handed out, of which `failures` had failed. Moves them to
  /// the list and clears the vector. Throws as fail() for the first failure beyond its budget.
  void charge(std::size_t attempted, std::vector<Failure>& failures);
  /// Throws leat::Error with the sample and `why_not`, and with the cause nested in it.
  [[noreturn]] void fail(const Failure& failure, const std::string& why_not = {}) const;
  /// The first kMostListed of them, in the order in which their batches were handed out.
  [[nodiscard]] std::vector<FailedSample> list() const;
  /// How many failures were charged in all.
  [[nodiscard]] std::uint64_t count() const;

 private:
  const std::string dataset_;
  const std::array<FailureBudget, 2> budgets_;
  mutable std::mutex mutex_;
  std::uint64_t attempts_ = 0;
  std::array<std::uint64_t, 2> counts_{};
  std::vector<FailedSample> list_;
};

}  // namespace leat::feeder
