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
    : ring_(std::move(ring)), slot_(&slot), pass_(pass), exceptions_(std::uncaught_exceptions()) {
  ring_->steps.handed_out(slot, pass, waited);
  slot.state.move_on(DeviceState::kReady, DeviceState::kLeased);
  ring_->log->leased(ring_->rank, pass);
}

Lease::Lease(Lease&& other) noexcept
    : ring_(std::move(other.ring_)),
      slot_(std::exchange(other.slot_, nullptr)),
      pass_(other.pass_),
      exceptions_(other.exceptions_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  ring_ = std::move(other.ring_);
  slot_ = std::exchange(other.slot_, nullptr);
  pass_ = other.pass_;
  exceptions_ = other.exceptions_;
  return *this;
}

Lease::~Lease() { end(std::uncaught_exceptions() <= exceptions_); }

DeviceSlot& Lease::slot() const {
  if (slot_ != nullptr) return *slot_;
  throw std::logic_error("leat: this lease is empty: it was released or moved from");
}

Lease& Lease::on(const gpu::StreamRef& stream) {
  begin_use();
  bind_due();
  return bind(stream);
}

// A receiver does not see when it is asked for a batch. So the step of the batch before ends when
// this one is first used, before the stream waits for its copy.
void Lease::begin_use() {
  DeviceSlot& slot = this->slot();
  if (slot.before.slot != nullptr) ring_->steps.next_asked(std::exchange(slot.before, {}));
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
  const bool is_first = slot.bound == 0;
  if (is_first) slot.mark(Mark::kArrived, stream);
  stream.wait(slot.ready);
  if (is_first) slot.mark(Mark::kUseBegins, stream);
  const auto lock = ring_->guard(slot);
  if (is_first) ring_->steps.used(slot);
  slot.streams[slot.bound++] = stream;
  return *this;
}

Tensor Lease::operator[](std::string_view name) { return tensors()[name]; }

TensorSet Lease::tensors() {
  begin_use();
  bind_due();
  const DeviceSlot& slot = this->slot();
  if (slot.bound == 0) {
    if (!ring_->device.capabilities().device_memory_is_host_memory) {
      throw std::logic_error("leat: bind a stream before touching a batch on " +
                             ring_->device.name() +
                             ": pass it to epoch(), or call on(stream) on the lease");
    }
    if (!slot.use.cpu_waited) await_copy(TimePoint::max());
  }
  return layout();
}

TensorSet Lease::layout() const {
  const DeviceSlot& slot = this->slot();
  return {*slot.layout, 0, slot.layout->tensors().size(), slot.memory.data(), slot.shapes};
}

const std::string& Lease::opaque() const { return slot().of_source.opaque; }

void Lease::await() { static_cast<void>(await_until(TimePoint::max())); }

bool Lease::await_until(TimePoint deadline) {
  begin_use();
  return await_copy(deadline);
}

bool Lease::await_copy(TimePoint deadline) {
  DeviceSlot& slot = this->slot();
  const TimePoint since = now();
  const bool is_done = slot.ready.await_until(deadline);
  if (!slot.use.cpu_waited) ring_->steps.waited(slot, since, is_done);
  return is_done;
}

const gpu::Device& Lease::device() const {
  static_cast<void>(slot());  // throws if the lease is empty
  return ring_->device;
}

std::size_t Lease::size() const { return slot().batch.samples; }
std::size_t Lease::rows() const { return slot().batch.rows; }
std::size_t Lease::elements() const { return slot().batch.elements; }
std::uint64_t Lease::epoch() const { return slot().batch.epoch; }
std::uint64_t Lease::index() const { return slot().batch.index; }
std::uint64_t Lease::step_size() const { return slot().batch.step_samples; }
std::size_t Lease::step_shards() const { return slot().batch.step_shards; }

Receipt Lease::receipt() {
  const BatchId& batch = slot().batch;
  if (pass_ == PassId::kNone) {
    throw std::logic_error("leat: this lease has given a receipt already: " + name_of(batch) +
                           " is counted once");
  }
  Receipt receipt;
  receipt.log_ = ring_->log;
  receipt.rank_ = ring_->rank;
  receipt.pass_ = std::exchange(pass_, PassId::kNone);
  receipt.epoch_ = batch.epoch;
  receipt.index_ = batch.index;
  receipt.elements_ = batch.elements;
  receipt.carry_ = batch.carry;
  return receipt;
}

void Lease::end(bool done) noexcept {
  if (slot_ == nullptr) return;
  DeviceSlot& slot = *std::exchange(slot_, nullptr);
  const std::shared_ptr<SlotRing> ring = std::move(ring_);
  record_release(slot, *ring);
  slot.is_done = done;
  if (pass_ != PassId::kNone) ring->log->ended(ring->rank, pass_, slot.batch, done);
  ring->give_back(slot, DeviceState::kLeased);
  ring->give_back_credit();
}

void Lease::record_release(DeviceSlot& slot, SlotRing& ring) noexcept {
  ring.steps.released(slot);
  try {
    for (std::size_t i = 0; i < slot.bound; ++i) slot.released[i].record(*slot.streams[i]);
  } catch (...) {
    // The device has failed, so nothing will be copied into the slot any more. The consumer's next
    // call reports the failure.
    ring.finish(std::current_exception());
  }
}

}  // namespace leat::feeder
