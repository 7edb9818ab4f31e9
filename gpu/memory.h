// Kinds of memory, and how much of each the buffers of one opened device may take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leat/csp/base/required.h"

namespace leat::gpu {

/// Where memory lies. It is part of a span's type, so the compiler checks the direction of a copy.
enum class MemorySpace : bool { kDevice, kPinned };
/// "device" or "pinned", for messages.
[[nodiscard]] constexpr const char* to_string(MemorySpace space) noexcept {
  return space == MemorySpace::kDevice ? "device" : "pinned";
}

/// How the CPU uses pinned memory.
enum class PinnedUse : std::uint8_t {
  kReadWrite,
  /// Written in order and never read, because reads are very slow. CUDA:
  /// cudaHostAllocWriteCombined. The host device uses ordinary memory.
  kWriteCombined,
};

/// Limits in bytes for all buffers and arenas of one opened device together; 0: no limit. An
/// allocation over the limit throws GpuError and allocates nothing.
struct MemoryCaps {
  std::size_t device_bytes = 0;
  std::size_t pinned_bytes = 0;
};

/// Bytes that the buffers and arenas of one opened device take, of one kind of memory.
struct MemoryFigures {
  std::size_t used = 0;
  std::size_t peak = 0;  // the highest value of `used` so far
  std::size_t cap = 0;   // 0: no limit
};
/// The figures of both kinds of memory.
struct MemoryUse {
  MemoryFigures device;
  MemoryFigures pinned;
};

/// Where the pages of an arena lie, as the kernel reports it.
struct PagePlacement {
  std::size_t bytes = 0;
  std::size_t huge_bytes = 0;  // bytes in huge pages; 0 also where /proc/self/smaps is missing
  int numa_node = -1;          // the node that was asked for; -1: any
  std::size_t node_bytes = 0;  // bytes on that node; all bytes if numa_node is -1
  bool node_known = false;     // false: the kernel did not report the nodes
};

}  // namespace leat::gpu
