// The part of an epoch that is left after a resume.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/state.h"

namespace leat::feeder {

/// The batches and positions of an epoch that are left: all of them, or the rest after a resume.
/// Keeps references to its arguments. Const functions are thread-safe.
class EpochPlan {
 public:
  /// `released` is what was released before the resume; null: nothing.
  EpochPlan(const BatchPlan& plan, const EpochReleases* released) noexcept
      : plan_(&plan), released_(released) {}

  /// Returns whether all or part of the batch is left.
  [[nodiscard]] bool has(std::uint64_t batch) const noexcept {
    return released_ == nullptr || !released_->batches.contains(batch);
  }
  /// Returns how many positions of the batch are left, over all ranks.
  [[nodiscard]] std::uint64_t count(std::uint64_t batch) const;
  /// Replaces `out` by the positions of the rank's shard: its slice of the positions that are left.
  void shard(std::uint64_t batch, std::size_t rank, std::vector<PositionRange>& out) const;

 private:
  [[nodiscard]] std::vector<PositionRange> left(std::uint64_t batch) const;

  const BatchPlan* plan_;
  const EpochReleases* released_;
};

}  // namespace leat::feeder
