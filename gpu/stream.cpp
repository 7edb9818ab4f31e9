#include "leat/gpu/stream.h"

#include <string>

#include "leat/gpu/event.h"

namespace leat::gpu {

StreamRef StreamRef::from_native(const Device& device, void* native) {
  return {device, device.backend()->wrap_stream(native)};
}

void StreamRef::wait(const EventRef& event) const {
  if (std::string_view(event.device().backend()->family()) != device_.backend()->family()) {
    throw GpuError(0, "events of one family only", "wait for an event of " + event.device().name(),
                   device_.name(), "await the event in a fiber instead");
  }
  device_.backend()->wait(handle_, event.handle());
}

Stream::Stream(Device device)
    : device_(std::move(device)), handle_(device_.backend()->create_stream()) {}

Stream::Stream(Stream&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, StreamHandle::kNone)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::~Stream() {
  if (handle_ != StreamHandle::kNone) device_.backend()->destroy_stream(handle_);
}

}  // namespace leat::gpu
