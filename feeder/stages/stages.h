// The stages of a prefetcher: each is the body of a fiber, and they meet only in channels.
//
//                       ┌─filled─► copier ─ready─► consumer      one of these for each device
//   sampler ─work─► readers          │ ▲              │
//      ▲                     in_flight └─ free_device ┘
//      └── free_pinned ◄── recycler ◄┘
//
// A rank's slots are handed out in the order of its batches. The batch that is due next therefore
// always has a slot, and the copier, which restores the order, never waits for a batch without one.
// The end of an epoch travels in a slot too, so everything is bounded by the number of slots. A
// stage that ends, ends all stages and closes every `ready` with the cause: no consumer hangs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/batch_source.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/plan/requests.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/failures.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/stages/autotuner.h"
#include "leat/feeder/stages/batch_sampler.h"
#include "leat/feeder/stages/copier.h"
#include "leat/feeder/stages/reading.h"
#include "leat/feeder/stages/source_reader.h"

namespace leat::feeder {

/// Stack size of a prefetcher's fibers. Datasets decode on a reader's stack, and the driver's calls
/// run on the others. Pages that are never touched take no memory.
inline constexpr std::size_t kStackSize = std::size_t{512} << 10;

/// The sampler, the readers, and each device's copier and recycler: the fibers that fill slots.
class Stages {
 public:
  /// Keeps references to the dataset, the plan and the log. One ring for each local rank. `active`
  /// is where autotune starts.
  Stages(const Dataset& dataset, const PrefetcherOptions& options, const BatchPlan& plan,
         const ReleaseLog& log, std::vector<std::shared_ptr<SlotRing>> rings, const Active& active,
         const std::vector<std::uint64_t>& resumed);

  /// Launches all stages into `group`, which must be joined before *this is destroyed.
  void launch(TaskGroup& group);
  /// Ends the batches of all ranks: consumers get what is staged, then `cause`. A later call keeps
  /// the first cause, since later failures follow from it. Thread-safe.
  void finish(const std::exception_ptr& cause) noexcept;
  /// Adds the figures that are common to all ranks: failed samples, copies past the CPU's
  /// caches, autotune's decisions. Thread-safe.
  void add_to(Stats& stats) const;
  /// Returns a line for each of `fibers`, which are stages: its name, what it waits for, and since
  /// when; for a reader that reads, which batch. Thread-safe.
  [[nodiscard]] std::string text_of(const std::vector<FiberReport>& fibers) const;

  Requests requests;
  Failures failures;

 private:
  void sample();
  void read(std::size_t number);
  void fill(std::size_t fiber);
  [[nodiscard]] const Channel<PinnedSlot*>& work_of(std::size_t reader) const noexcept {
    return work_[reader % work_.size()];
  }
  [[nodiscard]] std::size_t readers() const noexcept;
  [[nodiscard]] std::size_t fibers() const noexcept;
  [[nodiscard]] std::size_t ring_bytes() const noexcept;
  void copy(SlotRing& ring);
  void recycle(SlotRing& ring);

  void hand_out(PinnedSlot& slot);
  void free(PinnedSlot& slot);

  const bool is_virtual_;
  const Dataset& dataset_;
  const BatchSource* const source_;  // null: samples are read one by one
  const std::uint64_t first_pass_;   // BatchFill::pass() less the generation
  const PrefetcherOptions options_;
  const Sampler sampler_;
  const BatchPlan& plan_;
  const ReleaseLog& log_;
  BatchSampler batch_sampler_;  // for the sampler alone
  const std::vector<std::shared_ptr<SlotRing>> rings_;
  const Channel<PinnedSlot*> free_pinned_;
  // Slots that name the batch to read into them: of all readers, or, if the source is bound, of
  // each.
  const std::vector<Channel<PinnedSlot*>> work_;
  std::vector<Reading> readings_;         // by reader's fiber
  std::vector<Mutex> asking_;             // by reader of a source: who asks it next
  std::unique_ptr<Autotuner> autotuner_;  // null: no autotune
  std::atomic<std::uint64_t> past_cache_bytes_{0};
  std::stop_token stop_;
  std::mutex cause_mutex_;  // guards cause_
  std::exception_ptr cause_;
};

}  // namespace leat::feeder
