// What the stages, the consumer and the leases of one device share: the slots and the channels they
// circulate in.
//
// Held by shared_ptr by the Prefetcher and by each Lease, so that a lease may outlive the
// Prefetcher. No slot owns the ring: there is no cycle.
//
// Always true: a pinned slot is in one of the channels of pinned slots, or with one stage; a device
// slot is in free_device, with the copier, in ready, or with one lease. All channels of slots have
// room for every slot that may be in them, so giving one back never waits; ready has room for as
// many ends of epochs besides, and may hold up the copier. So has credit for all there is: each is
// there, with a lease, or with who waits for a batch to lease.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/slots/layout.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/stages/staged.h"
#include "leat/feeder/state/release_log.h"
#include "leat/feeder/stats/batch_probe.h"
#include "leat/feeder/stats/step_timing.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// How many slots, and of what.
struct RingSize {
  std::size_t pinned_slots = 0;
  std::size_t device_slots = 0;
  std::size_t leases = 1;  // at a time
};

/// The right to have one more lease.
struct LeaseCredit {};

/// The slots of one device, and what is known of them: see above.
class SlotRing {
 public:
  /// `scheduler` is the stages'.
  SlotRing(const gpu::Device& device, const LocalRank& local, BatchLayout layout,
           const RingSize& size, const StatsOptions& stats, CheckSlots check_slots, Trace* trace,
           std::shared_ptr<ReleaseLog> log, const SchedulerCore& scheduler);
  ~SlotRing();
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  /// The slot's batch will not be used by anybody (any more): back to the copier. From any thread;
  /// does not wait.
  void give_back(DeviceSlot& slot, DeviceState from) noexcept;
  /// A lease is over, or has not come to be: there may be another one. From any thread; does not
  /// wait.
  void give_back_credit() noexcept { static_cast<void>(credit.try_send(LeaseCredit{})); }
  /// Leases that there are, and those whose batch is being waited for.
  [[nodiscard]] std::size_t leases() const noexcept { return credit.capacity() - credit.size(); }
  /// Nothing more will come: receivers of `ready` get what is staged, then `cause`.
  void finish(std::exception_ptr cause) noexcept { ready.try_close(std::move(cause)); }
  /// Whether now() is, where it is called, the time that the stages and the device live in.
  [[nodiscard]] bool is_own_time() const noexcept;
  [[nodiscard]] bool is_virtual_time() const noexcept { return virtual_time_; }

  [[nodiscard]] const std::vector<std::unique_ptr<PinnedSlot>>& pinned() const noexcept {
    return pinned_;
  }
  [[nodiscard]] const std::vector<std::unique_ptr<DeviceSlot>>& device_slots() const noexcept {
    return device_slots_;
  }

  const gpu::Device device;
  const std::size_t rank;
  const BatchLayout layout;
  const gpu::Stream copy_stream;
  StatsCollector stats;
  const std::shared_ptr<ReleaseLog> log;
  BatchProbe probe;

  Channel<PinnedSlot*> filled;     // and those that end an epoch
  Channel<PinnedSlot*> in_flight;  // copies from them are enqueued, oldest first
  Channel<DeviceSlot*> free_device;
  Channel<Staged> ready;
  Channel<LeaseCredit> credit;

 private:
  const SchedulerCore* const scheduler_;  // compared, never followed
  const bool virtual_time_;
  gpu::PinnedArena pinned_memory_;
  gpu::DeviceBuffer device_memory_;
  std::vector<std::unique_ptr<PinnedSlot>> pinned_;
  std::vector<std::unique_ptr<DeviceSlot>> device_slots_;
};

}  // namespace leat::feeder
