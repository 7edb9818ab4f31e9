#include "leat/feeder/plan/batch_plan.h"

#include <algorithm>

#include "leat/feeder/plan/batch_id.h"

namespace leat::feeder {

const char* to_string(LastBatch last) noexcept {
  switch (last) {
    case LastBatch::kPartial: return "partial";
    case LastBatch::kDrop: return "drop";
    case LastBatch::kPad: return "pad";
    case LastBatch::kWrap: return "wrap";
  }
  return "?";
}

std::string name_of(const BatchId& batch) {
  return "batch " + std::to_string(batch.index) + " of epoch " + std::to_string(batch.epoch);
}

PositionRange balanced_slice(std::uint64_t total, std::size_t rank, std::size_t ranks) noexcept {
  const std::uint64_t each = total / ranks;
  const std::uint64_t longer = total % ranks;
  return {.first = rank * each + std::min<std::uint64_t>(rank, longer),
          .count = each + (rank < longer ? 1 : 0)};
}

void append_slice(std::span<const PositionRange> ranges, std::uint64_t first, std::uint64_t count,
                  std::vector<PositionRange>& out) {
  for (const PositionRange& range : ranges) {
    if (count == 0) return;
    if (first >= range.count) {
      first -= range.count;
      continue;
    }
    const std::uint64_t taken = std::min(range.count - first, count);
    out.push_back({.first = range.first + first, .count = taken});
    count -= taken;
    first = 0;
  }
}

BatchPlan::BatchPlan(std::uint64_t samples, std::size_t batch_size, std::size_t ranks,
                     LastBatch last) noexcept
    : samples_(samples), batch_size_(batch_size), ranks_(ranks), last_(last) {}

std::uint64_t BatchPlan::batches() const noexcept {
  const std::uint64_t whole = samples_ / batch_size_;
  return whole + (last_ != LastBatch::kDrop && samples_ % batch_size_ != 0 ? 1 : 0);
}

PositionRange BatchPlan::positions(std::uint64_t batch) const noexcept {
  const std::uint64_t first = batch * batch_size_;
  const std::uint64_t left = samples_ - first;
  return {.first = first,
          .count =
              last_ == LastBatch::kWrap ? batch_size_ : std::min<std::uint64_t>(batch_size_, left)};
}

std::uint64_t BatchPlan::end_of_positions() const noexcept {
  if (batches() == 0) return 0;
  const PositionRange last = positions(batches() - 1);
  const std::uint64_t most = ~std::uint64_t{0};
  return last.count > most - last.first ? most : last.first + last.count;
}

PositionRange BatchPlan::shard(std::uint64_t batch, std::size_t rank) const noexcept {
  const PositionRange whole = positions(batch);
  const PositionRange slice = balanced_slice(whole.count, rank, ranks_);
  return {.first = whole.first + slice.first, .count = slice.count};
}

std::size_t BatchPlan::rows(std::size_t rank) const noexcept {
  return static_cast<std::size_t>(balanced_slice(batch_size_, rank, ranks_).count);
}

std::size_t BatchPlan::shards(std::uint64_t samples_of_step) const noexcept {
  return static_cast<std::size_t>(std::min<std::uint64_t>(samples_of_step, ranks_));
}

}  // namespace leat::feeder
