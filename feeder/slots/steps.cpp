#include "leat/feeder/slots/steps.h"

#include <utility>

#include "leat/feeder/slots/slot_ring.h"

namespace leat::feeder {

void Steps::handed_out(DeviceSlot& slot, PassId pass, Duration waited) noexcept {
  const auto lock = ring_.guard(slot);  // against next_asked() for an earlier turn
  slot.use = {.turn = slot.use.turn + 1,
              .is_open = true,
              .waited = waited,
              .late_waits = Duration(late_waits_.load(std::memory_order_relaxed)),
              .received = now()};
  slot.pass = pass;
  slot.starved = waited;
  slot.is_own_time = ring_.is_own_time();
  ring_.tell(&Observer::handed_out, slot);
}

void Steps::waited(DeviceSlot& slot, TimePoint since, bool is_done) noexcept {
  const auto lock = ring_.guard(slot);
  DeviceSlot::Use& use = slot.use;
  slot.is_own_time = slot.is_own_time && ring_.is_own_time();
  use.cpu_waited = is_done;
  const TimePoint until = now();
  if (!use.is_open) {  // the next batch was asked for: the wait is in that one's step
    if (slot.is_own_time) late_waits_.fetch_add((until - since).count(), std::memory_order_relaxed);
    return;
  }
  if (std::exchange(use.cpu_waits, true)) since = use.received;  // when the wait has timed out
  use.waited += until - since + take_late_waits(use);
  use.received = until;
}

// Returns how long the consumer has waited for copies of batches before this one, since it received
// this one or since the last call.
Duration Steps::take_late_waits(DeviceSlot::Use& use) const noexcept {
  const Duration all(late_waits_.load(std::memory_order_relaxed));
  return all - std::exchange(use.late_waits, all);
}

void Steps::used(DeviceSlot& slot) noexcept {
  if (!binds_streams_.load(std::memory_order_relaxed))
    binds_streams_.store(true, std::memory_order_relaxed);
  slot.is_used = true;
  slot.starved = slot.use.waited;
  if (slot.traced != nullptr) ring_.tell(&Observer::used, slot);
}

void Steps::next_asked(const Turn& turn) noexcept {
  if (turn.slot == nullptr) return;
  DeviceSlot& slot = *turn.slot;
  const auto lock = ring_.guard(slot);
  if (!slot.use.is_open || slot.use.turn != turn.number) return;
  // The batch may still be bound to a stream, unless the CPU uses it: then the step ends with its
  // release.
  if (slot.bound == 0 && !slot.use.cpu_waited && binds_streams_.load(std::memory_order_relaxed))
    return;
  end(slot, true);
}

void Steps::released(DeviceSlot& slot) noexcept {
  const auto lock = ring_.guard(slot);
  end(slot, false);
}

// Ends the step on the first stream, or on the host's clock if there is no stream yet; unless it
// has ended there.
void Steps::end(DeviceSlot& slot, bool next_is_asked) noexcept {
  DeviceSlot::Use& use = slot.use;
  if (slot.bound > 0 && !std::exchange(use.is_marked, true)) {
    const gpu::StreamRef& stream = *slot.streams[0];
    try {
      slot.was_idle = slot.part == StepPart::kSecond && !stream.is_capturing() && stream.is_done();
      slot.mark(Mark::kUseEnds, stream);
      if (next_is_asked) slot.mark(Mark::kNextAsked, stream);
      slot.awaits_next = slot.part == StepPart::kFirst && !next_is_asked && ring_.leases() == 1;
      ring_.tell(&Observer::step_ended, slot);
    } catch (...) {
      // The device has failed, which the release reports.
    }
  }
  if (!std::exchange(use.is_open, false)) return;
  slot.is_own_time = slot.is_own_time && ring_.is_own_time();
  if (slot.bound > 0 || !slot.is_own_time) return;
  const Duration late = take_late_waits(use);
  slot.starved = use.waited + late;
  slot.step_end = now();
  slot.busy = slot.step_end - use.received - late;
  ring_.tell(&Observer::step_ended, slot);
}

}  // namespace leat::feeder
