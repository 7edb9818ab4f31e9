// A rank's end of a channel whose other end is in another process: comm carries the values.
//
// A value's shape goes first, then its data, each under a key of the channel, so that values of two
// channels are never mixed. The c places belong to the sender. A value keeps its place until the
// receiver has the value. The receiver has one more, for what arrives, and begins a receive when
// its fiber comes to the Recv, which may be before the device does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/pipeline/executor/link.h"

namespace leat::pipeline {

/// One end. The communicator outlives it.
class RemoteLink final : public Link {
 public:
  /// What a channel is.
  struct Ends {
    const comm::Communicator& ranks;
    int peer = 0;
    std::uint32_t channel = 0;
    bool sends = false;  ///< this end sends
  };
  /// For values of up to `bytes` bytes. Throws GpuError.
  RemoteLink(const Ends& ends, const gpu::Device& device, std::size_t bytes, int capacity);

  /// See Link. An end that receives does not send, and the other way round.
  TimePoint send(const gpu::StreamRef& stream, const gpu::DeviceSpan& from, std::int32_t microbatch,
                 const Batch& batch) override;
  TimePoint recv(const gpu::StreamRef& stream, const gpu::DeviceSpan& to, std::int32_t microbatch,
                 const Batch& batch) override;
  void finish() override;
  [[nodiscard]] std::size_t pinned_bytes() const noexcept override;

 private:
  /// Step, microbatch, its samples, its bytes, the step's samples, N.
  using Shape = std::array<std::int64_t, 6>;
  struct Place {
    gpu::PinnedBuffer memory;
    gpu::Event copied;  // into it, or out of it
    Shape shape = {};
    std::optional<comm::Completion> shape_sent = {};
    std::optional<comm::Completion> sent = {};
  };

  static Shape shape_of(std::int32_t microbatch, std::size_t bytes, const Batch& batch);
  /// Throws Error, on every rank, if the shape is not the one that is due.
  void require(const Shape& shape, const Shape& due) const;
  static void await_sent(Place& place);

  const comm::Communicator& ranks_;
  const int peer_;
  const std::uint64_t key_;
  const bool meets_;
  std::vector<Place> places_;
  std::size_t next_ = 0;
};

}  // namespace leat::pipeline
