#include "leat/pipeline/executor/remote_link.h"

#include <algorithm>
#include <string>

#include "leat/csp/error.h"

namespace leat::pipeline {

RemoteLink::RemoteLink(const Ends& ends, const gpu::Device& device, std::size_t bytes, int capacity)
    : ranks_(ends.ranks),
      peer_(ends.peer),
      key_(2 * std::uint64_t{ends.channel}),
      meets_(capacity == 0) {
  const int places = ends.sends ? std::max(capacity, 1) : 1;
  for (int i = 0; i < places; ++i) {
    places_.push_back({.memory = gpu::PinnedBuffer(device, bytes), .copied = gpu::Event(device)});
  }
}

RemoteLink::Shape RemoteLink::shape_of(std::int32_t microbatch, std::size_t bytes,
                                       const Batch& batch) {
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  return {number(2 * batch.step + (batch.evaluates ? 1 : 0)),
          microbatch,
          number(batch.samples_of(microbatch)),
          number(bytes),
          number(batch.samples),
          number(batch.of)};
}

void RemoteLink::await_sent(Place& place) {
  if (place.shape_sent.has_value()) place.shape_sent->await();
  if (place.sent.has_value()) place.sent->await();
  place.shape_sent.reset();
  place.sent.reset();
}

TimePoint RemoteLink::send(const gpu::StreamRef& stream, const gpu::DeviceSpan& from,
                           std::int32_t microbatch, const Batch& batch) {
  Place& place = places_[next_];
  next_ = (next_ + 1) % places_.size();
  await_sent(place);
  gpu::copy_async(stream, place.memory.subspan(0, from.size()), from);
  place.copied.record(stream);
  place.copied.await();
  place.shape = shape_of(microbatch, from.size(), batch);
  place.shape_sent.emplace(ranks_.send(place.shape, peer_, key_));
  if (from.size() != 0) {
    place.sent.emplace(
        ranks_.send({place.memory.data(), from.size(), gpu::DType::kUint8}, peer_, key_ + 1));
  }
  if (meets_) await_sent(place);
  return TimePoint::min();
}

TimePoint RemoteLink::recv(const gpu::StreamRef& stream, const gpu::DeviceSpan& to,
                           std::int32_t microbatch, const Batch& batch) {
  Place& place = places_.front();
  place.copied.await();
  ranks_.recv(place.shape, peer_, key_).await();
  const Shape due = shape_of(microbatch, to.size(), batch);
  if (place.shape != due) {
    const auto words = [](const Shape& shape) {
      return std::string(shape[0] % 2 == 0 ? "step " : "evaluation ") +
             std::to_string(shape[0] / 2) + " of " + std::to_string(shape[4]) + " of " +
             std::to_string(shape[5]) + " samples, microbatch " + std::to_string(shape[1]) +
             " of " + std::to_string(shape[2]) + " samples, " + std::to_string(shape[3]) + " bytes";
    };
    throw Error("rank " + std::to_string(peer_) + " sends: " + words(place.shape) +
                "; this rank expects: " + words(due));
  }
  if (to.size() == 0) return TimePoint::min();
  ranks_.recv({place.memory.data(), to.size(), gpu::DType::kUint8}, peer_, key_ + 1).await();
  gpu::copy_async(stream, to, place.memory.subspan(0, to.size()));
  place.copied.record(stream);
  return TimePoint::min();
}

void RemoteLink::finish() {
  for (Place& place : places_) await_sent(place);
}

std::size_t RemoteLink::pinned_bytes() const noexcept {
  return places_.size() * places_.front().memory.size();
}

}  // namespace leat::pipeline
