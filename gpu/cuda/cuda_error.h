// Makes an exception of a cudaError_t.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace leat::gpu::cuda {

/// What the user can do about `code`; CUDA's own description if nothing is known. Empty for
/// cudaSuccess.
[[nodiscard]] std::string advice(cudaError_t code);

/// Throws the GpuError for `code`, or OutOfMemory. `call` is the function that returned it; `bytes`
/// is the size that was asked for, or 0.
[[noreturn]] void throw_error(cudaError_t code, const char* call, const std::string& device,
                              std::size_t bytes = 0);

}  // namespace leat::gpu::cuda
