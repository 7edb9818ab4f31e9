// One region of pinned memory, for the slots of a ring.
//
// Example
//   leat::gpu::PinnedArena arena(device, slots * bytes);
//   for (auto& slot : ring) slot.pinned = arena.take(bytes);
//
// Its pages are the process's own: huge where there are any, on the device's NUMA node where that
// is known, and pinned in one go (CUDA: registered in steps of at most 256 MiB, portable; a copy
// that would cross from one registration to the next is made in pieces). Where the device does not
// pin pages that it has not allocated, the arena is a PinnedBuffer instead. What became of it,
// placement() tells.
//
// Counts against MemoryCaps::pinned_bytes. Allocated once: take() allocates nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "leat/gpu/backend/host_pages.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"

namespace leat::gpu {

/// Owns pinned memory and hands out parts of it. The spans must not outlive it. take() by one
/// thread or fiber at a time.
///
/// The destructor waits for work that is queued on Streams of its device, as a PinnedBuffer's does;
/// work on other devices' and on foreign streams must have run. Where that cannot be waited for, as
/// a buffer's (gpu/buffer.h), the pages are never given back.
class PinnedArena {
 public:
  /// `bytes` > 0; whole pages are pinned for it. Throws std::invalid_argument for 0; GpuError where
  /// there is not enough memory, or the device's cap does not allow for it.
  PinnedArena(const Device& device, std::size_t bytes);
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;
  ~PinnedArena();

  /// The next `bytes`, which nobody else gets, beginning at a multiple of `alignment` (a power of
  /// two, at most a page). Throws GpuError where not so much is left, std::invalid_argument for
  /// another alignment.
  [[nodiscard]] PinnedSpan take(std::size_t bytes, std::size_t alignment = 4096);

  /// The bytes that were asked for.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// The bytes behind those that were handed out. Not while somebody takes some.
  [[nodiscard]] std::size_t left() const noexcept { return capacity_ - used_; }
  /// Where its pages lie. Where the device has allocated them itself: what was asked for.
  [[nodiscard]] PagePlacement placement() const;
  /// Empty if the arena's pages are pinned; else why the device has allocated them itself.
  [[nodiscard]] const std::string& fallback() const noexcept { return fallback_reason_; }
  /// That it was made with.
  [[nodiscard]] const Device& device() const noexcept { return device_; }

 private:
  void cancel_unless_abandoned(std::size_t bytes) noexcept;

  const Device device_;
  std::optional<HostPages> pages_;      // one of them
  std::optional<PinnedBuffer> buffer_;  // or this
  std::string fallback_reason_;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

}  // namespace leat::gpu
