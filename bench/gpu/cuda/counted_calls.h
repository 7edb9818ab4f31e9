// How often the program has asked CUDA for something that costs an allocation: memory, pinned
// memory, events, streams. The linker sends these calls through counters (--wrap, see
// bench/gpu/CMakeLists.txt), so that Leat's are counted where they are made.
#pragma once

#include <cstdint>

namespace bench::cuda {

struct Calls {
  std::uint64_t device = 0;  // cudaMalloc, cudaMallocAsync
  std::uint64_t pinned = 0;  // cudaHostAlloc, cudaHostRegister
  std::uint64_t events = 0;  // cudaEventCreateWithFlags
  std::uint64_t streams = 0;

  [[nodiscard]] std::uint64_t sum() const noexcept { return device + pinned + events + streams; }
};

/// All so far; zero in a build without the CUDA Toolkit, which makes none.
[[nodiscard]] Calls counted_calls() noexcept;

}  // namespace bench::cuda
