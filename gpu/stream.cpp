#include "leat/gpu/stream.h"

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "leat/gpu/event.h"

namespace leat::gpu {

StreamRef StreamRef::from_native(const Device& device, void* native) {
  return {device, device.backend()->wrap_stream(native)};
}

StreamRef StreamRef::legacy(const Device& device) {
  return {device, device.backend()->legacy_stream()};
}

void StreamRef::wait(const EventRef& event) const {
  const Backend& other = *event.device().backend();
  if (&other != &backend() && std::string_view(other.family()) != backend().family()) {
    throw GpuError(0, "events of one family only", "wait for an event of " + event.device().name(),
                   device_.name(), "await the event in a fiber instead");
  }
  backend().wait(handle(), event.handle());
}

void StreamRef::throw_moved_from() const {
  throw std::logic_error("leat: this Stream of " + device_.name() + " is empty: it was moved from");
}

void StreamRef::refuse_launch(Duration modelled_time) const {
  throw std::invalid_argument("leat: launch_host on " + device_.name() +
                              (modelled_time < Duration::zero()
                                   ? ": a time of " + std::to_string(modelled_time.count()) + " ns"
                                   : std::string(": no function to call")));
}

Stream::Stream(const Device& device) : ref_(device, device.backend()->create_stream()) {}

Stream::Stream(Stream&& other) noexcept
    : ref_(other.ref_.device_, std::exchange(other.ref_.handle_, StreamHandle::kNone)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  Stream taken(std::move(other));  // whose destructor ends the stream that was here
  std::swap(ref_, taken.ref_);
  return *this;
}

Stream::~Stream() {
  if (ref_.handle_ != StreamHandle::kNone) ref_.backend().destroy_stream(ref_.handle_);
}

}  // namespace leat::gpu
