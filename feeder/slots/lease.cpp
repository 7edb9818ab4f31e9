#include "leat/feeder/lease.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/slots/slot_ring.h"
#include "leat/gpu/error.h"
#include "leat/gpu/stream.h"

namespace leat::feeder {

Lease::Lease(std::shared_ptr<SlotRing> ring, DeviceSlot& slot, PassId pass,
             Duration waited) noexcept
    : ring_(std::move(ring)),
      slot_(&slot),
      pass_(pass),
      exceptions_(std::uncaught_exceptions()),
      host_timed_(ring_->is_own_time()),
      waited_(waited),
      received_(now()) {
  slot.state.move_on(DeviceState::kReady, DeviceState::kLeased);
  ring_->log->leased(ring_->rank, pass);
  if (!host_timed_) return;
  ring_->note(slot.traced, [&](TracedBatch& traced) {
    traced.wait_for_batch = {.begin = received_ - waited_, .end = received_};
    traced.lease.begin = received_;
    traced.is_leased = true;
  });
}

Lease::Lease(Lease&& other) noexcept
    : ring_(std::move(other.ring_)),
      slot_(std::exchange(other.slot_, nullptr)),
      pass_(other.pass_),
      exceptions_(other.exceptions_),
      host_timed_(other.host_timed_),
      host_ready_(other.host_ready_),
      waited_(other.waited_),
      received_(other.received_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  ring_ = std::move(other.ring_);
  slot_ = std::exchange(other.slot_, nullptr);
  pass_ = other.pass_;
  exceptions_ = other.exceptions_;
  host_timed_ = other.host_timed_;
  host_ready_ = other.host_ready_;
  waited_ = other.waited_;
  received_ = other.received_;
  return *this;
}

Lease::~Lease() { end(std::uncaught_exceptions() <= exceptions_); }

DeviceSlot& Lease::slot() const {
  if (slot_ != nullptr) return *slot_;
  throw std::logic_error("leat: this lease is empty: it was released or moved from");
}

Lease& Lease::on(const gpu::StreamRef& stream) {
  bind_due();
  return bind(stream);
}

void Lease::bind_due() {
  DeviceSlot& slot = this->slot();
  if (!slot.due.has_value()) return;
  bind(*slot.due);
  slot.due.reset();
}

Lease& Lease::bind(const gpu::StreamRef& stream) {
  DeviceSlot& slot = this->slot();
  if (!(stream.device() == ring_->device)) {
    throw std::invalid_argument("leat: a batch on " + ring_->device.name() +
                                " cannot be used on a stream of another device (" +
                                stream.device().name() +
                                "); open a device once, and use that for both");
  }
  for (std::size_t i = 0; i < slot.bound; ++i) {
    if (*slot.streams[i] == stream) return *this;
  }
  if (stream.is_capturing()) {
    throw std::invalid_argument("leat: a stream of " + ring_->device.name() +
                                " that is being captured into a graph cannot be bound to a batch; "
                                "bind the stream that the graph is launched on");
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
  if (slot.traced != nullptr && slot.bound == 0) {
    slot.traced->use_begin.record(stream);
    ring_->note(slot.traced, [](TracedBatch& traced) { traced.is_used = true; });
  }
  slot.streams[slot.bound++] = stream;
  return *this;
}

Tensor Lease::operator[](std::string_view name) { return tensors()[name]; }

TensorSet Lease::tensors() {
  bind_due();
  const DeviceSlot& slot = this->slot();
  if (slot.bound == 0 && !host_ready_) {
    if (!ring_->device.capabilities().device_memory_is_host_memory) {
      throw std::logic_error("leat: bind a stream before touching a batch on " +
                             ring_->device.name() +
                             ": pass it to epoch(), or call on(stream) on the lease");
    }
    const TimePoint asked = now();
    host_timed_ = host_timed_ && ring_->is_own_time();
    slot.ready.await();
    host_ready_ = true;
    received_ = now();
    waited_ += received_ - asked;
  }
  return {ring_->layout, 0, ring_->layout.tensors().size(), slot.memory.data(), slot.shapes};
}

void Lease::await() { slot().ready.await(); }

const gpu::Device& Lease::device() const {
  static_cast<void>(slot());  // an empty lease has no ring either
  return ring_->device;
}

std::size_t Lease::size() const { return slot().batch.samples; }
std::size_t Lease::rows() const { return slot().batch.rows; }
std::size_t Lease::elements() const { return slot().batch.elements; }
std::uint64_t Lease::epoch() const { return slot().batch.epoch; }
std::uint64_t Lease::index() const { return slot().batch.index; }
std::uint64_t Lease::step_size() const { return slot().batch.step_samples; }
std::size_t Lease::step_shards() const { return slot().batch.step_shards; }

void Lease::end(bool done) noexcept {
  if (slot_ == nullptr) return;
  DeviceSlot& slot = *std::exchange(slot_, nullptr);
  const std::shared_ptr<SlotRing> ring = std::move(ring_);
  record_release(slot, *ring);
  if (slot.bound == 0 && host_timed_ && ring->is_own_time()) {
    ring->stats.add_host_release(pass_, host_ready_
                                            ? std::optional(StatsCollector::HostStep{
                                                  .starved = waited_, .busy = now() - received_})
                                            : std::nullopt);
  }
  if (slot.traced != nullptr && host_timed_ && ring->is_own_time()) {
    ring->note(slot.traced, [at = now()](TracedBatch& traced) {
      traced.lease.end = at;
      traced.has_ended = traced.is_leased;
    });
  }
  if (done) {
    ring->stats.add_release(slot.batch.epoch, slot.batch.index, slot.batch.samples,
                            ring->is_own_time());
  }
  ring->log->ended(ring->rank, pass_, slot.batch, done);
  ring->give_back(slot, DeviceState::kLeased);
  ring->give_back_credit();
}

void Lease::record_release(DeviceSlot& slot, SlotRing& ring) noexcept {
  try {
    for (std::size_t i = 0; i < slot.bound; ++i) slot.released[i].record(*slot.streams[i]);
    if (slot.traced != nullptr && slot.bound > 0) {
      slot.traced->use_end.record(*slot.streams[0]);
      ring.note(slot.traced, [](TracedBatch& traced) { traced.is_released = traced.is_used; });
    }
    StepTiming* const timing = slot.timing.get();
    if (timing == nullptr || slot.bound == 0) return;
    const bool first = slot.part == StepPart::kFirst;
    (first ? timing->released_before : timing->released).record(*slot.streams[0]);
    (first ? timing->released_first : timing->released_second) = true;
    if (first && ring.leases() == 1) {
      ring.stats.first_released(slot.timing);
    }
  } catch (...) {
    // The device has failed; nothing will be copied into the slot any more. The consumer hears of
    // it at its next batch.
    ring.finish(std::current_exception());
  }
}

}  // namespace leat::feeder
