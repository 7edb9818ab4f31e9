// From a cudaError_t to a GpuError.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace leat::gpu::cuda {

/// What to do about `code`, or CUDA's own description of it. Empty for cudaSuccess.
[[nodiscard]] std::string advice(cudaError_t code);

/// Throws the GpuError for `code`. `call` is the function that returned it; `bytes`, if any, is
/// what it was asked for.
[[noreturn]] void throw_error(cudaError_t code, const char* call, const std::string& device,
                              std::size_t bytes = 0);

}  // namespace leat::gpu::cuda
