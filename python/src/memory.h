// The memory of a leat.Tensor: a part of a batch's slot, or a copy.
#pragma once

#include <cstddef>
#include <memory>

#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/python/share.h"

namespace leat::python {

/// Memory that tensors share. The last owner may be on any thread, without the GIL. All functions
/// are called with the GIL held.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// The device that has the memory.
  [[nodiscard]] virtual const gpu::Device& device() const = 0;
  /// Makes `stream` wait until the memory is filled, on the device. The memory is then reused or
  /// freed only after the work that `stream` has when the last owner drops it. Throws as
  /// feeder::Lease::on does.
  virtual void bind(const gpu::StreamRef& stream) = 0;
  /// Throws std::logic_error if no stream is bound, on a device whose memory is not the host's.
  virtual void require_bound() = 0;
  /// Whether it is a copy of a batch's memory.
  [[nodiscard]] virtual bool is_copy() const noexcept = 0;
};

/// The i-th tensor of a batch's slot: holds a share of the lease.
[[nodiscard]] std::shared_ptr<Memory> slot_memory(const std::shared_ptr<Share>& share,
                                                  std::size_t i);

/// A copy, and its first byte.
struct CopiedMemory {
  std::shared_ptr<Memory> memory;
  std::byte* data = nullptr;
};
/// Copies `bytes` bytes at `data` of `from` on the same device: by the CPU, or on the device after
/// what fills `from`. The host does not wait for a device. Throws as Memory::bind does, GpuError,
/// std::bad_alloc.
[[nodiscard]] CopiedMemory copy_of(Memory& from, const std::byte* data, std::size_t bytes);
/// Copies to the CPU's memory. Waits for the device, with the GIL released. `host` is the device
/// that the copy is said to lie on.
[[nodiscard]] CopiedMemory copy_to_host(Memory& from, const std::byte* data, std::size_t bytes);

}  // namespace leat::python
