// A reader of a batch source: has the source fill slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/feeder/batch_source.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/stages/reading.h"
#include "leat/feeder/state/release_log.h"

namespace leat::feeder {

/// Returns whether `source`, if there is one, is bound (BatchSource::is_bound).
[[nodiscard]] bool is_bound(const BatchSource* source) noexcept;

/// Returns for how many batches a reader of `source`, or of a dataset if there is none, is asked at
/// a time.
[[nodiscard]] std::size_t requests_of(const BatchSource* source) noexcept;

/// Returns the channels of slots to fill: one for all readers, or, if the source is bound, one for
/// each.
[[nodiscard]] std::vector<Channel<PinnedSlot*>> channels_of_work(const BatchSource* source,
                                                                 std::size_t readers,
                                                                 std::int64_t slots);

/// For one fiber. Keeps references.
class SourceReader {
 public:
  /// What the readers of a prefetcher share.
  struct Shared {
    const BatchSource& source;
    const PrefetcherOptions& options;
    const Sampler& sampler;
    std::uint64_t first_pass;  // BatchFill::pass() less the generation
    bool is_virtual;           // the time
  };
  SourceReader(const Shared& shared, Reading& reading, std::size_t number)
      : shared_(shared), reading_(reading), number_(number) {}

  /// Returns the first of 2^32 passes that no other prefetcher of this process has.
  [[nodiscard]] static std::uint64_t new_passes() noexcept;

  /// Has the batch that `slot` names filled, and writes its record. Unlocks `asking`, the reader's,
  /// once the reader may be asked for another batch. Returns whether it was filled.
  /// A failure becomes the slot's: of this batch alone, or of the feed. Throws Cancelled, and what
  /// is no leat::Error.
  [[nodiscard]] bool fill(PinnedSlot& slot, SlotRing& ring, std::unique_lock<Mutex>& asking);

 private:
  void list_samples(const PinnedSlot& slot);

  const Shared shared_;
  Reading& reading_;
  const std::size_t number_;
  std::vector<std::uint64_t> samples_;
};

/// Numbers the batches that the readers of a bound source have made, in the order of delivery. For
/// one fiber.
class BoundBatches {
 public:
  /// Keeps references.
  BoundBatches(const BatchPlan& plan, const ReleaseLog& log) noexcept : plan_(plan), log_(log) {}
  /// Gives the batch in `slot` its number. Returns whether it was released before the resume. Has
  /// no effect on the end of an epoch.
  [[nodiscard]] bool is_released(PinnedSlot& slot);

 private:
  const BatchPlan& plan_;
  const ReleaseLog& log_;
  std::uint64_t next_ = 0;
  std::uint64_t generation_ = 0;
};

}  // namespace leat::feeder
