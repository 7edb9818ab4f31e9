#include "leat/gpu/stream.h"

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"

namespace leat::gpu {

StreamRef StreamRef::from_native(const Device& device, void* native) {
  return {device, device.backend()->wrap_stream(native)};
}

StreamRef StreamRef::legacy(const Device& device) {
  return {device, device.backend()->legacy_stream()};
}

void StreamRef::wait(const EventRef& event) const {
  Backend& backend = *device_.backend();
  const Backend& other = *event.device().backend();
  if (&other != &backend && std::string_view(other.family()) != backend.family()) {
    throw GpuError(0, "events of one family only", "wait for an event of " + event.device().name(),
                   device_.name(), "await the event in a fiber instead");
  }
  backend.wait(handle(), event.handle());
}

void StreamRef::sync() const { device_.backend()->sync(handle()); }

bool StreamRef::is_done() const { return device_.backend()->is_done(handle()); }

bool StreamRef::is_capturing() const { return device_.backend()->is_capturing(handle()); }

void StreamRef::launch_host(UniqueFunction<void()> function, Duration modelled_time) const {
  if (!function || modelled_time < Duration::zero()) {
    throw std::invalid_argument(
        "leat: launch_host on " + device_.name() +
        (modelled_time < Duration::zero()
             ? ": a time of " + std::to_string(modelled_time.count()) + " ns"
             : std::string(": no function to call")));
  }
  device_.backend()->launch_host(handle(), std::move(function), modelled_time);
}

void* StreamRef::native_handle() const { return device_.backend()->native_handle(handle()); }

void StreamRef::throw_moved_from() const {
  throw std::logic_error("leat: this Stream of " + device_.name() + " is empty: it was moved from");
}

Stream::Stream(const Device& device) : ref_(device, device.backend()->create_stream()) {}

Stream::~Stream() {
  if (ref_.handle_ != StreamHandle::kNone) device().backend()->destroy_stream(ref_.handle_);
}

}  // namespace leat::gpu
