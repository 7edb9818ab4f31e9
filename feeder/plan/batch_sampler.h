// Which batch a free slot is filled with: bookkeeping alone, without channels or slot memory.
//
// Each rank has a stream of batches, epoch after epoch, until a consumer asks for another epoch. A
// rank without a free slot does not delay the others. Among ranks with a free slot, the rank that
// was given the fewest batches goes first, so that all advance together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/plan/requests.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/state/release_log.h"

namespace leat::feeder {

/// Used by the sampler alone.
class BatchSampler {
 public:
  /// For the local ranks 0 .. ranks-1, of which the first is options.rank of the plan's. Shared
  /// dynamically, the plan is of one rank. Keeps references, not to the options.
  BatchSampler(const BatchPlan& plan, const PrefetcherOptions& options, std::size_t ranks,
               const ReleaseLog& log, const Dataset& dataset, const Sampler& sampler);

  /// The rank (of ranks that share: any) is to get that epoch.
  void start(std::size_t rank, const Request& request);
  /// Whether anything was asked for.
  [[nodiscard]] bool has_started(std::size_t rank) const noexcept {
    return cursor(rank).generation != 0;
  }
  /// How much `rank` was given so far.
  [[nodiscard]] std::uint64_t given(std::size_t rank) const noexcept { return given_[rank]; }
  /// Names in `slot` the batch that its rank, which has started, gets next, or that an epoch ends.
  /// Throws leat::Error for a packed batch of too many samples, and what the dataset throws when it
  /// is asked for a sample's length; the slot then has its place in the rank's stream all the same.
  void next(PinnedSlot& slot);

 private:
  struct Cursor {
    std::uint64_t generation = 0;
    std::uint64_t epoch = 0;
    std::uint64_t index = 0;  // of the next batch, unless the epoch has no more
    std::vector<std::uint64_t> rests;
    std::optional<std::uint64_t> jump;  // the epoch that follows this one, if it is not the next
    const EpochReleases* released = nullptr;  // of this epoch, in an earlier run
    std::optional<PackWalk> walk;             // packed
  };
  [[nodiscard]] const Cursor& cursor(std::size_t rank) const noexcept {
    return cursors_[is_shared_ ? 0 : rank];
  }
  void enter(Cursor& cursor, std::uint64_t epoch) const;
  void start_shared(const Request& request);
  [[nodiscard]] bool skip_to_batch(Cursor& cursor) const;
  void name_batch(Cursor& cursor, PinnedSlot& slot) const;
  void name_pieces(Cursor& cursor, PinnedSlot& slot) const;

  const BatchPlan& plan_;
  const std::size_t first_rank_;
  const bool is_shared_;
  const bool pads_;
  const std::size_t most_pieces_;
  const ReleaseLog& log_;
  std::vector<Cursor> cursors_;
  std::vector<std::uint64_t> epochs_;  // that each rank was last told of, where they share a cursor
  std::vector<std::uint64_t> given_;
};

}  // namespace leat::feeder
