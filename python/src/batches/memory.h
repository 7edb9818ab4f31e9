// The memory of a leat.Tensor: a part of a batch's slot, or a copy.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "leat/feeder/interop/dlpack_abi.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/python/batches/share.h"

namespace leat::python {

/// Memory that tensors share. The last owner may be on any thread, without the GIL; in a forked
/// child it frees nothing of a device. All functions are called with the GIL held.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// Where the memory lies, in DLPack's terms.
  [[nodiscard]] virtual feeder::dlpack::DLDevice place() const = 0;
  /// The name of the device that the memory lies on: "host:0", "cuda:0".
  [[nodiscard]] virtual const std::string& device_name() const = 0;
  /// Whether it is a copy of a batch's memory.
  [[nodiscard]] virtual bool is_copy() const noexcept = 0;

  /// The device. For memory of a GPU alone, as are bind(), require_bound() and leases(): a copy in
  /// the CPU's memory keeps no device open. Throws std::logic_error there.
  [[nodiscard]] virtual const gpu::Device& device() const = 0;
  /// Makes `stream` wait until the memory is filled, on the device. The memory is then reused or
  /// freed only after the work that `stream` has when the last owner drops it. Throws as
  /// feeder::Lease::on does.
  virtual void bind(const gpu::StreamRef& stream) = 0;
  /// Throws std::logic_error if no stream is bound.
  virtual void require_bound() = 0;
  /// The leases of the feed that the memory is from.
  [[nodiscard]] virtual const std::shared_ptr<Leases>& leases() const = 0;
};

/// Whether memory that lies there can be read by the CPU.
[[nodiscard]] constexpr bool is_cpu(const feeder::dlpack::DLDevice& place) noexcept {
  return place.device_type == feeder::dlpack::kDLCPU;
}

/// The i-th tensor of a batch's slot: holds a share of the lease.
[[nodiscard]] std::shared_ptr<Memory> slot_memory(const std::shared_ptr<Share>& share,
                                                  std::size_t i);

/// No memory: of a tensor that was lent for a copy, which has ended. bind() and require_bound()
/// throw std::logic_error.
[[nodiscard]] std::shared_ptr<Memory> ended_memory();

/// A copy, and its first byte.
struct CopiedMemory {
  std::shared_ptr<Memory> memory;
  std::byte* data = nullptr;
};
/// Copies `bytes` bytes at `data` of `from` on the same device: by the CPU, or on the device after
/// what fills `from`. The host does not wait for a device. Throws as Memory::bind does, GpuError,
/// std::bad_alloc.
[[nodiscard]] CopiedMemory copy_of(Memory& from, std::byte* data, std::size_t bytes);
/// Copies from a GPU to the CPU's memory. Waits for the device, with the GIL released; a signal
/// handler that raises ends the wait. Throws as copy_of() does.
[[nodiscard]] CopiedMemory copy_to_host(Memory& from, std::byte* data, std::size_t bytes);

}  // namespace leat::python
