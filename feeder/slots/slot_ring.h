// The slots of one device, and the channels that pass them between stages, consumer and leases.
//
// The Prefetcher and each Lease hold a shared_ptr to the ring, so a lease may outlive the
// Prefetcher. Slots do not own the ring, so there is no cycle. Without a Prefetcher the ring is
// memory: it keeps no stream, and no thread of a device.
//
// Always true:
//  - A pinned slot is in one of the channels of pinned slots, or with one stage.
//  - A device slot is in free_device, with the copier, in ready, or with one lease.
//  - A credit is in `credit`, with a lease, or with a consumer that has asked for a batch.
//  - Each channel of slots has room for every slot, and `credit` for every credit: giving one back
//    never blocks. `ready` also has room for as many ends of epochs; beyond that the copier blocks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/slots/layout.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/slots/staged.h"
#include "leat/feeder/slots/steps.h"
#include "leat/feeder/state/release_log.h"
#include "leat/feeder/stats/step_timing.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

/// The numbers of slots and leases.
struct RingSize {
  std::size_t pinned_slots = 0;
  std::size_t device_slots = 0;
  std::size_t leases = 1;  // at a time
};

class DeviceTrace;
class SlotChecks;
class Trace;

/// The right to have one more lease.
struct LeaseCredit {};

/// The slots of one device, their channels and observers.
class SlotRing {
 public:
  /// `scheduler` runs the stages.
  SlotRing(const gpu::Device& device, const LocalRank& local, BatchLayout layout,
           const RingSize& size, const StatsOptions& stats, CheckSlots check_slots, Trace* trace,
           std::shared_ptr<ReleaseLog> log, const SchedulerCore& scheduler);
  ~SlotRing();
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  /// Gives the slot back to the copier. Its batch is no longer in use. Thread-safe; does not block.
  void give_back(DeviceSlot& slot, DeviceState from) noexcept;
  /// Allows one more lease, because a lease has ended or was not made. Thread-safe; does not block.
  void give_back_credit() noexcept { static_cast<void>(credit.try_send(LeaseCredit{})); }
  /// Protects `slot.use` and the slot's streams while the batch is leased: one thread may release
  /// the lease while the consumer asks for the next batch. Returns an empty lock if there is one
  /// lease at a time: that cannot happen then.
  [[nodiscard]] std::unique_lock<std::mutex> guard(DeviceSlot& slot) const {
    return credit.capacity() > 1 ? std::unique_lock(slot.use_mutex)
                                 : std::unique_lock<std::mutex>();
  }
  /// Returns the number of leases, including one whose batch a consumer has asked for.
  [[nodiscard]] std::size_t leases() const noexcept { return credit.capacity() - credit.size(); }
  /// Tells the observers of an event: the stats, the trace and the profiler if there are any. The
  /// caller owns the slot that has the record.
  void tell(void (Observer::*event)(BatchRecord&) noexcept, BatchRecord& record) const noexcept {
    for (Observer* const one : observers_) {
      if (one != nullptr) (one->*event)(record);
    }
  }
  /// Ends the ring's streams, with the Prefetcher. The stages have ended; leases may live.
  void end_streams() noexcept;
  /// Ends the batches. Receivers of `ready` get the staged batches, then `cause`. Thread-safe.
  void finish(std::exception_ptr cause) noexcept { ready.try_close(std::move(cause)); }
  /// Returns whether the caller's clock is that of the stages and the device.
  [[nodiscard]] bool is_own_time() const noexcept;
  [[nodiscard]] bool is_virtual_time() const noexcept { return virtual_time_; }

  [[nodiscard]] const std::vector<std::unique_ptr<PinnedSlot>>& pinned() const noexcept {
    return pinned_;
  }
  /// Where the pinned slots lie. Asks the kernel: milliseconds for a gigabyte.
  [[nodiscard]] gpu::PagePlacement placement() const {
    return pinned_memory_ == nullptr ? gpu::PagePlacement() : pinned_memory_->placement();
  }
  /// Returns the bytes of the pinned slots. Thread-safe.
  [[nodiscard]] std::size_t pinned_bytes() const noexcept {
    return pinned_.size() * layout.staged_bytes() + grown_.load(std::memory_order_relaxed);
  }
  /// Returns the bytes of the device slots. Thread-safe.
  [[nodiscard]] std::size_t device_bytes() const noexcept {
    return device_slots_.size() * layout.bytes() + grown_on_device_.load(std::memory_order_relaxed);
  }
  /// Has `to` take the batch of a source over from `from`. The caller owns both slots.
  void take_over(DeviceSlot& to, PinnedSlot& from) {
    const std::size_t had = to.memory.size();
    to.take(device, from);
    grown_on_device_.fetch_add(to.memory.size() - had, std::memory_order_relaxed);
  }
  /// Gives `slot`, of a batch source, memory of `bytes` bytes in place of what it has. The caller
  /// owns the slot. `pins`: else it is memory that the device copies more slowly. Throws
  /// OutOfMemory, GpuError.
  void replace_memory(PinnedSlot& slot, std::size_t bytes, bool pins);
  [[nodiscard]] const std::vector<std::unique_ptr<DeviceSlot>>& device_slots() const noexcept {
    return device_slots_;
  }

  const gpu::Device device;  // for_memory()
  const std::size_t rank;
  const BatchLayout layout;
  gpu::Stream copy_stream;
  StatsCollector stats;
  const std::shared_ptr<ReleaseLog> log;
  const std::unique_ptr<SlotChecks> checks;  // null: off
  Steps steps;

  Channel<PinnedSlot*> filled;     // read from a dataset, or the end of an epoch
  Channel<PinnedSlot*> in_flight;  // copies from them are enqueued, oldest first
  Channel<DeviceSlot*> free_device;
  Channel<Staged> ready;
  Channel<LeaseCredit> credit;

 private:
  const std::shared_ptr<DeviceTrace> trace_;  // null: off
  const std::array<Observer*, 3> observers_;
  const SchedulerCore* const scheduler_;  // only compared, never dereferenced
  const bool virtual_time_;
  const std::unique_ptr<gpu::PinnedArena> pinned_memory_;  // null: each slot has its own
  std::atomic<std::size_t> grown_{0};                      // bytes of these
  std::atomic<std::size_t> grown_on_device_{0};            // of a batch source
  gpu::DeviceBuffer device_memory_;
  std::vector<std::unique_ptr<PinnedSlot>> pinned_;
  std::vector<std::unique_ptr<DeviceSlot>> device_slots_;
};

/// A read or a copy of a batch: tells the observers when it begins, and when it ends.
class Attempt {
 public:
  using Event = void (Observer::*)(BatchRecord&) noexcept;
  /// Tells of `begins`. Keeps references.
  Attempt(const SlotRing& ring, Event begins, BatchRecord& record) noexcept
      : ring_(ring), record_(record) {
    ring.tell(begins, record);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  /// Tells that it was abandoned, unless it is done.
  ~Attempt() {
    if (!is_done_) ring_.tell(&Observer::abandoned, record_);
  }
  /// Tells of `ends`; `record` is where the batch is now.
  void done(Event ends, BatchRecord& record) noexcept {
    is_done_ = true;
    ring_.tell(ends, record);
  }

 private:
  const SlotRing& ring_;
  BatchRecord& record_;
  bool is_done_ = false;
};

}  // namespace leat::feeder
