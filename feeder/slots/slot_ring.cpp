#include "leat/feeder/slots/slot_ring.h"

#include <utility>

#include "leat/csp/clock.h"
#include "leat/csp/wait/identity.h"
#include "leat/feeder/slots/slot_checks.h"
#include "leat/feeder/trace/device_trace.h"
#include "leat/feeder/trace/ranges.h"

namespace leat::feeder {
namespace {

std::int64_t capacity(std::size_t slots) { return static_cast<std::int64_t>(slots); }

}  // namespace

SlotRing::SlotRing(const gpu::Device& on, const LocalRank& local, BatchLayout batch,
                   const RingSize& size, const StatsOptions& stats_options, CheckSlots check_slots,
                   Trace* into, std::shared_ptr<ReleaseLog> release_log,
                   const SchedulerCore& scheduler)
    : device(on.for_memory()),
      rank(local.index),
      layout(std::move(batch)),
      copy_stream(device),
      stats(device, stats_options),
      log(std::move(release_log)),
      checks(check_slots == CheckSlots::kNo
                 ? nullptr
                 : std::make_unique<SlotChecks>(device, layout, size.pinned_slots,
                                                size.device_slots, check_slots)),
      steps(*this),
      filled(capacity(size.pinned_slots), "filled slots"),
      in_flight(capacity(size.pinned_slots), "copies in flight"),
      free_device(capacity(size.device_slots), "free device slots"),
      ready(2 * capacity(size.device_slots), "ready batches"),
      credit(capacity(size.leases), "leases to be had"),
      trace_(into == nullptr ? nullptr : into->make(copy_stream, local)),
      observers_{&stats, trace_.get(), profiler_ranges()},
      scheduler_(&scheduler),
      virtual_time_(clock_of(scheduler).is_virtual()),
      pinned_memory_(layout.staged_bytes() == 0
                         ? nullptr
                         : std::make_unique<gpu::PinnedArena>(
                               device, size.pinned_slots * layout.staged_bytes())),
      device_memory_(device, size.device_slots * layout.bytes()) {
  if (trace_ != nullptr) {
    trace_->set_occupancy([this] {
      return Occupancy{now(), filled.size(), ready.size(), free_device.size()};
    });
  }
  // A slot's size is a multiple of the alignment of its tensors, so slots follow without gaps.
  for (std::size_t i = 0; i < size.pinned_slots; ++i) {
    pinned_.push_back(std::make_unique<PinnedSlot>(
        device,
        pinned_memory_ == nullptr
            ? gpu::PinnedSpan()
            : pinned_memory_->take(layout.staged_bytes(), BatchLayout::kAlignment),
        layout, rank, i));
  }
  for (std::size_t i = 0; i < size.device_slots; ++i) {
    device_slots_.push_back(std::make_unique<DeviceSlot>(
        device, device_memory_.subspan(i * layout.bytes(), layout.bytes()), layout, i));
    static_cast<void>(free_device.try_send(device_slots_.back().get()));
  }
  for (std::size_t i = 0; i < size.leases; ++i) give_back_credit();
}

void SlotRing::replace_memory(PinnedSlot& slot, std::size_t bytes, bool pins) {
  static std::atomic<std::uint64_t> numbers{0};
  PinnedSlot::Sourced& own = slot.of_source;
  grown_.fetch_sub(own.pinned_bytes, std::memory_order_relaxed);
  own.pinned_bytes = 0;
  slot.memory = {};
  own.arena.reset();  // first: what it has may be what is lacking
  own.arena = std::make_unique<gpu::PinnedArena>(
      device, bytes, pins ? gpu::PageSharing::kShared : gpu::PageSharing::kSharedUnpinned);
  slot.memory = own.arena->take(bytes);
  own.memory_number = numbers.fetch_add(1, std::memory_order_relaxed) + 1;
  if (pins) own.pinned_bytes = bytes;
  grown_.fetch_add(own.pinned_bytes, std::memory_order_relaxed);
}

// Freeing the memory waits for queued work (Backend::free_device).
SlotRing::~SlotRing() = default;

void SlotRing::end_streams() noexcept {
  if (checks != nullptr) checks->end_stream();
  const gpu::Stream ended = std::move(copy_stream);  // its queued copies still run
}

void SlotRing::give_back(DeviceSlot& slot, DeviceState from) noexcept {
  slot.ended_in_own_time = is_own_time();
  tell(&Observer::given_back, slot);
  static_cast<UsedRecord&>(slot) = {};
  try {
    if (checks != nullptr) checks->released(slot);
  } catch (...) {
    finish(std::current_exception());  // the device has failed
  }
  for (std::size_t i = 0; i < slot.bound; ++i) slot.streams[i].reset();
  slot.due.reset();
  slot.before = {};
  slot.state.move_on(from, DeviceState::kReleased);
  static_cast<void>(free_device.try_send(&slot));
}

bool SlotRing::is_own_time() const noexcept {
  const SchedulerCore* const caller = calling_scheduler();
  if (caller == nullptr) return !virtual_time_;
  if (caller == scheduler_) return true;
  return !virtual_time_ && !clock_of(*caller).is_virtual();
}

}  // namespace leat::feeder
