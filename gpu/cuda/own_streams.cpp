#include "leat/gpu/cuda/own_streams.h"

#include <algorithm>
#include <utility>

namespace leat::gpu::cuda {

cudaStream_t OwnStreams::create() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(draining_, [&](const RecordRef& end) {
    return context_.attempt([&] { return cudaEventQuery(end->event); }) != cudaErrorNotReady;
  });
  live_.reserve(live_.size() + 1);
  draining_.reserve(draining_.size() + live_.size() + 1);  // destroy() must not fail
  cudaStream_t stream = nullptr;
  context_.call("cudaStreamCreateWithFlags",
                [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
  live_.push_back(stream);
  return stream;
}

void OwnStreams::destroy(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  if (RecordRef end = end_of(stream)) draining_.push_back(std::move(end));
  std::erase(live_, stream);
  static_cast<void>(context_.attempt([&] { return cudaStreamDestroy(stream); }));
}

void OwnStreams::sync_all() noexcept {
  // One after the other: none is destroyed, and so none gets its handle again, meanwhile.
  const std::scoped_lock lock(mutex_);
  const auto sync = [&](const RecordRef& end) {
    static_cast<void>(context_.attempt([&] { return cudaEventSynchronize(end->event); }));
  };
  for (cudaStream_t const stream : live_) {
    if (const RecordRef end = end_of(stream)) sync(end);
  }
  for (const RecordRef& end : draining_) sync(end);
  draining_.clear();
}

RecordRef OwnStreams::end_of(cudaStream_t stream) noexcept {
  try {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    context_.call("cudaStreamIsCapturing", [&] { return cudaStreamIsCapturing(stream, &capture); });
    if (capture != cudaStreamCaptureStatusNone) return {};
    if (context_.query("cudaStreamQuery", [&] { return cudaStreamQuery(stream); })) return {};
    RecordRef end = events_.take(false);
    context_.call("cudaEventRecord", [&] { return cudaEventRecord(end->event, stream); });
    return end;
  } catch (...) {
    return {};  // the device has failed: nothing will run any more
  }
}

}  // namespace leat::gpu::cuda
