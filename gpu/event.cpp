#include "leat/gpu/event.h"

namespace leat::gpu {

void EventRef::record(const StreamRef& stream) const {
  if (!(stream.device() == device_)) {
    throw GpuError(
        0, "an event is recorded on streams of its own device",
        "record on a stream of " + stream.device().name(), device_.name(),
        "make the event on the stream's device; any stream of the family may wait for it");
  }
  device_.backend()->record(handle_, stream.handle());
}

Event::Event(Device device, Timing timing)
    : device_(std::move(device)), handle_(device_.backend()->create_event(timing == Timing::kOn)) {}

Event::Event(Event&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, EventHandle::kNone)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != EventHandle::kNone) device_.backend()->destroy_event(handle_);
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
