#include "leat/gpu/event.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace leat::gpu {

void EventRef::record(const StreamRef& stream) const {
  if (!(stream.device() == device_)) {
    throw GpuError(
        0, "an event is recorded on streams of its own device",
        "record on a stream of " + stream.device().name(), device_.name(),
        "make the event on the stream's device; any stream of the family may wait for it");
  }
  backend().record(handle(), stream.handle());
}

void EventRef::throw_moved_from() const {
  throw std::logic_error("leat: this Event of " + device_.name() + " is empty: it was moved from");
}

Event::Event(const Device& device, Timing timing)
    : ref_(device, device.backend()->create_event(timing == Timing::kOn)) {}

Event::Event(Event&& other) noexcept
    : ref_(other.ref_.device_, std::exchange(other.ref_.handle_, EventHandle::kNone)) {}

Event& Event::operator=(Event&& other) noexcept {
  Event taken(std::move(other));  // whose destructor ends the event that was here
  std::swap(ref_, taken.ref_);
  return *this;
}

Event::~Event() {
  if (ref_.handle_ != EventHandle::kNone) ref_.backend().destroy_event(ref_.handle_);
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
