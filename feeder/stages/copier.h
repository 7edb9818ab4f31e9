// The copier of a device: restores the order of the filled slots, and enqueues their copies.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "leat/feeder/batch_source.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/feeder/stages/autotuner.h"
#include "leat/feeder/stages/source_reader.h"
#include "leat/feeder/state/release_log.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// For one fiber. Its working memory is allocated once. Keeps references.
class Copier {
 public:
  /// What the copiers of a prefetcher share.
  struct Shared {
    const PrefetcherOptions& options;
    const BatchPlan& plan;
    const ReleaseLog& log;
    const BatchSource* source;              // null: there is none
    bool shares_link;                       // with other devices
    Autotuner* autotuner;                   // null: no autotune
    std::function<void(PinnedSlot&)> free;  // gives a slot back that is not copied
  };
  Copier(const Shared& shared, SlotRing& ring);

  /// Copies until the stages end. Throws Cancelled, and the failure of a read.
  void run();

 private:
  void stage(PinnedSlot& from);
  void take(PinnedSlot& from, DeviceSlot& to);
  [[nodiscard]] std::size_t enqueue_copies(const PinnedSlot& from, DeviceSlot& to);
  void transform(const BatchId& batch, DeviceSlot& to);

  const Shared shared_;
  SlotRing& ring_;
  const std::size_t chunk_;  // the largest piece of a copy
  std::vector<gpu::CopyToDevice> copies_;
  std::optional<gpu::Stream> transforms_;  // set if there is a device transform
  std::optional<gpu::Event> copied_;       // the transforms' stream waits for it
  std::optional<BoundBatches> bound_;      // of a bound source
};

}  // namespace leat::feeder
