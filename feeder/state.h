// Where a run stands: which batches were trained on. A text that a checkpoint keeps.
//
// Example
//   save(checkpoint, feed.state());                             // after any step
//   ...
//   leat::feeder::Prefetcher feed(data, device, {.batch_size = 64, .resume = load(checkpoint)});
//   for (std::uint64_t epoch = leat::feeder::State::parse(text).next_epoch(); ...)
//     for (auto& batch : feed.epoch(epoch, stream)) ...         // the rest of the first one
//
// A batch counts once its lease is released; not while it is leased, nor if the lease was abandoned
// or destroyed by an exception that unwound the loop. A state says nothing of workers, slots or
// devices: with the same dataset, global batch, order and seed the run goes on with exactly the
// batches that are missing, on any number of them. `break` releases the batch in use, as the body's
// end does: one that was not trained on is to be abandoned before. And a state is of one run: an
// epoch that is asked for again is begun anew, and those behind it are not told as done. A loop
// that evaluates has a prefetcher of its own.
//
// The text, one line of some 130 bytes, is for ever:
//   leat-state/1 samples=60000 batch_size=64 seed=1 order=shuffled last_batch=partial
//   ranks=0-0/1 epoch=3 batches=0-11,13 positions=- sum=1b2c3d4e
// epoch, batches and positions are repeated for each epoch that is under way, in ascending order;
// epoch=3-7 is several of which the same is told.
// batches are those released by all ranks that the state is of; positions (of the epoch) are those
// released of other batches, by some of the ranks; sum is the FNV-1a of all before " sum". Each is
// a set, whose text has three forms, of which the shortest is taken:
//   0-11,13           numbers, the last one included; -: none
//   40+2:b8           bits, in hexadecimal, highest first, of units of 2 from 40: 40-41,44-49
//   0,2/4@7-99;8@100  positions by batches: of each of 7 to 99, the first and the third of 4
//                     balanced shards (batch_plan.h); of 100, the ninth position
// Packed (feeder/plan/packing.h), elements=1234567 follows samples, and
// carry=element:position+offset a positions. Of some of the ranks, after a resume in the midst of
// batches, before=... follows positions.
//
// How long it gets. Of leases given back in any order, by at most a byte for each four batches
// between the first that is missing and the last that was released: 256 leases at once, 70 bytes.
// Of the P ranks of a world that each release in order but are not in step: at most P parts, of
// some 20 bytes and one for each four ranks, over all epochs that some of them have not finished,
// and some 60 bytes for each of these (those in which the same ranks have all or nothing are told
// at once): of 8 ranks 300 bytes, 400 over three epochs; of 64 ranks at worst 2.5 kB. Ranks that
// were out of step in several worlds, one after the other, add their parts. What has no such end:
// each batch that was abandoned takes some 12 bytes until its epoch is over; and where more than
// 2^24 runs of ranks would be told in parts (of 64 ranks in no order at all, in 500,000 batches),
// each is told by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/state/intervals.h"

namespace leat::feeder {

/// Epochs are 0 to this.
constexpr std::uint64_t kLastEpoch = ~std::uint64_t{0} - 1;

/// What was released of one epoch.
struct EpochReleases {
  std::uint64_t epoch = 0;
  IntervalSet batches;    // by all ranks that the state is of
  IntervalSet positions;  // of other batches, by some of these ranks; packed: elements
  // Of a part of the world, which is to be merged: what of `positions`, and of the batches since,
  // had been released before. Ranks share out what that leaves.
  IntervalSet before = {};
  std::optional<Carry> carry = std::nullopt;  // packed: a place before what is left
  friend bool operator==(const EpochReleases&, const EpochReleases&) = default;
};

/// A prefetcher's state, taken apart. A value.
struct State {
  std::uint64_t samples = 0;   // of the dataset
  std::uint64_t elements = 0;  // of all of them, where they are packed; else 0
  std::size_t batch_size = 0;
  std::uint64_t seed = 0;
  Order order = Order::kShuffled;
  LastBatch last_batch = LastBatch::kPartial;
  std::size_t rank = 0;  // the first one that it is of
  std::size_t ranks = 1;
  std::size_t world_size = 1;
  std::vector<EpochReleases> epochs;  // under way, ascending

  /// Throws leat::Error, saying what is wrong where, for a text that is no whole state.
  [[nodiscard]] static State parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  /// How its samples are cut into batches and shards.
  [[nodiscard]] BatchPlan plan() const;
  /// The epoch to go on with: the first that is under way, 0 if none is. It may have no batch left.
  [[nodiscard]] std::uint64_t next_epoch() const noexcept {
    return epochs.empty() ? 0 : epochs.front().epoch;
  }

  /// One state of those of all ranks, for ranks that need not be in step when they are stopped. (Of
  /// ranks that train in step, with batches in order, any single one's state will do: what it has
  /// released, all have.)
  /// Throws std::invalid_argument where they are not of one run, a rank is missing or there twice,
  /// or ranks are more than 10,000 epochs, or 2^26 shards, apart.
  [[nodiscard]] static State merge(std::span<const State> states);

  friend bool operator==(const State&, const State&) = default;
};

/// What is left of an epoch: all of it, or the rest after a resume. Keeps references.
class EpochPlan {
 public:
  /// `released` may be null: nothing was.
  EpochPlan(const BatchPlan& plan, const EpochReleases* released) noexcept
      : plan_(&plan), released_(released) {}

  /// Whether there is something left of the batch.
  [[nodiscard]] bool has(std::uint64_t batch) const noexcept {
    return released_ == nullptr || !released_->batches.contains(batch);
  }
  /// Positions that are left of it, over all ranks.
  [[nodiscard]] std::uint64_t count(std::uint64_t batch) const;
  /// Puts the positions of a rank's shard of what is left of it into `out`.
  void shard(std::uint64_t batch, std::size_t rank, std::vector<PositionRange>& out) const;

 private:
  [[nodiscard]] std::vector<PositionRange> left(std::uint64_t batch) const;

  const BatchPlan* plan_;
  const EpochReleases* released_;
};

}  // namespace leat::feeder
