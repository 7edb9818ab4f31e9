// Where a run stands: which batches were trained on. One line of text that a checkpoint keeps.
//
// Example
//   save(checkpoint, feed.state());                             // after any step
//   ...
//   const std::string text = load(checkpoint);
//   leat::feeder::Prefetcher feed(data, device, {.batch_size = 64, .resume = text});
//   for (std::uint64_t epoch = leat::feeder::State::parse(text).next_epoch(); ...)
//     for (auto& batch : feed.epoch(epoch, stream)) ...         // the rest of the first one
//
// What counts. A batch counts as trained on once its lease is released. A batch does not count
// while it is leased, nor if its lease was abandoned or was unwound by an exception. `break`
// releases the batch in use, as the end of the loop's body does: if that batch was not trained on,
// abandon it before the `break`. If a lease gave a receipt (feeder/receipt.h), the batch counts
// once the receipt is committed, however the lease ends.
//
// Resuming. A state does not depend on workers, slots or devices. With the same dataset, global
// batch size, order and seed, a resumed run delivers exactly the batches that are missing, on any
// number of devices. A state is of one run: an epoch that the run asks for again begins anew, and
// the state then no longer lists the epochs after it as done. Give a loop that evaluates a
// prefetcher of its own.
//
// Format: JSON without spaces (here on several lines). State::parse() accepts only the text that
// State::text() writes. Two states are equal exactly when their texts are.
//   {"leat_state":2,"samples":60000,"batch_size":64,"seed":1,"order":"shuffled",
//    "last_batch":"partial","rank":0,"ranks":1,"world_size":1,
//    "epochs":[{"epoch":3,"batches":[[0,12],[13,14]],"positions":[]}],"sum":"1b2c3d4e"}
//
//   key         value
//   leat_state  the version of the format: 2
//   dataset     after samples, only where it is known: Dataset::digest()
//   elements    before batch_size, only where samples are packed: elements of all samples
//   rank        the first rank covered; the state covers `ranks` of `world_size` ranks
//   epochs      the epochs under way, ascending
//   batches     of an epoch: the batches that all these ranks have released
//   positions   of an epoch: the positions of other batches that some of these ranks have released
//   before      of an epoch, after positions, only in a state to be merged: the positions that had
//               been released before the latest resume
//   carry       of an epoch, packed (feeder/plan/packing.h): [element,position,offset]
//   sum         FNV-1a (32 bits) of all text before ,"sum"
// batches, positions and before are lists of half-open intervals [first,end]: `end` is excluded.
//
// The dataset is known by a digest of the names and sizes of its files, and of how it is composed
// (feeder/compose.h): a run does not resume on other files. It resumes if the files were moved to
// another folder. To resume after they were renamed, set State::dataset to 0:
//   State state = State::parse(text);
//   state.dataset = 0;
//   options.resume = state.text();
//
// Size: about 200 bytes, and more for intervals and epochs (20 bytes an interval, 50 an epoch):
//   each batch that is missing before a released one (held, or abandoned)            1 interval
//   each shard that some ranks have released before others (ranks out of step)       1 interval
//   each epoch that some ranks have ended and others have not                        1 epoch
// So 256 leases released in the worst order take 4 kB, and 64 ranks that are up to 8 batches apart
// take 5 kB. Nothing bounds ranks that run independently of each other: 100,000 batches apart,
// their state takes 2 MB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/order.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/state/intervals.h"

namespace leat::feeder {

/// The largest number of an epoch.
constexpr std::uint64_t kLastEpoch = ~std::uint64_t{0} - 1;

/// What was released of one epoch. A value.
struct EpochReleases {
  std::uint64_t epoch = 0;
  IntervalSet batches;    ///< released by every rank that the state covers
  IntervalSet positions;  ///< of other batches, released by some of these ranks; packed: elements
  /// In a state of some of the ranks, which is to be merged: the positions that had been released
  /// before the latest resume, of batches that were not complete then. The ranks divide what is
  /// left of such a batch among them.
  IntervalSet before = {};
  std::optional<Carry> carry = std::nullopt;  ///< packed: at or before the first sample left
  friend bool operator==(const EpochReleases&, const EpochReleases&) = default;
};

/// A prefetcher's state, as values. Const functions are thread-safe.
struct State {
  std::uint64_t samples = 0;   ///< in the dataset
  std::uint64_t dataset = 0;   ///< Dataset::digest(), or 0; 0 resumes on any dataset
  std::uint64_t elements = 0;  ///< in all samples, where samples are packed; else 0
  std::size_t batch_size = 0;  ///< of a global batch, over all ranks
  std::uint64_t seed = 0;
  Order order = Order::kShuffled;
  LastBatch last_batch = LastBatch::kPartial;
  std::size_t rank = 0;  ///< the first rank that the state covers
  std::size_t ranks = 1;
  std::size_t world_size = 1;
  std::vector<EpochReleases> epochs;  ///< under way, ascending

  /// Parses a text of text(); ignores trailing line ends. Throws leat::Error, with the byte or the
  /// JSON pointer, if the text is truncated, changed, of another version, or lists releases that no
  /// run can have made. Memory and time are proportional to the length of the text.
  [[nodiscard]] static State parse(std::string_view text);
  /// Returns the state as one line, without a line end. Equal states have equal texts.
  [[nodiscard]] std::string text() const;

  /// Returns how the samples are cut into batches and shards.
  [[nodiscard]] BatchPlan plan() const;
  /// Returns the epoch to continue: the first that is under way, else 0. After the last step of an
  /// epoch this is still that epoch, with no batch left: its loop ends at once.
  [[nodiscard]] std::uint64_t next_epoch() const noexcept {
    return epochs.empty() ? 0 : epochs.front().epoch;
  }

  /// Merges the states of all ranks into one, for ranks that need not be in step when they stop.
  /// (If ranks train in step and batches are in order, the state of any one rank will do: all ranks
  /// have released the same batches.) Throws std::invalid_argument if the states are not of one
  /// run, if a rank is missing or there twice, or if ranks are more than 10,000 epochs or 2^26
  /// shards apart.
  [[nodiscard]] static State merge(std::span<const State> states);

  friend bool operator==(const State&, const State&) = default;
};

}  // namespace leat::feeder
