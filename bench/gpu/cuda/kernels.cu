// A kernel that holds a stream. (One that keeps the device busy is in overlap/cuda/.)
#include <cuda_runtime.h>

#include "bench/gpu/cuda/kernels.h"

namespace bench::cuda {
namespace {

// Nanoseconds of a clock that all multiprocessors share.
__device__ std::uint64_t device_time() {
  std::uint64_t ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void hold_kernel(HoldWords* words, std::uint32_t number, std::uint64_t timeout_ns) {
  const std::uint64_t start = device_time();
  const volatile std::uint32_t* const open = &words->open;
  while (*open != number) {
    if (device_time() - start > timeout_ns) {
      ++words->expired;
      return;
    }
  }
}

const char* outcome() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char* use_device(int number) {
  const cudaError_t error = cudaSetDevice(number);
  if (error == cudaSuccess) return nullptr;
  static_cast<void>(cudaGetLastError());
  return cudaGetErrorString(error);
}

const char* launch_hold(HoldWords* words, std::uint32_t number, std::uint64_t timeout_ns,
                        void* stream) {
  hold_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(words, number, timeout_ns);
  return outcome();
}

}  // namespace bench::cuda
