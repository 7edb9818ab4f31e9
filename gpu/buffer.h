// Memory: on the device, and pinned on the host.
//
// Example
//   leat::gpu::PinnedBuffer pinned(device, bytes);
//   leat::gpu::DeviceBuffer slot(device, bytes);
//   fill(pinned.span().bytes());
//   leat::gpu::copy_async(stream, slot.span(), pinned.span());
//
// Ownership: a buffer owns its memory; a span is a view that must not outlive it. The destructor
// frees the memory. It may run while work on the buffer is queued on Streams of its device: that
// work finishes first, and the destructor may wait for it. Before destruction, wait yourself for
// work on other devices, on a second opening of the device, and on foreign streams. A buffer that
// was moved from is empty.
//
// Thread safety: assigning to a buffer is not thread-safe. Otherwise a buffer is as thread-safe as
// the bytes in it.
//
// Leat never frees memory if it cannot wait for the work on it: while a Stream of the device is
// being captured into a graph, or if the device has failed. Such memory still counts against
// MemoryCaps. End captures first.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "leat/gpu/backend/handles.h"
#include "leat/gpu/device.h"
#include "leat/gpu/memory.h"

namespace leat::gpu {

class StreamRef;

/// A view of device memory or of pinned memory.
template <MemorySpace space>
class MemorySpan {
 public:
  /// An empty view.
  MemorySpan() = default;
  /// Makes a view of `bytes` bytes at `data`. Does not check that they lie in this kind of memory.
  MemorySpan(void* data, std::size_t bytes) noexcept
      : data_(static_cast<std::byte*>(data)), size_(bytes) {}

  /// Returns the address: for kernels in device memory, for the CPU in pinned memory.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// Returns the size in bytes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Returns the view of [offset, offset + bytes). Throws std::out_of_range if that is not inside.
  [[nodiscard]] MemorySpan subspan(std::size_t offset, std::size_t bytes) const;
  /// Returns the bytes, for the CPU.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept
      requires(space == MemorySpace::kPinned) {
    return {data_, size_};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The two span types do not convert to each other.
using DeviceSpan = MemorySpan<MemorySpace::kDevice>;
using PinnedSpan = MemorySpan<MemorySpace::kPinned>;

/// Owns device memory, or pinned host memory that the device copies from and to asynchronously. For
/// the slots of a ring, see PinnedArena (gpu/pinned_arena.h).
template <MemorySpace space>
class Buffer {
 public:
  /// Allocates `bytes` bytes, which may be 0. Aligned to 256 bytes; pinned memory to a page. Throws
  /// OutOfMemory if memory is lacking, GpuError if the device's MemoryCaps do not allow it.
  Buffer(const Device& device, std::size_t bytes);
  /// Allocates device memory in the order of `stream`, out of the device's pool (CUDA:
  /// cudaMallocAsync, cudaFreeAsync). Work enqueued on `stream` from now on may use the memory; so
  /// may work on other streams that waits for that. The destructor does not wait: the memory is
  /// freed when the work enqueued on `stream` by then has run, so let `stream` wait for all other
  /// work on the buffer first.
  ///
  /// A Stream may be destroyed before the buffer; a foreign stream must outlive it. The stream must
  /// not be in a capture when the buffer is made or destroyed. If the device has no pool
  /// (Capabilities::stream_ordered_memory), this does what the first constructor does.
  Buffer(const StreamRef& stream, std::size_t bytes) requires(space == MemorySpace::kDevice);
  /// Allocates pinned memory for this use by the CPU.
  Buffer(const Device& device, std::size_t bytes,
         PinnedUse use) requires(space == MemorySpace::kPinned);
  Buffer(Buffer&& other) noexcept
      : device_(other.device_),
        span_(std::exchange(other.span_, {})),
        stream_(std::exchange(other.stream_, StreamHandle::kNone)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(device_, other.device_);
    std::swap(span_, other.span_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Buffer();

  /// A view of the whole buffer; empty if the buffer is.
  [[nodiscard]] MemorySpan<space> span() const noexcept { return span_; }
  /// See MemorySpan::subspan.
  [[nodiscard]] MemorySpan<space> subspan(std::size_t offset, std::size_t bytes) const {
    return span_.subspan(offset, bytes);
  }
  /// See MemorySpan::data.
  [[nodiscard]] std::byte* data() const noexcept { return span_.data(); }
  /// Returns the size in bytes; 0 if the buffer was moved from.
  [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }
  /// Returns the device that the buffer was made with, also if the buffer is empty.
  [[nodiscard]] const Device& device() const noexcept { return device_; }

 private:
  template <class Allocate>
  void make(std::size_t bytes, const Allocate& allocate);

  Device device_;
  MemorySpan<space> span_;
  StreamHandle stream_ = StreamHandle::kNone;  // the stream in whose order it was allocated
};

/// The two kinds of buffer.
using DeviceBuffer = Buffer<MemorySpace::kDevice>;
using PinnedBuffer = Buffer<MemorySpace::kPinned>;

/// Enqueues a copy on `stream`, host to device (H2D). Does not block. Both spans must live, and the
/// source must not change, until the copy has run. Throws std::invalid_argument if the sizes differ
/// or the ranges overlap, GpuError if the device refuses.
void copy_async(const StreamRef& stream, DeviceSpan to, PinnedSpan from);
/// Does the same, device to host (D2H).
void copy_async(const StreamRef& stream, PinnedSpan to, DeviceSpan from);
/// Does the same, within the device (D2D).
void copy_async(const StreamRef& stream, DeviceSpan to, DeviceSpan from);

/// One copy of several.
template <MemorySpace to_space, MemorySpace from_space>
struct Copy {
  MemorySpan<to_space> to;
  MemorySpan<from_space> from;
};
/// H2D, D2H, D2D.
using CopyToDevice = Copy<MemorySpace::kDevice, MemorySpace::kPinned>;
using CopyToHost = Copy<MemorySpace::kPinned, MemorySpace::kDevice>;
using CopyWithinDevice = Copy<MemorySpace::kDevice, MemorySpace::kDevice>;

/// Enqueues several copies, such as the tensors of a batch, 64 at a time as one operation if the
/// device can (Capabilities::batched_copies; CUDA 12.8: cudaMemcpyBatchAsync). They run in any
/// order among each other, after earlier work on `stream` and before later work. No destination may
/// overlap another range; this is checked only within each copy. Throws as copy_async does for one
/// copy; some copies may have been enqueued then. Allocates nothing.
void copy_async(const StreamRef& stream, std::span<const CopyToDevice> copies);
/// Does the same, device to host.
void copy_async(const StreamRef& stream, std::span<const CopyToHost> copies);
/// Does the same, within the device.
void copy_async(const StreamRef& stream, std::span<const CopyWithinDevice> copies);

}  // namespace leat::gpu
