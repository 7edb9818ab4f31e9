#include "leat/gpu/event.h"

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/error.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"

namespace leat::gpu {

void EventRef::record(const StreamRef& stream) const {
  if (!(stream.device() == device_)) {
    throw GpuError(
        0, "an event is recorded on streams of its own device",
        "record on a stream of " + stream.device().name(), device_.name(),
        "make the event on the stream's device; any stream of the family may wait for it");
  }
  device_.backend()->record(handle(), stream.handle());
}

void EventRef::sync() const { device_.backend()->sync(handle()); }

void EventRef::await() const { device_.backend()->await(handle()); }

bool EventRef::await_until(TimePoint deadline) const {
  if (Deadline(deadline).is_never()) {
    await();
    return true;
  }
  const DoneSubscription subscription(*this);
  const DoneSignal& signal = subscription.signal();
  std::optional<DoneSignal::Done> token;
  if (signal.channel().recv_until(token, deadline) == ChannelStatus::timed_out) return false;
  if (signal.error() != nullptr) std::rethrow_exception(signal.error());
  return true;
}

bool EventRef::is_done() const { return device_.backend()->is_done(handle()); }

void EventRef::throw_moved_from() const {
  throw std::logic_error("leat: this Event of " + device_.name() + " is empty: it was moved from");
}

Event::Event(const Device& device, Timing timing)
    : ref_(device, device.backend()->create_event(timing == Timing::kOn)) {}

Event::~Event() {
  if (ref_.handle_ != EventHandle::kNone) device().backend()->destroy_event(ref_.handle_);
}

Duration elapsed(const EventRef& start, const EventRef& end) {
  if (!(start.device() == end.device())) {
    throw GpuError(0, "two events of one device have a time between them",
                   "elapsed to an event of " + end.device().name(), start.device().name(),
                   "record both on streams of one device");
  }
  return start.device().backend()->elapsed(start.handle(), end.handle());
}

}  // namespace leat::gpu
