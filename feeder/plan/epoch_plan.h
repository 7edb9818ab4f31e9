// What is left of an epoch: all of it, or the rest after a resume.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/feeder/plan/batch_plan.h"

namespace leat::feeder {

struct EpochReleases;

/// The batches of one epoch without the positions that an earlier run has released. A value, cheap
/// to make. Keeps pointers to the plan and the releases. Thread-safe.
class EpochPlan {
 public:
  /// `released` is what an earlier run has released of the epoch; null: nothing.
  EpochPlan(const BatchPlan& plan, const EpochReleases* released) noexcept
      : plan_(&plan), released_(released) {}

  /// Whether something is left of the batch.
  [[nodiscard]] bool has(std::uint64_t batch) const noexcept;
  /// How many of the batch's positions are left, over all ranks.
  [[nodiscard]] std::uint64_t count(std::uint64_t batch) const;
  /// Puts into `out` the rank's shard of the positions that are left of the batch.
  void shard(std::uint64_t batch, std::size_t rank, std::vector<PositionRange>& out) const;

 private:
  [[nodiscard]] std::vector<PositionRange> left(std::uint64_t batch) const;

  const BatchPlan* plan_;
  const EpochReleases* released_;
};

}  // namespace leat::feeder
