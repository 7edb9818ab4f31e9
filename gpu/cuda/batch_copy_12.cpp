// With the signature that cudaMemcpyBatchAsync has in CUDA 12.8 and 12.9.

#include "leat/gpu/cuda/batch_copy.h"

namespace leat::gpu::cuda {

bool has_batch_copy() noexcept { return true; }

cudaError_t batch_copy(const BatchCopy& copies, cudaStream_t stream) noexcept {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  std::size_t failed = 0;
  // It takes sources as void*, and does not write to them.
  return cudaMemcpyBatchAsync(copies.to.data(), const_cast<void**>(copies.from.data()),
                              copies.bytes.data(), copies.to.size(), &attributes, &first, 1,
                              &failed, stream);
}

}  // namespace leat::gpu::cuda
