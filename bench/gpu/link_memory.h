// The two ends of the link: host memory of each kind, and device memory; patterns in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "leat/gpu/buffer.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"

namespace bench {

/// Host memory that is copied from or to.
enum class HostKind : std::uint8_t {
  kPageable,       // operator new: CUDA copies through buffers of its own, while the caller waits
  kPinned,         // PinnedBuffer (cudaHostAlloc)
  kWriteCombined,  // PinnedBuffer with PinnedUse::kWriteCombined
  kArena,          // PinnedArena: the process's own pages, registered
  kShared,         // the same, of a memfd that other processes may map
};
[[nodiscard]] const char* to_string(HostKind kind) noexcept;

/// Owns up to `capacity` bytes of each. Host memory of one kind at a time: asking for another gives
/// back the first. By one thread.
class LinkMemory {
 public:
  LinkMemory(const leat::gpu::Device& device, std::size_t capacity);

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// All of it. Throws GpuError, std::bad_alloc.
  [[nodiscard]] leat::gpu::PinnedSpan host(HostKind kind);
  [[nodiscard]] leat::gpu::DeviceSpan device() const noexcept { return device_.span(); }

  /// The first `bytes` (a multiple of 8) become the pattern of `seed`, of which no word is that of
  /// another seed or place.
  static void fill(leat::gpu::PinnedSpan memory, std::size_t bytes, std::uint64_t seed);
  void fill_device(std::size_t bytes, std::uint64_t seed);
  /// Whether they are that. Memory that the CPU is slow to read is read by the device, whose own
  /// memory is overwritten.
  [[nodiscard]] bool host_is(HostKind kind, std::size_t bytes, std::uint64_t seed);
  [[nodiscard]] bool device_is(std::size_t bytes, std::uint64_t seed);

 private:
  struct FreeAligned {
    void operator()(std::byte* memory) const noexcept;
  };

  const std::size_t capacity_;
  const leat::gpu::Stream stream_;
  leat::gpu::DeviceBuffer device_;
  leat::gpu::PinnedBuffer scratch_;  // between the device and the CPU, for patterns
  // One of these:
  std::unique_ptr<std::byte, FreeAligned> pageable_;
  std::optional<leat::gpu::PinnedBuffer> pinned_;
  std::optional<leat::gpu::PinnedArena> arena_;
  std::optional<HostKind> kind_;
  leat::gpu::PinnedSpan host_;
};

/// What the kernel says of where the arena's pages are, for people.
[[nodiscard]] std::string placement_of(const leat::gpu::PinnedArena& arena);

}  // namespace bench
