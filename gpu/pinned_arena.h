// One region of pinned memory, for the slots of a ring.
//
// Example
//   leat::gpu::PinnedArena arena(device, slots * bytes);
//   for (auto& slot : ring) slot.pinned = arena.take(bytes);
//
// The process allocates the pages: huge pages if the kernel has any, on the device's NUMA node if
// that is known. The device then pins them (CUDA: registered in steps of at most 256 MiB, portable;
// a copy across two registrations is made in pieces). If the device cannot pin such pages, the
// arena is a PinnedBuffer instead. placement() and fallback() tell the outcome.
//
// A shared arena is a memfd that other processes map and write to, by descriptor(); only this
// process pins it. If the device cannot pin such pages, what others write has to be copied:
// take_over().
//
// Counts against MemoryCaps::pinned_bytes. Allocated once: take() allocates nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "leat/gpu/backend/page_mapping.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/memory.h"

namespace leat::gpu {

/// Owns pinned memory and hands out parts of it. The spans must not outlive the arena. Not
/// thread-safe: take() by one thread or fiber at a time.
///
/// The destructor waits for work that is queued on Streams of the device; work elsewhere must have
/// run before. The arena never frees pages if it cannot wait for the work on them (gpu/buffer.h).
class PinnedArena {
 public:
  /// Allocates `bytes` bytes and pins the whole pages that hold them. Throws std::invalid_argument
  /// for 0 bytes; OutOfMemory if there is not enough memory; GpuError if the device's MemoryCaps do
  /// not allow it; std::system_error if a shared arena finds no descriptor.
  PinnedArena(const Device& device, std::size_t bytes, PageSharing sharing = PageSharing::kPrivate);
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;
  ~PinnedArena();

  /// Hands out the next `bytes` bytes, beginning at a multiple of `alignment` (a power of two, at
  /// most 4096). Throws GpuError if not enough are left, std::invalid_argument for another
  /// alignment.
  [[nodiscard]] PinnedSpan take(std::size_t bytes, std::size_t alignment = 4096);

  /// Returns the memfd of a shared arena, whose bytes are those of the arena; -1: it is private.
  [[nodiscard]] int descriptor() const noexcept;
  /// Returns the bytes of a shared arena that other processes write to.
  [[nodiscard]] std::span<std::byte> shared() const noexcept;
  /// Has the first `bytes` bytes of shared() in the memory that take() hands out: copies them, if
  /// fallback() says that the device has allocated that memory itself.
  void take_over(std::size_t bytes) noexcept;

  /// Returns the bytes that were asked for.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Returns the bytes that were not handed out yet. Do not call during take().
  [[nodiscard]] std::size_t left() const noexcept { return capacity_ - used_; }
  /// Returns where the pages lie. Asks the kernel about every page: milliseconds for a gigabyte. If
  /// the device has allocated the memory itself: the size and the node that were asked for.
  [[nodiscard]] PagePlacement placement() const;
  /// Returns why the device has allocated the memory itself; empty if the arena's pages are pinned.
  [[nodiscard]] const std::string& fallback() const noexcept { return fallback_reason_; }
  /// Returns the device that the arena was made with.
  [[nodiscard]] const Device& device() const noexcept { return device_; }

 private:
  void rollback_unless_abandoned(std::size_t bytes) noexcept;

  const Device device_;
  std::optional<PageMapping> pages_;     // that are pinned
  std::optional<PageMapping> unpinned_;  // of a shared arena
  std::optional<PinnedBuffer> buffer_;   // that the device copies in their place
  std::string fallback_reason_;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

}  // namespace leat::gpu
