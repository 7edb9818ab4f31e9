#include "leat/feeder/slot_ring.h"

#include <utility>

#include "leat/csp/scheduler.h"

namespace leat::feeder {
namespace {

std::int64_t capacity(std::size_t slots) { return static_cast<std::int64_t>(slots); }

}  // namespace

SlotRing::SlotRing(const gpu::Device& on, BatchLayout batch, std::size_t pinned_slots,
                   std::size_t device_slots, std::size_t workers, std::size_t prefetch_depth,
                   std::size_t sample_every)
    : device(on),
      layout(std::move(batch)),
      copy_stream(on),
      stats(on, workers, prefetch_depth, sample_every),
      requests(1, "requests"),
      free_pinned(capacity(pinned_slots), "free pinned slots"),
      work(capacity(pinned_slots), "slots to fill"),
      filled(capacity(pinned_slots), "filled slots"),
      in_flight(capacity(pinned_slots), "copies in flight"),
      free_device(capacity(device_slots), "free device slots"),
      ready(capacity(device_slots), "ready batches") {
  for (std::size_t i = 0; i < pinned_slots; ++i) {
    pinned_.push_back(std::make_unique<PinnedSlot>(device, layout.bytes()));
    static_cast<void>(free_pinned.try_send(pinned_.back().get()));
  }
  for (std::size_t i = 0; i < device_slots; ++i) {
    device_slots_.push_back(std::make_unique<DeviceSlot>(device, layout));
    static_cast<void>(free_device.try_send(device_slots_.back().get()));
  }
}

// The buffers' own destructors let queued work finish first (Backend::free_device).
SlotRing::~SlotRing() = default;

void SlotRing::give_back(DeviceSlot& slot, DeviceState from) noexcept {
  if (slot.timing != nullptr) stats.let_go(std::exchange(slot.timing, nullptr));
  slot.state.move_on(from, DeviceState::kReleased);
  static_cast<void>(free_device.try_send(&slot));
}

}  // namespace leat::feeder
