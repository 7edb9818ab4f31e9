#include "leat/gpu/cuda/stream_registry.h"

#include <algorithm>
#include <utility>

namespace leat::gpu::cuda {

StreamRegistry::~StreamRegistry() {
  for (const Live& one : live_) {
    static_cast<void>(context_.attempt([&] { return cudaStreamDestroy(one.stream); }));
  }
}

cudaStream_t StreamRegistry::create() {
  const std::scoped_lock lock(mutex_);
  collect();
  live_.reserve(live_.size() + 1);
  cudaStream_t stream = nullptr;
  context_.call("cudaStreamCreateWithFlags",
                [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
  live_.push_back({.stream = stream, .number = next_number_++});
  return stream;
}

void StreamRegistry::destroy(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  find(stream)->destroyed = true;
  collect();
}

void StreamRegistry::retain(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  if (Live* const one = find(stream)) ++one->holders;
}

void StreamRegistry::release(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  Live* const one = find(stream);
  if (one == nullptr) return;
  --one->holders;
  if (one->destroyed) collect();
}

// The lock is released while waiting: the code that will unblock a stream may need to create one.
// The stream that is waited for is retained. Streams created meanwhile do not use the caller's
// memory.
bool StreamRegistry::sync_all() noexcept {
  bool all = true;
  std::uint64_t next = 0;
  std::uint64_t end = 0;
  {
    const std::scoped_lock lock(mutex_);
    end = next_number_;
  }
  for (;;) {
    cudaStream_t stream = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      const auto it = std::ranges::lower_bound(live_, next, {}, &Live::number);
      if (it == live_.end() || it->number >= end) return all;
      next = it->number + 1;
      ++it->holders;
      stream = it->stream;
    }
    all &= !is_captured(stream) &&
           context_.attempt([&] { return cudaStreamSynchronize(stream); }) == cudaSuccess;
    release(stream);
  }
}

StreamRegistry::Live* StreamRegistry::find(cudaStream_t stream) noexcept {
  const auto it = std::ranges::find(live_, stream, &Live::stream);
  return it != live_.end() ? &*it : nullptr;
}

bool StreamRegistry::is_captured(cudaStream_t stream) const noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = context_.attempt([&] { return cudaStreamIsCapturing(stream, &status); });
  return code == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

void StreamRegistry::collect() noexcept {
  std::erase_if(live_, [&](const Live& one) {
    if (!one.destroyed || one.holders > 0 || is_captured(one.stream)) return false;
    const cudaError_t code = context_.attempt([&] { return cudaStreamQuery(one.stream); });
    if (code != cudaSuccess) return false;  // work is queued, or CUDA does not say
    static_cast<void>(context_.attempt([&] { return cudaStreamDestroy(one.stream); }));
    return true;
  });
}

}  // namespace leat::gpu::cuda
