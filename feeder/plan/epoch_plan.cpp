#include "leat/feeder/plan/epoch_plan.h"

#include "leat/feeder/state.h"
#include "leat/feeder/state/intervals.h"

namespace leat::feeder {

bool EpochPlan::has(std::uint64_t batch) const noexcept {
  return released_ == nullptr || !released_->batches.contains(batch);
}

std::vector<PositionRange> EpochPlan::left(std::uint64_t batch) const {
  const PositionRange all = plan_->positions(batch);
  IntervalSet whole;
  whole.add({.first = all.first, .end = all.first + all.count});
  std::vector<PositionRange> left;
  const IntervalSet rest = difference(whole, released_->positions);
  for (const Interval& one : rest.intervals()) {
    left.push_back({.first = one.first, .count = one.end - one.first});
  }
  return left;
}

std::uint64_t EpochPlan::count(std::uint64_t batch) const {
  if (released_ == nullptr || released_->positions.empty()) return plan_->positions(batch).count;
  std::uint64_t sum = 0;
  for (const PositionRange& range : left(batch)) sum += range.count;
  return sum;
}

void EpochPlan::shard(std::uint64_t batch, std::size_t rank,
                      std::vector<PositionRange>& out) const {
  out.clear();
  if (released_ == nullptr || released_->positions.empty()) {
    const PositionRange shard = plan_->shard(batch, rank);
    if (shard.count > 0) out.push_back(shard);
    return;
  }
  const PositionRange slice = balanced_slice(count(batch), rank, plan_->ranks());
  append_slice(left(batch), slice.first, slice.count, out);
}

}  // namespace leat::feeder
