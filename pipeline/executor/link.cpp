#include "leat/pipeline/executor/link.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/gpu/backend/backend.h"

namespace leat::pipeline {

LocalLink::LocalLink(const gpu::Device& from, const gpu::Device& to, std::size_t bytes,
                     int capacity, Duration delay, const std::string& name)
    : meets_(capacity == 0),
      streams_wait_(std::string_view(from.backend()->family()) == to.backend()->family()),
      delay_(delay),
      values_(std::max(capacity, 1), name + ": values"),
      free_(std::max(capacity, 1), name + ": places") {
  for (int i = 0; i < std::max(capacity, 1); ++i) {
    places_.push_back({.memory = gpu::PinnedBuffer(from, bytes),
                       .filled = gpu::Event(from),
                       .free = gpu::Event(to)});
    if (!meets_) free_.send(static_cast<std::uint32_t>(i));
  }
}

TimePoint LocalLink::send(const gpu::StreamRef& stream, const gpu::DeviceSpan& from,
                          std::int32_t microbatch, const Batch& /*batch*/) {
  const std::uint32_t index = *free_.recv();
  const Place& place = places_[index];
  if (streams_wait_) {
    stream.wait(place.free);
  } else {
    place.free.await();
  }
  gpu::copy_async(stream, place.memory.subspan(0, from.size()), from);
  place.filled.record(stream);
  place.filled.await();
  const TimePoint sent = now();
  values_.send({.place = index, .microbatch = microbatch, .sent = sent});
  return held_until(sent);
}

TimePoint LocalLink::recv(const gpu::StreamRef& stream, const gpu::DeviceSpan& to,
                          std::int32_t microbatch, const Batch& /*batch*/) {
  if (meets_) {
    places_.front().free.record(stream);
    free_.send(0);
  }
  const Value value = *values_.recv();
  if (value.microbatch != microbatch) {
    throw Error("microbatch " + std::to_string(value.microbatch) + " came where " +
                std::to_string(microbatch) + " was due");
  }
  if (!meets_ && delay_ > Duration::zero()) sleep_until(Deadline::after(value.sent, delay_).at());
  const Place& place = places_[value.place];
  gpu::copy_async(stream, to, place.memory.subspan(0, to.size()));
  if (meets_) return held_until(value.sent);
  place.free.record(stream);
  free_.send(value.place);
  return TimePoint::min();
}

std::size_t LocalLink::pinned_bytes() const noexcept {
  return places_.size() * places_.front().memory.size();
}

}  // namespace leat::pipeline
