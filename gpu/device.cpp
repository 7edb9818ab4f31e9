// Device, and which backend a name means: the one file that knows both backends.

#include "leat/gpu/device.h"

#include <charconv>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/error.h"
#include "leat/gpu/backend/backend.h"
#include "leat/gpu/cuda/cuda_backend.h"
#include "leat/gpu/host/host_backend.h"
#include "leat/gpu/host_model.h"

namespace leat::gpu {
namespace {

struct DeviceName {
  std::string_view kind;
  int number = 0;
};

// Parses "kind" or "kind:N"; empty if N is no number.
std::optional<DeviceName> parse(std::string_view name) {
  const std::size_t colon = name.find(':');
  DeviceName parsed{.kind = name.substr(0, colon)};
  if (colon == std::string_view::npos) return parsed;
  const std::string_view digits = name.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), parsed.number);
  if (error != std::errc{} || end != digits.data() + digits.size() || parsed.number < 0) {
    return std::nullopt;
  }
  return parsed;
}

Device with_caps(std::shared_ptr<Backend> backend, const MemoryCaps& caps) {
  backend->account(MemorySpace::kDevice).set_cap(caps.device_bytes);
  backend->account(MemorySpace::kPinned).set_cap(caps.pinned_bytes);
  return Device(std::move(backend));
}

}  // namespace

const std::string& Device::name() const noexcept { return backend_->info().name; }

const DeviceInfo& Device::info() const noexcept { return backend_->info(); }

const Capabilities& Device::capabilities() const noexcept { return backend_->capabilities(); }

Device Device::for_memory() const { return Device(backend_->memory_handle()); }

MemoryUse Device::memory() const noexcept {
  return {.device = backend_->account(MemorySpace::kDevice).figures(),
          .pinned = backend_->account(MemorySpace::kPinned).figures()};
}

Device open(std::string_view name, const MemoryCaps& caps) {
  if (name == "auto") {
    return cuda::inventory().devices.empty() ? open_host({}, 0, caps)
                                             : with_caps(cuda::open(0), caps);
  }
  const auto parsed = parse(name);
  if (parsed && parsed->kind == "cuda") return with_caps(cuda::open(parsed->number), caps);
  if (parsed && parsed->kind == "host") return open_host({}, parsed->number, caps);
  throw Error("leat: unknown device \"" + std::string(name) +
              "\"; use auto, cuda:N or host:N (N = 0, 1, ...)");
}

Device open_host(const HostModel& model, int index, const MemoryCaps& caps) {
  const bool bandwidths = model.h2d_bandwidth >= 0 && model.d2h_bandwidth >= 0;  // false for NaN
  if (index < 0 || !bandwidths || model.copy_latency < Duration::zero()) {
    throw std::invalid_argument(
        "leat: open_host: number, bandwidths and latency must be zero or positive");
  }
  return with_caps(host::open(index, model), caps);
}

DeviceList list() {
  cuda::Inventory cuda = cuda::inventory();
  DeviceList all{.devices = std::move(cuda.devices), .cuda_status = std::move(cuda.status)};
  all.devices.push_back(host::describe(0, {}));
  return all;
}

}  // namespace leat::gpu
