// Slots for pieces that cannot be exchanged in place. If the transport does not reach the
// gradients, slots are in pinned memory. Buckets, whose gradients lie apart, always have slots.
//
//   gradient ──copy in──► slot ──all_reduce──► slot ──copy out──► gradient
//
// Always true: a slot belongs to one piece under way, from take() to give().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "leat/comm/gradient_exchange.h"
#include "leat/comm/transports/transport.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"

namespace leat::comm {

/// Whether the CPU reaches the device's memory; without a device it does.
[[nodiscard]] inline bool cpu_reaches(const std::optional<gpu::Device>& device) {
  return !device.has_value() || device->capabilities().device_memory_is_host_memory;
}

/// Whether `end` exchanges what lies in the device's memory, which the CPU does not reach.
[[nodiscard]] inline bool exchanges_on(const Transport& end,
                                       const std::optional<gpu::Device>& device) {
  return !cpu_reaches(device) && end.device() != nullptr && end.device()->name() == device->name();
}

/// A part of a piece: a stretch of one gradient.
struct Part {
  std::byte* data = nullptr;  // in the device's memory
  std::size_t bytes = 0;
  DType dtype = DType::kFloat32;
  bool is_absent = false;  // copy in: this rank contributes nothing; copy out: nobody does
};

/// The slots of one exchange. Used by its fiber alone.
class Staging {
 public:
  enum class Way : std::uint8_t { kIn, kOut };

  /// `slots` slots of `bytes` bytes, in pinned memory, or in the device's. Without a device, the
  /// CPU copies. Throws GpuError, OutOfMemory, and std::bad_alloc.
  Staging(const std::optional<gpu::Device>& device, std::size_t slots, std::size_t bytes,
          bool in_device_memory = false);

  [[nodiscard]] bool has_free() const noexcept { return !free_.empty(); }
  /// A free slot, or null.
  [[nodiscard]] std::byte* take() noexcept;
  void give(std::byte* slot) noexcept { free_.push_back(slot); }

  /// Copies the parts into the slot, one behind the other (kIn), or back. An absent part is copied
  /// in as what adds nothing to a sum, -0.0 or 0 (in the device's memory 0), and is not copied
  /// back. Returns the stream on which that happens, or null if it is done.
  const gpu::Stream* copy(Way way, std::byte* slot, std::span<const Part> parts);

 private:
  std::vector<std::byte> host_;              // slots, without a device
  std::optional<gpu::PinnedArena> arena_;    // slots, with a device
  std::optional<gpu::DeviceBuffer> memory_;  // slots, in the device's memory
  std::optional<gpu::PinnedBuffer> zeros_;   // with memory_
  std::optional<gpu::Stream> in_, out_;      // with a device
  std::vector<std::byte*> free_;
};

}  // namespace leat::comm
