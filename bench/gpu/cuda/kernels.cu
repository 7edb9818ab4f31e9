// Kernels whose duration is the point: one that holds a stream, one that keeps the device busy.
#include <cuda_runtime.h>

#include "leat/bench/gpu/cuda/kernels.h"

namespace bench::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 4;
constexpr int kUnroll = 64;  // steps between two looks at the clock

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

__global__ void busy_kernel(std::uint64_t ns, float never) {
  const std::uint64_t start = device_time();
  float x = static_cast<float>(threadIdx.x);
  do {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) x = fmaf(x, 0.999F, 0.5F);
  } while (device_time() - start < ns);
  if (x == never) asm volatile("trap;");  // so that x is needed; it never has that value
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

const char* launch_busy(std::uint64_t ns, bool whole_device, void* stream) {
  int blocks = 1;
  if (whole_device) {
    int device = 0;
    int multiprocessors = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess) {
      return outcome();
    }
    blocks = multiprocessors * kBlocksPerMultiprocessor;
  }
  busy_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(ns, -1.0F);
  return outcome();
}

}  // namespace bench::cuda
