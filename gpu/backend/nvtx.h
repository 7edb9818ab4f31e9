// Ranges on the time lines of profilers, such as Nsight Systems. gpu/cuda/nvtx.cpp has them of
// NVTX; in a build without it, gpu/cuda/nvtx_absent.cpp says that nobody records any.
#pragma once

#include <cstdint>

namespace leat::gpu::nvtx {

/// Returns whether a profiler records ranges. The first call of a process decides: it loads the
/// profiler's library, if the profiler has named one in the environment, which needs some stack.
/// Thread-safe.
[[nodiscard]] bool is_recording() noexcept;

/// Begins a range and returns its number, 0 for none. `name` is copied. For those who know that a
/// profiler records: the library that was loaded is called. Thread-safe.
[[nodiscard]] std::uint64_t start(const char* name) noexcept;

/// Ends a range, on any thread. Ranges may overlap. Thread-safe.
void end(std::uint64_t range) noexcept;

}  // namespace leat::gpu::nvtx
