// Memory: on the device, and pinned on the host.
//
// Example
//   leat::gpu::PinnedBuffer pinned(device, bytes);
//   leat::gpu::DeviceBuffer slot(device, bytes);
//   fill(pinned.span().bytes());
//   leat::gpu::copy_async(stream, slot.span(), pinned.span());
//
// Buffers own; spans are views that must not outlive them. Allocated once, freed by the destructor,
// which may run while work that uses the buffer is queued (the device finishes that work first).
// Moved from, a buffer is empty. Not thread-safe to assign to; otherwise as safe as the bytes.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::gpu {

/// Where memory lies. The type of a span carries it, so that a copy's direction is checked by the
/// compiler.
enum class Space : bool { kDevice, kPinned };

/// A view of device or of pinned memory.
template <Space space>
class MemorySpan {
 public:
  MemorySpan() = default;
  MemorySpan(void* data, std::size_t bytes) noexcept
      : data_(static_cast<std::byte*>(data)), size_(bytes) {}

  /// The address: for kernels, in device memory; for the CPU, in pinned memory.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
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

using DeviceSpan = MemorySpan<Space::kDevice>;
using PinnedSpan = MemorySpan<Space::kPinned>;

/// Owns device memory, or pinned host memory that the device copies from and to asynchronously.
template <Space space>
class Buffer {
 public:
  /// `bytes` may be 0. Throws GpuError where there is not enough memory.
  Buffer(Device device, std::size_t bytes);
  Buffer(Buffer&& other) noexcept : device_(other.device_), span_(std::exchange(other.span_, {})) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(span_, other.span_);
    return *this;
  }
  ~Buffer();

  [[nodiscard]] MemorySpan<space> span() const noexcept { return span_; }
  [[nodiscard]] MemorySpan<space> subspan(std::size_t offset, std::size_t bytes) const {
    return span_.subspan(offset, bytes);
  }
  [[nodiscard]] std::byte* data() const noexcept { return span_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return span_.size(); }
  [[nodiscard]] const Device& device() const noexcept { return device_; }

 private:
  Device device_;
  MemorySpan<space> span_;
};

using DeviceBuffer = Buffer<Space::kDevice>;
using PinnedBuffer = Buffer<Space::kPinned>;

/// Enqueues a copy on `stream`; both spans must live, and the source stay as it is, until it has
/// run. Throws std::invalid_argument where the sizes differ or the ranges overlap, GpuError where
/// the device refuses.
void copy_async(const StreamRef& stream, DeviceSpan to, PinnedSpan from);  // H2D
void copy_async(const StreamRef& stream, PinnedSpan to, DeviceSpan from);  // D2H
void copy_async(const StreamRef& stream, DeviceSpan to, DeviceSpan from);  // D2D

}  // namespace leat::gpu
