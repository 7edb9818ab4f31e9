#include "leat/feeder/batch_sampler.h"

#include <algorithm>

namespace leat::feeder {

BatchSampler::BatchSampler(const BatchPlan& plan, std::size_t first_rank, std::size_t ranks,
                           Sharing sharing, bool pads, const ReleaseLog& log)
    : plan_(plan),
      first_rank_(first_rank),
      is_shared_(sharing == Sharing::kDynamic),
      pads_(pads),
      log_(log),
      cursors_(is_shared_ ? 1 : ranks),
      epochs_(ranks, 0),
      given_(ranks, 0) {}

void BatchSampler::enter(Cursor& cursor, std::uint64_t epoch) const {
  cursor.epoch = epoch;
  cursor.index = 0;
  const bool is_rest = std::ranges::find(cursor.rests, epoch) != cursor.rests.end();
  cursor.released = is_rest ? log_.resumed(epoch) : nullptr;
}

void BatchSampler::start(std::size_t rank, const Request& request) {
  Cursor& cursor = cursors_[is_shared_ ? 0 : rank];
  cursor.generation = request.generation;
  cursor.rests = request.rests;
  enter(cursor, request.epoch);
  if (is_shared_) std::ranges::fill(epochs_, request.epoch);
}

bool BatchSampler::skip_to_batch(Cursor& cursor) const {
  const EpochPlan left(plan_, cursor.released);
  while (cursor.index < plan_.batches() && !left.has(cursor.index)) ++cursor.index;
  return cursor.index < plan_.batches();
}

void BatchSampler::next(PinnedSlot& slot) {
  Cursor& cursor = cursors_[is_shared_ ? 0 : slot.rank];
  slot.sequence = given_[slot.rank]++;
  slot.generation = cursor.generation;
  slot.error = nullptr;
  bool has_batch = skip_to_batch(cursor);
  if (is_shared_) {
    if (!has_batch) enter(cursor, cursor.epoch + 1);
    has_batch = epochs_[slot.rank] == cursor.epoch;
    epochs_[slot.rank] += has_batch ? 0 : 1;
  } else if (!has_batch) {
    enter(cursor, cursor.epoch + 1);
  }
  slot.ends_epoch = !has_batch;
  if (has_batch) {
    name_batch(cursor, slot);
    ++cursor.index;
  }
}

void BatchSampler::name_batch(const Cursor& cursor, PinnedSlot& slot) const {
  const std::size_t rank = is_shared_ ? 0 : first_rank_ + slot.rank;
  const EpochPlan left(plan_, cursor.released);
  left.shard(cursor.index, rank, slot.positions);
  BatchId& batch = slot.batch;
  batch.epoch = cursor.epoch;
  batch.index = cursor.index;
  batch.samples = 0;
  for (const PositionRange& range : slot.positions) {
    batch.samples += static_cast<std::size_t>(range.count);
  }
  batch.rows = pads_ ? plan_.rows(rank) : batch.samples;
  batch.step_samples = left.count(cursor.index);
  batch.step_shards = plan_.shards(batch.step_samples);
}

}  // namespace leat::feeder
