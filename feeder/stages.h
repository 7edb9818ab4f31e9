// The stages of a prefetcher: each is the body of a fiber, and they meet only in channels.
//
//   sampler ─work─► readers ─filled─► copier ─ready─► consumer
//      ▲                                │  │ ▲            │
//      │                        in_flight  │ └ free_device┘
//      └──── free_pinned ◄── recycler ◄─┘
//
// The sampler hands out slots in batch order, so the batch that is due next always has a slot and
// the copier, which restores the order, cannot wait for one that nobody will fill. Whatever ends a
// stage ends them all, and closes `ready` with the cause: the consumer never hangs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "leat/csp/task_group.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/sampler.h"
#include "leat/feeder/slot_ring.h"

namespace leat::feeder {

class Stages {
 public:
  /// Keeps a reference to the dataset.
  Stages(const Dataset& dataset, const PrefetcherOptions& options, std::shared_ptr<SlotRing> ring);

  /// Launches all stages into `group`, which must be joined before *this goes.
  void launch(TaskGroup& group);
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept { return batches_; }

 private:
  void sample();
  void read();
  void copy();
  void recycle();
  struct Reading {  // of one reader
    std::vector<std::span<std::byte>> rooms;
    std::vector<std::size_t> lengths;
    Scratch scratch;
  };
  void fill(PinnedSlot& slot, Reading& reading) const;
  void stage(PinnedSlot& from, std::shared_ptr<StepTiming>& pair);

  const Dataset& dataset_;
  const std::size_t batch_size_;
  const std::size_t workers_;
  const std::uint64_t seed_;
  const Sampler sampler_;
  const std::uint64_t batches_;
  const std::shared_ptr<SlotRing> ring_;
};

}  // namespace leat::feeder
