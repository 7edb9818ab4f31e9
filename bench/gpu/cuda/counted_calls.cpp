#include "bench/gpu/cuda/counted_calls.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>

namespace {

std::atomic<std::uint64_t> g_device = 0;
std::atomic<std::uint64_t> g_pinned = 0;
std::atomic<std::uint64_t> g_events = 0;
std::atomic<std::uint64_t> g_streams = 0;

}  // namespace

// Names that are the linker's: it makes __wrap_f of calls to f, and f of __real_f.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

cudaError_t __real_cudaMalloc(void** memory, std::size_t bytes);
cudaError_t __wrap_cudaMalloc(void** memory, std::size_t bytes);
cudaError_t __wrap_cudaMalloc(void** memory, std::size_t bytes) {
  ++g_device;
  return __real_cudaMalloc(memory, bytes);
}

cudaError_t __real_cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream);
cudaError_t __wrap_cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  ++g_device;
  return __real_cudaMallocAsync(memory, bytes, stream);
}

cudaError_t __real_cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t __wrap_cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t __wrap_cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  ++g_pinned;
  return __real_cudaHostAlloc(memory, bytes, flags);
}

cudaError_t __real_cudaHostRegister(void* memory, std::size_t bytes, unsigned flags);
cudaError_t __wrap_cudaHostRegister(void* memory, std::size_t bytes, unsigned flags);
cudaError_t __wrap_cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  ++g_pinned;
  return __real_cudaHostRegister(memory, bytes, flags);
}

cudaError_t __real_cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t __wrap_cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  ++g_events;
  return __real_cudaEventCreateWithFlags(event, flags);
}

cudaError_t __real_cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  ++g_streams;
  return __real_cudaStreamCreateWithFlags(stream, flags);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace bench::cuda {

Calls counted_calls() noexcept {
  return {.device = g_device, .pinned = g_pinned, .events = g_events, .streams = g_streams};
}

}  // namespace bench::cuda
