// Memory: on the device, and pinned on the host.
//
// Example
//   leat::gpu::PinnedBuffer pinned(device, bytes);
//   leat::gpu::DeviceBuffer slot(device, bytes);
//   fill(pinned.span().bytes());
//   leat::gpu::copy_async(stream, slot.span(), pinned.span());
//
// Buffers own; spans are views that must not outlive them. Allocated once, freed by the destructor,
// which may run while work that uses the buffer is queued on Streams of its device (which finishes
// that work first, for which the destructor may wait); work on other devices, on the same one
// opened again, and on foreign streams must have run. Moved from, a buffer is empty. Not
// thread-safe to assign to; otherwise as safe as the bytes.
//
// Where that cannot be waited for, because a Stream of the device is being captured into a graph or
// the device has failed, the memory is not freed, and goes on counting: end captures first.
//
// What the buffers of a device take counts against its MemoryCaps.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "leat/gpu/backend/memory_account.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::gpu {

/// A view of device or of pinned memory.
template <Space space>
class MemorySpan {
 public:
  MemorySpan() = default;
  /// `bytes` at `data`, which lie in that kind of memory: nobody checks it.
  MemorySpan(void* data, std::size_t bytes) noexcept
      : data_(static_cast<std::byte*>(data)), size_(bytes) {}

  /// The address: for kernels, in device memory; for the CPU, in pinned memory.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// In bytes.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// [offset, offset + bytes). Throws std::out_of_range if that is not inside.
  [[nodiscard]] MemorySpan subspan(std::size_t offset, std::size_t bytes) const;
  /// The bytes, for the CPU.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept requires(space == Space::kPinned) {
    return {data_, size_};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Neither converts to the other.
using DeviceSpan = MemorySpan<Space::kDevice>;
using PinnedSpan = MemorySpan<Space::kPinned>;

/// Owns device memory, or pinned host memory that the device copies from and to asynchronously. For
/// the slots of a ring, see PinnedArena (gpu/pinned_arena.h).
template <Space space>
class Buffer {
 public:
  /// `bytes` may be 0. Aligned to 256 bytes, pinned memory to a page. Throws GpuError where there
  /// is not enough memory, or the device's cap does not allow for it.
  Buffer(const Device& device, std::size_t bytes);
  /// Device memory in the order of `stream`, out of the device's pool: may be used by what is
  /// enqueued there from now on, and elsewhere by what waits for that. Its destructor does not
  /// wait: the memory goes when what is enqueued on `stream` by then has run, so all other work on
  /// it has to come before that (let `stream` wait for it). A Stream may be destroyed before the
  /// buffer, a foreign stream must outlive it; neither may be in a capture then. Where the device
  /// has no pool (Capabilities::stream_ordered_memory), the memory is as that of the first
  /// constructor. (CUDA: cudaMallocAsync, cudaFreeAsync.)
  Buffer(const StreamRef& stream, std::size_t bytes) requires(space == Space::kDevice);
  /// Pinned memory for that use by the CPU.
  Buffer(const Device& device, std::size_t bytes, PinnedUse use) requires(space == Space::kPinned);
  Buffer(Buffer&& other) noexcept
      : device_(other.device_),
        span_(std::exchange(other.span_, {})),
        stream_(std::exchange(other.stream_, StreamHandle::kNone)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));  // whose destructor frees what was here
    std::swap(device_, taken.device_);
    std::swap(span_, taken.span_);
    std::swap(stream_, taken.stream_);
    return *this;
  }
  ~Buffer();

  /// A view of all of it; empty where the buffer is.
  [[nodiscard]] MemorySpan<space> span() const noexcept { return span_; }
  /// As that view's.
  [[nodiscard]] MemorySpan<space> subspan(std::size_t offset, std::size_t bytes) const {
    return span_.subspan(offset, bytes);
  }
  [[nodiscard]] std::byte* data() const noexcept { return span_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }
  /// That it was made with; of an empty one too.
  [[nodiscard]] const Device& device() const noexcept { return device_; }

 private:
  template <class Allocate>
  void make(std::size_t bytes, const Allocate& allocate);

  Device device_;
  MemorySpan<space> span_;
  StreamHandle stream_ = StreamHandle::kNone;  // in whose order it was allocated
};

/// The two kinds of buffer.
using DeviceBuffer = Buffer<Space::kDevice>;
using PinnedBuffer = Buffer<Space::kPinned>;

/// Enqueues a copy on `stream`; both spans must live, and the source stay as it is, until it has
/// run. Throws std::invalid_argument where the sizes differ or the ranges overlap, GpuError where
/// the device refuses.
void copy_async(const StreamRef& stream, DeviceSpan to, PinnedSpan from);  // H2D
void copy_async(const StreamRef& stream, PinnedSpan to, DeviceSpan from);  // D2H
void copy_async(const StreamRef& stream, DeviceSpan to, DeviceSpan from);  // D2D

/// A copy among several.
template <Space to_space, Space from_space>
struct Copy {
  MemorySpan<to_space> to;
  MemorySpan<from_space> from;
};
/// H2D, D2H, D2D.
using CopyToDevice = Copy<Space::kDevice, Space::kPinned>;
using CopyToHost = Copy<Space::kPinned, Space::kDevice>;
using CopyWithinDevice = Copy<Space::kDevice, Space::kDevice>;

/// Enqueues several copies as one operation (64 at a time) where the device can
/// (Capabilities::batched_copies; CUDA 12.8: cudaMemcpyBatchAsync), for a batch of several tensors:
/// they run in any order among each other, after what was enqueued before and before what comes
/// after. No destination may overlap another range: of the copy itself it is checked. Throws as
/// copy_async; then some may have been enqueued. Allocates nothing.
void copy_async(const StreamRef& stream, std::span<const CopyToDevice> copies);
void copy_async(const StreamRef& stream, std::span<const CopyToHost> copies);
void copy_async(const StreamRef& stream, std::span<const CopyWithinDevice> copies);

}  // namespace leat::gpu
