// Several copies as one operation. Of the files that implement it the build takes the one that the
// toolkit can compile: batch_copy.cpp from CUDA 13.0 on, batch_copy_12.cpp from 12.8 on, and before
// that batch_copy_absent.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

namespace leat::gpu::cuda {

/// As cudaMemcpyBatchAsync takes them; all of the same length, at least 1.
struct BatchCopy {
  std::span<void*> to;
  std::span<const void*> from;
  std::span<std::size_t> bytes;
};

/// Whether this build has it. A driver that lacks it says so by its error.
[[nodiscard]] bool has_batch_copy() noexcept;
/// cudaMemcpyBatchAsync, its sources read in stream order.
[[nodiscard]] cudaError_t batch_copy(const BatchCopy& copies, cudaStream_t stream) noexcept;

}  // namespace leat::gpu::cuda
