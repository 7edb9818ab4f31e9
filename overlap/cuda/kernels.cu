// A kernel that keeps the device busy for a given time.
#include <cuda_runtime.h>

#include "leat/overlap/kernels.h"

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 4;
constexpr int kUnroll = 64;  // steps between two looks at the clock

// Nanoseconds of a clock that all multiprocessors share.
__device__ uint64_t device_time() {
  uint64_t ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void busy_kernel(uint64_t ns, float never) {
  const uint64_t start = device_time();
  float x = static_cast<float>(threadIdx.x);
  do {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) x = fmaf(x, 0.999F, 0.5F);
  } while (device_time() - start < ns);
  if (x == never) asm volatile("trap;");  // so that x is needed; it never has that value
}

const char* outcome(cudaError_t error) {
  if (error == cudaSuccess) return nullptr;
  static_cast<void>(cudaGetLastError());
  return cudaGetErrorString(error);
}

}  // namespace

const char* leat_overlap_use_device(int number) { return outcome(cudaSetDevice(number)); }

const char* leat_overlap_launch_busy(uint64_t ns, int whole_device, void* stream) {
  int blocks = 1;
  if (whole_device != 0) {
    int device = 0;
    int multiprocessors = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
      error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    }
    if (error != cudaSuccess) return outcome(error);
    blocks = multiprocessors * kBlocksPerMultiprocessor;
  }
  busy_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(ns, -1.0F);
  return outcome(cudaGetLastError());
}
