// What the stages, the consumer and the leases share: the slots and the channels they circulate in.
//
// Held by shared_ptr by the Prefetcher and by each Lease, so that a lease may outlive the
// Prefetcher. No slot owns the ring: there is no cycle.
//
// Always true: a pinned slot is in one of the channels of pinned slots, or with one stage; a device
// slot is in free_device, with the copier, in ready, or with one lease. free_pinned, free_device,
// work and in_flight have room for every slot, so giving one back never waits; filled and ready
// carry ends of epochs too, and may hold up the stage before them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/feeder/layout.h"
#include "leat/feeder/slots.h"
#include "leat/feeder/step_timing.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// An epoch that the consumer wants from its beginning. Later requests have larger generations;
/// what was staged for an earlier one is thrown away.
struct Request {
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
};

/// From the readers to the copier, in any order: a filled slot, or (null) the end of an epoch.
struct Filled {
  PinnedSlot* slot = nullptr;
  std::uint64_t sequence = 0;
  std::uint64_t generation = 0;
};

/// From the copier to the consumer, in order: a staged batch, or (null) the end of an epoch.
struct Delivery {
  DeviceSlot* slot = nullptr;
  std::uint64_t generation = 0;
};

class SlotRing {
 public:
  SlotRing(const gpu::Device& device, BatchLayout layout, std::size_t pinned_slots,
           std::size_t device_slots, std::size_t workers, std::size_t prefetch_depth,
           std::size_t sample_every);
  ~SlotRing();
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  /// The slot's batch will not be used by anybody (any more): back to the copier. From any thread;
  /// does not wait.
  void give_back(DeviceSlot& slot, DeviceState from) noexcept;
  /// Nothing more will come: receivers of `ready` get what is staged, then `cause`.
  void finish(std::exception_ptr cause) noexcept { ready.try_close(std::move(cause)); }

  const gpu::Device device;
  const BatchLayout layout;
  const gpu::Stream copy_stream;
  StatsCollector stats;

  Channel<Request> requests;  // capacity 1: the latest
  Channel<PinnedSlot*> free_pinned;
  Channel<PinnedSlot*> work;  // slots that name the batch to fill them with
  Channel<Filled> filled;
  Channel<PinnedSlot*> in_flight;  // copies from them are enqueued, oldest first
  Channel<DeviceSlot*> free_device;
  Channel<Delivery> ready;

  std::atomic<std::size_t> outstanding{0};  // leases

 private:
  std::vector<std::unique_ptr<PinnedSlot>> pinned_;
  std::vector<std::unique_ptr<DeviceSlot>> device_slots_;
};

}  // namespace leat::feeder
