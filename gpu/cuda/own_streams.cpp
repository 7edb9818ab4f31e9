#include "leat/gpu/cuda/own_streams.h"

#include <algorithm>
#include <utility>

namespace leat::gpu::cuda {

OwnStreams::~OwnStreams() {
  for (const Live& one : live_) {
    static_cast<void>(context_.attempt([&] { return cudaStreamDestroy(one.stream); }));
  }
}

cudaStream_t OwnStreams::create() {
  const std::scoped_lock lock(mutex_);
  sweep();
  live_.reserve(live_.size() + 1);
  cudaStream_t stream = nullptr;
  context_.call("cudaStreamCreateWithFlags",
                [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
  live_.push_back({.stream = stream, .number = next_number_++});
  return stream;
}

void OwnStreams::destroy(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  find(stream)->destroyed = true;
  sweep();
}

void OwnStreams::keep(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  if (Live* const one = find(stream)) ++one->keepers;
}

void OwnStreams::let_go(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  Live* const one = find(stream);
  if (one == nullptr) return;
  --one->keepers;
  if (one->destroyed) sweep();
}

// Without the lock while it waits: who opens what a stream is held by may have to make one first.
// Each is kept meanwhile; those that are made meanwhile have nothing to do with the caller's
// memory.
bool OwnStreams::sync_all() noexcept {
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
      ++it->keepers;
      stream = it->stream;
    }
    all &= !is_captured(stream) &&
           context_.attempt([&] { return cudaStreamSynchronize(stream); }) == cudaSuccess;
    let_go(stream);
  }
}

OwnStreams::Live* OwnStreams::find(cudaStream_t stream) noexcept {
  const auto it = std::ranges::find(live_, stream, &Live::stream);
  return it != live_.end() ? &*it : nullptr;
}

bool OwnStreams::is_captured(cudaStream_t stream) const noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = context_.attempt([&] { return cudaStreamIsCapturing(stream, &status); });
  return code == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

void OwnStreams::sweep() noexcept {
  std::erase_if(live_, [&](const Live& one) {
    if (!one.destroyed || one.keepers > 0 || is_captured(one.stream)) return false;
    const cudaError_t code = context_.attempt([&] { return cudaStreamQuery(one.stream); });
    if (code != cudaSuccess) return false;  // work is queued, or nobody can say
    static_cast<void>(context_.attempt([&] { return cudaStreamDestroy(one.stream); }));
    return true;
  });
}

}  // namespace leat::gpu::cuda
