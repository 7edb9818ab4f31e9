#include "bench/gpu/hold.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/gpu/cuda/kernels.h"
#include "bench/gpu/device_main.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace bench {
namespace {

constexpr std::uint64_t kTimeoutNs = 30'000'000'000;

cuda::HoldWords& words_in(const leat::gpu::PinnedBuffer& buffer) noexcept {
  return *reinterpret_cast<cuda::HoldWords*>(buffer.data());
}

}  // namespace

Hold::Hold(const leat::gpu::Device& device) : words_(device, sizeof(cuda::HoldWords)) {
  std::construct_at(&words_in(words_));
  const leat::gpu::Stream stream(device);
  close(stream);
  open();
  stream.sync();
}

Hold::~Hold() { open(); }

void Hold::close(const leat::gpu::StreamRef& stream) {
  closed_ = true;
  if (stream.device().capabilities().host_kernels) {
    stream.launch_host([this] { static_cast<void>(opened_.recv()); });
    return;
  }
  const char* error = cuda::use_device(number_of(stream.device()));
  if (error == nullptr) {
    error = cuda::launch_hold(&words_in(words_), ++number_, kTimeoutNs, stream.native_handle());
  }
  if (error != nullptr) {
    throw leat::gpu::GpuError(0, error, "hold a stream", stream.device().name(), "");
  }
}

void Hold::open() noexcept {
  if (!closed_) return;
  closed_ = false;
  if (words_.device().capabilities().host_kernels) {
    static_cast<void>(opened_.try_send(Token{}));
  } else {
    // release: what the host has written before is there for the device.
    std::atomic_ref(words_in(words_).open).store(number_, std::memory_order_release);
  }
}

bool Hold::expired() const noexcept {
  return std::atomic_ref(words_in(words_).expired).load(std::memory_order_relaxed) != 0;
}

void fill_pools(const leat::gpu::Device& device, Hold& hold) {
  constexpr std::size_t kEvents = 250;  // of each kind; a stream's queue holds 1024 operations
  const leat::gpu::Stream stream(device);
  std::vector<leat::gpu::Event> events;
  events.reserve(2 * kEvents);
  for (std::size_t i = 0; i < kEvents; ++i) {
    events.emplace_back(device, leat::gpu::Timing::kOff);
    events.emplace_back(device, leat::gpu::Timing::kOn);
  }
  hold.close(stream);
  for (const leat::gpu::Event& event : events) event.record(stream);
  hold.open();
  stream.sync();
}

}  // namespace bench
