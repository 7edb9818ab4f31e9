#include "leat/gpu/cuda/own_streams.h"

#include <algorithm>
#include <utility>

namespace leat::gpu::cuda {

cudaStream_t OwnStreams::create() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(draining_, [&](const RecordRef& end) { return is_over(end); });
  live_.reserve(live_.size() + 1);
  draining_.reserve(draining_.size() + live_.size() + 1);  // end() must not fail
  cudaStream_t stream = nullptr;
  context_.call("cudaStreamCreateWithFlags",
                [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
  live_.push_back({.stream = stream, .number = next_number_++});
  return stream;
}

void OwnStreams::destroy(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  Live& one = *find(stream);
  one.destroyed = true;
  if (one.keepers == 0) end(one);
}

void OwnStreams::keep(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  if (Live* const one = find(stream)) ++one->keepers;
}

void OwnStreams::let_go(cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  Live* const one = find(stream);
  if (one != nullptr && --one->keepers == 0 && one->destroyed) end(*one);
}

OwnStreams::Live* OwnStreams::find(cudaStream_t stream) noexcept {
  const auto it = std::ranges::find(live_, stream, &Live::stream);
  return it != live_.end() ? &*it : nullptr;
}

// Tells CUDA. With the lock.
void OwnStreams::end(Live& one) noexcept {
  if (RecordRef end = end_of(one.stream)) draining_.push_back(std::move(end));
  static_cast<void>(context_.attempt([&] { return cudaStreamDestroy(one.stream); }));
  live_.erase(live_.begin() + (&one - live_.data()));
}

// Without the lock while it waits: who opens what a stream is held by may have to make one first.
void OwnStreams::sync_all() noexcept {
  const auto sync = [&](const RecordRef& end) {
    static_cast<void>(context_.attempt([&] { return cudaEventSynchronize(end->event); }));
  };
  std::uint64_t next = 0;  // streams are numbered in the order in which they stand in live_
  for (RecordRef end; next_end(next, end);) {
    if (end) sync(end);
  }
  while (const RecordRef end = next_draining()) sync(end);
}

// The end of what is queued on the first stream numbered `next` or higher, if there is one; sets
// `next` to what comes after it.
bool OwnStreams::next_end(std::uint64_t& next, RecordRef& end) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto it = std::ranges::lower_bound(live_, next, {}, &Live::number);
  if (it == live_.end()) return false;
  next = it->number + 1;
  end = end_of(it->stream);
  return true;
}

// One that is not reached yet; empty if there is none, or the device has failed.
RecordRef OwnStreams::next_draining() noexcept {
  const std::scoped_lock lock(mutex_);
  for (const RecordRef& end : draining_) {
    if (!is_over(end)) return end.share();
  }
  return {};
}

bool OwnStreams::is_over(const RecordRef& end) const noexcept {
  return context_.attempt([&] { return cudaEventQuery(end->event); }) != cudaErrorNotReady;
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
