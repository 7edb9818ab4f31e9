#include "leat/gpu/cuda/batch_copy.h"

namespace leat::gpu::cuda {

bool has_batch_copy() noexcept { return true; }

cudaError_t batch_copy(const BatchCopy& copies, cudaStream_t stream) noexcept {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  return cudaMemcpyBatchAsync(copies.to.data(), copies.from.data(), copies.bytes.data(),
                              copies.to.size(), &attributes, &first, 1, stream);
}

}  // namespace leat::gpu::cuda
