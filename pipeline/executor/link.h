// Links: what carries the values of one channel, from one rank's device to another's.
//
// A value is copied to a *place*, in pinned memory, and from there to the receiver. With c >= 1,
// the sender takes one of c places, and the receiver gives it back. With c = 0 there is one place,
// which the receiver gives at the beginning of its Recv, so both sides meet.
//
// Waiting is left to the devices wherever that is enough: a place is given back before the copy out
// of it has run, and the sender's stream waits for that copy. So a fiber waits once for each Send,
// until the value is in its place.
//
// Thread safety: one fiber at a time sends, one receives. What a link enqueues is on the stream
// that is given, in the order of its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"

namespace leat::pipeline {

/// A step's numbers, the same on all ranks.
struct Batch {
  std::uint64_t samples = 0;  ///< of this step
  std::uint64_t of = 0;       ///< N, for the weights of gradients
  std::uint64_t microbatches = 1;
  std::uint64_t step = 0;  ///< its number
  bool evaluates = false;
  bool exchanges = false;  ///< gradients with replicas

  /// The samples of a microbatch; the first ones have one more.
  [[nodiscard]] std::uint64_t samples_of(std::int32_t microbatch) const noexcept {
    return samples / microbatches + (index(microbatch) < samples % microbatches ? 1 : 0);
  }
  /// Its first sample.
  [[nodiscard]] std::uint64_t first_of(std::int32_t microbatch) const noexcept {
    const std::uint64_t longer = samples % microbatches;
    const std::uint64_t i = index(microbatch);
    return i * (samples / microbatches) + (i < longer ? i : longer);
  }

 private:
  static std::uint64_t index(std::int32_t microbatch) noexcept {
    return static_cast<std::uint64_t>(microbatch);
  }
};

/// A channel, or one end of it.
class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  /// Sends `from` once the work on `stream` has run; waits until the value has a place. Returns the
  /// time until which the sender is held (with c = 0, while the value is under way). Throws
  /// GpuError, Cancelled, comm::CommError.
  virtual TimePoint send(const gpu::StreamRef& stream, const gpu::DeviceSpan& from,
                         std::int32_t microbatch, const Batch& batch) = 0;
  /// Receives into `to`: waits for the value, and enqueues the last copy. Returns and throws as
  /// send(), and throws Error if another value comes.
  virtual TimePoint recv(const gpu::StreamRef& stream, const gpu::DeviceSpan& to,
                         std::int32_t microbatch, const Batch& batch) = 0;
  /// Waits until what this end sent is received. Called by both ends at the end of a step.
  virtual void finish() {}
  /// The bytes of its places.
  [[nodiscard]] virtual std::size_t pinned_bytes() const noexcept = 0;
};

/// A link between two ranks of one process.
class LocalLink final : public Link {
 public:
  /// Places for values of up to `bytes` bytes. Each value is under way for `delay`. Throws
  /// GpuError.
  LocalLink(const gpu::Device& from, const gpu::Device& to, std::size_t bytes, int capacity,
            Duration delay, const std::string& name);

  TimePoint send(const gpu::StreamRef& stream, const gpu::DeviceSpan& from, std::int32_t microbatch,
                 const Batch& batch) override;
  TimePoint recv(const gpu::StreamRef& stream, const gpu::DeviceSpan& to, std::int32_t microbatch,
                 const Batch& batch) override;
  [[nodiscard]] std::size_t pinned_bytes() const noexcept override;

 private:
  struct Place {
    gpu::PinnedBuffer memory;
    gpu::Event filled;  // the sender's
    gpu::Event free;    // the receiver's: behind the copy out of it; with c = 0, before its Recv
  };
  struct Value {
    std::uint32_t place = 0;
    std::int32_t microbatch = 0;
    TimePoint sent;
  };

  [[nodiscard]] TimePoint held_until(TimePoint sent) const noexcept {
    return meets_ && delay_ > Duration::zero() ? Deadline::after(sent, delay_).at()
                                               : TimePoint::min();
  }

  const bool meets_;
  const bool streams_wait_;  // the devices know each other's events
  const Duration delay_;
  std::vector<Place> places_;
  const Channel<Value> values_;
  const Channel<std::uint32_t> free_;
};

}  // namespace leat::pipeline
