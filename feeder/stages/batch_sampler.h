// Which batch a free slot is filled with. Bookkeeping only: no channels, no slot memory.
//
// Each rank has a stream of batches, epoch after epoch, until a consumer asks for another epoch. A
// rank without a free slot does not delay the others. Among ranks with a free slot, the rank with
// the fewest batches so far goes first, so that all advance together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "leat/feeder/batch_source.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/plan/requests.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/state/release_log.h"

namespace leat::feeder {

/// For the sampler's fiber alone.
class BatchSampler {
 public:
  /// For the local ranks 0 .. ranks-1. Local rank 0 is rank options.rank of the plan. With dynamic
  /// sharing the plan has one rank. Keeps references to all arguments but `options`.
  BatchSampler(const BatchPlan& plan, const PrefetcherOptions& options, std::size_t ranks,
               const ReleaseLog& log, const Dataset& dataset, const Sampler& sampler,
               Requests& requests, std::uint64_t first_pass);

  /// Starts the requested epoch for `rank` (with dynamic sharing: for all ranks).
  void start(std::size_t rank, const Request& request);
  /// Returns whether next() has anything for `rank`: the rank has requested an epoch, and has not
  /// reached the end of the last one that may be read.
  [[nodiscard]] bool has_next(std::size_t rank) const {
    const Cursor& at = cursor(rank);
    if (at.generation == 0 || (at.epoch > at.last && !is_behind(rank))) return false;
    return !is_drawn_ || requests_.has_draw(at.generation);
  }
  /// Returns how many slots `rank` was given so far.
  [[nodiscard]] std::uint64_t given(std::size_t rank) const noexcept { return given_[rank]; }
  /// Writes into `slot` the next batch of the slot's rank, or the end of an epoch. Needs
  /// has_next(). Throws leat::Error for a packed batch of too many samples, and the exceptions of
  /// Dataset::length(). After an exception the slot still has its place in the rank's stream.
  void next(PinnedSlot& slot);

 private:
  struct Cursor {
    std::uint64_t generation = 0;
    std::uint64_t epoch = 0;
    std::uint64_t index = 0;  // the next batch's; the number of batches: no more
    std::uint64_t last = 0;   // the last epoch that may be read
    std::uint64_t ended = 0;  // the epoch that ended before `epoch`
    std::vector<std::uint64_t> rests;
    std::optional<std::uint64_t> jump;  // the epoch that follows this one, if it is not the next
    const EpochReleases* released = nullptr;  // of `epoch`, by an earlier run
    std::optional<PackWalk> walk;             // set if samples are packed
    std::uint64_t first = 0;                  // rows drawn before, in the epoch
    std::size_t reader = 0;                   // a bound source: whose turn it is
  };
  [[nodiscard]] const Cursor& cursor(std::size_t rank) const noexcept {
    return cursors_[is_shared_ ? 0 : rank];
  }
  // Returns whether another rank's turn has ended the rank's epoch (dynamic sharing).
  [[nodiscard]] bool is_behind(std::size_t rank) const noexcept {
    return is_shared_ && epochs_[rank] != cursor(rank).epoch;
  }
  void enter(Cursor& cursor, std::uint64_t epoch) const;
  void start_shared(const Request& request);
  [[nodiscard]] bool skip_to_batch(Cursor& cursor) const;
  [[nodiscard]] bool take_draw(Cursor& cursor, PinnedSlot& slot) const;
  [[nodiscard]] bool take_turn(Cursor& cursor, PinnedSlot& slot) const;
  void name_batch(Cursor& cursor, PinnedSlot& slot) const;
  void name_pieces(Cursor& cursor, PinnedSlot& slot) const;

  const BatchPlan& plan_;
  const std::size_t first_rank_;
  const bool is_shared_;
  const bool pads_;
  const std::size_t most_pieces_;
  const ReleaseLog& log_;
  Requests& requests_;
  const BatchSource* const bound_;  // null: there is none
  const bool is_drawn_;             // by the caller
  const std::size_t readers_;
  const std::uint64_t first_pass_;
  std::vector<Cursor> cursors_;
  std::vector<std::uint64_t> epochs_;  // each rank's latest epoch (dynamic sharing)
  std::vector<std::uint64_t> given_;
};

}  // namespace leat::feeder
