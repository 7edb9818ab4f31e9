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
  return {number(4 * batch.step + (batch.exchanges ? 2 : 0) + (batch.evaluates ? 1 : 0)),
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
  // Both are begun before either is awaited: one wait in most cases.
  comm::Completion shape_came = ranks_.recv(place.shape, peer_, key_);
  std::optional<comm::Completion> came;
  if (to.size() != 0) {
    came.emplace(
        ranks_.recv({place.memory.data(), to.size(), gpu::DType::kUint8}, peer_, key_ + 1));
  }
  shape_came.await();
  require(place.shape, shape_of(microbatch, to.size(), batch));
  if (!came.has_value()) return TimePoint::min();
  came->await();
  gpu::copy_async(stream, to, place.memory.subspan(0, to.size()));
  place.copied.record(stream);
  return TimePoint::min();
}

void RemoteLink::require(const Shape& shape, const Shape& due) const {
  if (shape == due) return;
  const auto words = [](const Shape& of) {
    return std::string(of[0] % 2 == 0 ? "step " : "evaluation ") + std::to_string(of[0] / 4) +
           (of[0] % 4 == 2 ? " with an exchange" : "") + " of " + std::to_string(of[4]) + " of " +
           std::to_string(of[5]) + " samples, microbatch " + std::to_string(of[1]) + " of " +
           std::to_string(of[2]) + " samples, " + std::to_string(of[3]) + " bytes";
  };
  const std::string reason = "rank " + std::to_string(peer_) + " sends: " + words(shape) +
                             "; this rank expects: " + words(due);
  ranks_.abort(reason);  // before the data is given up, which would be the reason otherwise
  throw Error(reason);
}

void RemoteLink::finish() {
  for (Place& place : places_) await_sent(place);
}

std::size_t RemoteLink::pinned_bytes() const noexcept {
  return places_.size() * places_.front().memory.size();
}

}  // namespace leat::pipeline
