#include "leat/feeder/lease.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/slot_ring.h"
#include "leat/gpu/error.h"

namespace leat::feeder {

std::string_view Tensor::name() const noexcept { return layout_->field.name; }
DType Tensor::dtype() const noexcept { return layout_->field.dtype; }

void Tensor::check_type(DType wanted) const {
  if (wanted == dtype()) return;
  throw std::invalid_argument("leat: tensor \"" + std::string(name()) + "\" is " +
                              to_string(dtype()) + ", not " + to_string(wanted));
}

Lease::Lease(std::shared_ptr<SlotRing> ring, DeviceSlot& slot, Duration waited) noexcept
    : ring_(std::move(ring)), slot_(&slot), waited_(waited), received_(now()) {
  slot.state.move_on(DeviceState::kReady, DeviceState::kLeased);
  ring_->outstanding.fetch_add(1, std::memory_order_relaxed);
}

Lease::Lease(Lease&& other) noexcept
    : ring_(std::move(other.ring_)),
      slot_(std::exchange(other.slot_, nullptr)),
      waited_(other.waited_),
      received_(other.received_),
      host_ready_(other.host_ready_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  ring_ = std::move(other.ring_);
  slot_ = std::exchange(other.slot_, nullptr);
  waited_ = other.waited_;
  received_ = other.received_;
  host_ready_ = other.host_ready_;
  return *this;
}

DeviceSlot& Lease::slot() const {
  if (slot_ != nullptr) return *slot_;
  throw std::logic_error("leat: this lease is empty: it was released or moved from");
}

Lease& Lease::on(const gpu::StreamRef& stream) {
  DeviceSlot& slot = this->slot();
  if (!(stream.device() == ring_->device)) {
    throw std::invalid_argument("leat: a batch on " + ring_->device.name() +
                                " cannot be used on a stream of another device (" +
                                stream.device().name() + ")");
  }
  for (std::size_t i = 0; i < slot.bound; ++i) {
    if (*slot.streams[i] == stream) return *this;
  }
  if (slot.bound == kMaxStreams) {
    throw std::length_error("leat: a lease is used on at most " + std::to_string(kMaxStreams) +
                            " streams");
  }
  const bool timed = slot.part == StepPart::kSecond && slot.timing != nullptr && slot.bound == 0;
  if (timed) slot.timing->arrived.record(stream);
  stream.wait(slot.ready);
  if (timed) {
    slot.timing->bound.record(stream);
    slot.timing->consumer_starved = waited_;
    slot.timing->bound_second = true;
  }
  slot.streams[slot.bound++] = stream;
  return *this;
}

Tensor Lease::operator[](std::string_view name) {
  DeviceSlot& slot = this->slot();
  if (slot.bound == 0 && !host_ready_) {
    if (!ring_->device.capabilities().device_memory_is_host_memory) {
      throw std::logic_error("leat: bind a stream before touching a batch on " +
                             ring_->device.name() +
                             ": pass it to epoch(), or call on(stream) on the lease");
    }
    const TimePoint asked = now();
    slot.ready.await();
    host_ready_ = true;
    received_ = now();
    waited_ += received_ - asked;
  }
  const std::size_t number = ring_->layout.find(name);
  const TensorLayout& layout = ring_->layout.tensors()[number];
  return {layout, slot.buffer.data() + layout.offset, slot.batch.samples * layout.sample_bytes,
          slot.shapes[number]};
}

std::size_t Lease::size() const { return slot().batch.samples; }
std::uint64_t Lease::epoch() const { return slot().batch.epoch; }
std::uint64_t Lease::index() const { return slot().batch.index; }

void Lease::release() noexcept {
  if (slot_ == nullptr) return;
  DeviceSlot& slot = *std::exchange(slot_, nullptr);
  const std::shared_ptr<SlotRing> ring = std::move(ring_);
  try {
    for (std::size_t i = 0; i < slot.bound; ++i) slot.released[i].record(*slot.streams[i]);
    if (StepTiming* const timing = slot.timing.get(); timing != nullptr && slot.bound > 0) {
      const bool first = slot.part == StepPart::kFirst;
      (first ? timing->released_before : timing->released).record(*slot.streams[0]);
      (first ? timing->released_first : timing->released_second) = true;
      if (first && ring->outstanding.load(std::memory_order_relaxed) == 1) {
        ring->stats.first_released(slot.timing);
      }
    }
  } catch (...) {
    // The device has failed; nothing will be copied into the slot any more. The consumer hears of
    // it at its next batch.
    ring->finish(std::current_exception());
  }
  if (slot.bound == 0 && host_ready_) {
    ring->stats.add_host_step(slot.batch.index == 0, waited_, now() - received_);
  }
  ring->stats.add_release();
  for (std::size_t i = 0; i < slot.bound; ++i) slot.streams[i].reset();
  ring->outstanding.fetch_sub(1, std::memory_order_relaxed);
  ring->give_back(slot, DeviceState::kLeased);
}

}  // namespace leat::feeder
