#include "leat/gpu/cuda/batch_copy.h"

namespace leat::gpu::cuda {

bool has_batch_copy() noexcept { return false; }

cudaError_t batch_copy(const BatchCopy& /*copies*/, cudaStream_t /*stream*/) noexcept {
  return cudaErrorNotSupported;
}

}  // namespace leat::gpu::cuda
