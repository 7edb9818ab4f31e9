#include "leat/feeder/stages/batch_sampler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/stages/source_reader.h"
#include "leat/feeder/state.h"
#include "leat/feeder/state/epoch_plan.h"

namespace leat::feeder {
BatchSampler::BatchSampler(const BatchPlan& plan, const PrefetcherOptions& options,
                           std::size_t ranks, const ReleaseLog& log, const Dataset& dataset,
                           const Sampler& sampler, Requests& requests, std::uint64_t first_pass)
    : plan_(plan),
      first_rank_(options.rank),
      is_shared_(options.sharing == Sharing::kDynamic),
      pads_(options.last_batch == LastBatch::kPad),
      most_pieces_(options.packing.has_value() ? options.packing->most_samples : 0),
      log_(log),
      requests_(requests),
      bound_(is_bound(dataset.as_batch_source()) ? dataset.as_batch_source() : nullptr),
      is_drawn_(options.order == Order::kDrawn && bound_ == nullptr),
      readers_(options.workers),
      first_pass_(first_pass),
      cursors_(is_shared_ ? 1 : ranks),
      epochs_(ranks, 0),
      given_(ranks, 0) {
  if (!options.packing.has_value()) return;
  for (Cursor& cursor : cursors_) cursor.walk.emplace(dataset, sampler);
}

void BatchSampler::enter(Cursor& cursor, std::uint64_t epoch) const {
  cursor.epoch = epoch;
  cursor.index = 0;
  cursor.first = 0;
  cursor.reader = 0;
  const bool is_rest = std::ranges::find(cursor.rests, epoch) != cursor.rests.end();
  cursor.released = is_rest ? log_.resumed(epoch) : nullptr;
  if (!cursor.walk.has_value()) return;
  cursor.walk->enter(epoch, cursor.released == nullptr ? std::nullopt : cursor.released->carry);
}

void BatchSampler::start(std::size_t rank, const Request& request) {
  Cursor& cursor = cursors_[is_shared_ ? 0 : rank];
  cursor.last = request.last;
  if (is_shared_) return start_shared(request);
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
  } else if (request.after.has_value() && cursor.epoch <= *request.after) {
    cursor.jump = request.epoch;  // after the other ranks' current epoch
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
  const bool is_late = is_behind(slot.rank);
  slot.of_source.is_skipped = false;
  slot.of_source.is_rest = cursor.released != nullptr;
  slot.ends_epoch = is_late || !(is_drawn_           ? take_draw(cursor, slot)
                                 : bound_ != nullptr ? take_turn(cursor, slot)
                                                     : skip_to_batch(cursor));
  if (!slot.ends_epoch) {
    if (!slot.of_source.is_skipped) name_batch(cursor, slot);
    ++cursor.index;
    return;
  }
  if (!is_late) {
    cursor.ended = cursor.epoch;
    enter(cursor,
          cursor.jump.has_value() ? *std::exchange(cursor.jump, std::nullopt) : cursor.epoch + 1);
  }
  // The latest, of all that have ended for a rank that is late: no other end may follow.
  slot.batch = {.epoch = cursor.ended};
  epochs_[slot.rank] = cursor.epoch;
}

// Takes what the caller has drawn. A batch that was released before the resume is skipped. Returns
// false at the end of the epoch.
bool BatchSampler::take_draw(Cursor& cursor, PinnedSlot& slot) const {
  Draw draw = requests_.take_draw();
  if (draw.ends_epoch) return false;
  PinnedSlot::Sourced& own = slot.of_source;
  own.first = cursor.first;
  cursor.first += draw.keys.rows;
  own.is_skipped = !EpochPlan(plan_, cursor.released).has(cursor.index);
  own.keys = std::move(draw.keys);
  return true;
}

// The next reader that has more batches makes one. Returns false if none has.
bool BatchSampler::take_turn(Cursor& cursor, PinnedSlot& slot) const {
  for (std::size_t i = 0; i < readers_; ++i) {
    const std::size_t reader = std::exchange(cursor.reader, (cursor.reader + 1) % readers_);
    if (bound_->has_ended(reader, first_pass_ + cursor.generation)) continue;
    slot.reader = reader;
    return true;
  }
  return false;
}

void BatchSampler::name_batch(Cursor& cursor, PinnedSlot& slot) const {
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
  if (is_drawn_) batch.samples = batch.rows = slot.of_source.keys.rows;
  if (cursor.walk.has_value()) name_pieces(cursor, slot);
}

// Replaces the batch's positions and counts, which are in elements so far, by pieces of samples.
void BatchSampler::name_pieces(Cursor& cursor, PinnedSlot& slot) const {
  BatchId& batch = slot.batch;
  batch.elements = batch.samples;
  batch.element_rows = batch.rows;
  batch.carry = slot.positions.empty() ? Carry{} : cursor.walk->seek(slot.positions[0].first);
  slot.pieces.clear();
  for (const PositionRange& range : slot.positions) cursor.walk->take(range, slot.pieces);
  batch.samples = batch.rows = slot.pieces.size();
  if (most_pieces_ == 0 || batch.samples <= most_pieces_) return;
  throw Error("leat: batch " + std::to_string(batch.index) + " of epoch " +
              std::to_string(batch.epoch) + " packs " + std::to_string(batch.samples) +
              " samples, more than packing.most_samples, " + std::to_string(most_pieces_) +
              ": allow for more, or take a smaller batch_size");
}

}  // namespace leat::feeder
