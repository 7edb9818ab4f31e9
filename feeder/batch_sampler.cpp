#include "leat/feeder/batch_sampler.h"

#include <algorithm>
#include <utility>

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
  if (is_shared_) return start_shared(request);
  Cursor& cursor = cursors_[rank];
  cursor.generation = request.generation;
  cursor.rests = request.rests;
  enter(cursor, request.epoch);
}

void BatchSampler::start_shared(const Request& request) {
  Cursor& cursor = cursors_[0];
  const bool is_first = cursor.generation == 0;
  cursor.generation = request.generation;
  cursor.rests = request.rests;
  if (is_first) {
    enter(cursor, request.epoch);
    std::ranges::fill(epochs_, request.epoch);
  } else if (cursor.epoch <= *request.after) {
    cursor.jump = request.epoch;  // once what others are in has been given out
  } else if (cursor.epoch < request.epoch) {
    enter(cursor, request.epoch);
  }
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
  const std::uint64_t ended = is_shared_ ? epochs_[slot.rank] : cursor.epoch;
  if (!has_batch) {
    enter(cursor,
          cursor.jump.has_value() ? *std::exchange(cursor.jump, std::nullopt) : cursor.epoch + 1);
  }
  if (is_shared_) {  // the epoch may have ended when another rank had its turn
    has_batch = has_batch && ended == cursor.epoch;
    epochs_[slot.rank] = cursor.epoch;
  }
  slot.ends_epoch = !has_batch;
  if (has_batch) {
    name_batch(cursor, slot);
    ++cursor.index;
  } else {
    slot.batch = {.epoch = ended};
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
