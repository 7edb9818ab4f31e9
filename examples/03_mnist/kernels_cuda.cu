// The kernels on CUDA. Invariants:
//
// - No atomics: each output element is summed by one thread in a fixed order, and the metrics by
//   one block in a fixed tree, so the same input gives the same bits.
// - A matrix product gives each thread one element of a kTile x kTile tile of the result; threads
//   beyond the matrix's edge load zeros and store nothing, but reach every barrier.
// - Launchers allocate nothing, never synchronise, and may be captured into a graph.
#include <cuda_runtime.h>

#include "examples/03_mnist/kernels.h"

namespace mnist::cuda {
namespace {

constexpr unsigned kTile = 16;
constexpr unsigned kThreads = 256;
// Blocks of an element-wise kernel, which strides over the rest: enough to fill any GPU.
constexpr std::size_t kMaxBlocks = 1024;

// Row and column of the result this thread computes.
__device__ std::size_t tile_row() { return std::size_t{blockIdx.y} * kTile + threadIdx.y; }
__device__ std::size_t tile_column() { return std::size_t{blockIdx.x} * kTile + threadIdx.x; }

__device__ std::size_t first_element() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ std::size_t element_stride() { return std::size_t{gridDim.x} * blockDim.x; }

// Element (tile_row(), tile_column()) of a · b, where a(row, k) and b(k, column) give elements,
// zero outside the matrices. To be called by the whole block, once in a kernel.
template <typename A, typename B>
__device__ float product(A a, B b, std::size_t depth) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile];
  float sum = 0.0F;
  for (std::size_t k = 0; k < depth; k += kTile) {
    a_tile[threadIdx.y][threadIdx.x] = a(tile_row(), k + threadIdx.x);
    b_tile[threadIdx.y][threadIdx.x] = b(k + threadIdx.y, tile_column());
    __syncthreads();
    for (unsigned i = 0; i < kTile; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
    // Nobody may overwrite the tiles while another thread still sums them.
    __syncthreads();
  }
  return sum;
}

__global__ void normalise_kernel(Normalise args) {
  constexpr float kScale = 1.0F / (255.0F * kPixelDeviation);
  constexpr float kOffset = kPixelMean / kPixelDeviation;
  for (std::size_t i = first_element(); i < args.count; i += element_stride()) {
    args.y[i] = static_cast<float>(args.pixels[i]) * kScale - kOffset;
  }
}

__global__ void linear_forward_kernel(LinearForward args) {
  const auto x = [&](std::size_t row, std::size_t k) {
    return row < args.batch && k < args.inputs ? args.x[row * args.inputs + k] : 0.0F;
  };
  const auto weights = [&](std::size_t k, std::size_t column) {
    return k < args.inputs && column < args.outputs ? args.weights[k * args.outputs + column]
                                                    : 0.0F;
  };
  const float sum = product(x, weights, args.inputs);
  const std::size_t row = tile_row();
  const std::size_t column = tile_column();
  if (row >= args.batch || column >= args.outputs) return;
  const float y = sum + args.bias[column];
  args.y[row * args.outputs + column] = args.relu && !(y > 0.0F) ? 0.0F : y;
}

// One block. A thread takes every kThreads-th sample.
__global__ void softmax_cross_entropy_kernel(SoftmaxCrossEntropy args) {
  __shared__ double losses[kThreads];
  __shared__ unsigned long long corrects[kThreads];
  double loss = 0.0;
  unsigned long long correct = 0;
  for (std::size_t b = threadIdx.x; b < args.batch; b += kThreads) {
    const float* const z = args.logits + b * args.classes;
    const std::size_t label = args.labels[b];
    std::size_t largest = 0;
    for (std::size_t c = 1; c < args.classes; ++c) {
      if (z[c] > z[largest]) largest = c;
    }
    // Shifted by the largest logit, no exponential overflows and their sum is at least 1.
    const float shift = z[largest];
    float sum = 0.0F;
    for (std::size_t c = 0; c < args.classes; ++c) sum += expf(z[c] - shift);
    loss += static_cast<double>(logf(sum) - (z[label] - shift));
    correct += largest == label ? 1U : 0U;
    if (args.dlogits == nullptr) continue;
    float* const dz = args.dlogits + b * args.classes;
    for (std::size_t c = 0; c < args.classes; ++c) {
      const float target = c == label ? 1.0F : 0.0F;
      dz[c] = (expf(z[c] - shift) / sum - target) / static_cast<float>(args.batch) * args.scale;
    }
  }
  losses[threadIdx.x] = loss;
  corrects[threadIdx.x] = correct;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      losses[threadIdx.x] += losses[threadIdx.x + half];
      corrects[threadIdx.x] += corrects[threadIdx.x + half];
    }
  }
  if (threadIdx.x == 0) {
    args.metrics->loss += losses[0];
    args.metrics->correct += corrects[0];
    args.metrics->samples += args.batch;
  }
}

// The bias is the weight of one more input that is always 1: row `inputs` of xᵀ · dy.
__global__ void linear_backward_parameters_kernel(LinearBackward args) {
  const auto x_transposed = [&](std::size_t row, std::size_t k) {
    if (k >= args.batch || row > args.inputs) return 0.0F;
    return row == args.inputs ? 1.0F : args.x[k * args.inputs + row];
  };
  const auto dy = [&](std::size_t k, std::size_t column) {
    return k < args.batch && column < args.outputs ? args.dy[k * args.outputs + column] : 0.0F;
  };
  const float sum = product(x_transposed, dy, args.batch);
  const std::size_t row = tile_row();
  const std::size_t column = tile_column();
  if (row > args.inputs || column >= args.outputs) return;
  float* const gradient = row == args.inputs ? args.dbias : args.dweights + row * args.outputs;
  gradient[column] = args.adds ? gradient[column] + sum : sum;
}

__global__ void linear_backward_input_kernel(LinearBackward args) {
  const auto dy = [&](std::size_t row, std::size_t k) {
    return row < args.batch && k < args.outputs ? args.dy[row * args.outputs + k] : 0.0F;
  };
  const auto weights_transposed = [&](std::size_t k, std::size_t column) {
    return k < args.outputs && column < args.inputs ? args.weights[column * args.outputs + k]
                                                    : 0.0F;
  };
  const float sum = product(dy, weights_transposed, args.outputs);
  const std::size_t row = tile_row();
  const std::size_t column = tile_column();
  if (row >= args.batch || column >= args.inputs) return;
  const std::size_t i = row * args.inputs + column;
  args.dx[i] = args.relu && !(args.x[i] > 0.0F) ? 0.0F : sum;
}

__global__ void sgd_momentum_kernel(SgdMomentum args) {
  for (std::size_t i = first_element(); i < args.count; i += element_stride()) {
    const float velocity = args.momentum * args.velocity[i] + args.gradient[i];
    args.velocity[i] = velocity;
    args.parameters[i] -= args.learning_rate * velocity;
  }
}

// Returns the launch's own error: cudaGetLastError() after <<<>>> might tell, and clear, somebody
// else's.
template <typename Args>
const char* launch(void (*kernel)(Args), dim3 grid, dim3 block, const Args& args, void* stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, args);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

template <typename Args>
const char* launch_elements(void (*kernel)(Args), const Args& args, void* stream) {
  const std::size_t blocks = (args.count + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks));
  return launch(kernel, grid, dim3(kThreads), args, stream);
}

// One thread for each element of the result, in tiles.
template <typename Args>
const char* launch_product(void (*kernel)(Args), std::size_t rows, std::size_t columns,
                           const Args& args, void* stream) {
  const dim3 grid(static_cast<unsigned>((columns + kTile - 1) / kTile),
                  static_cast<unsigned>((rows + kTile - 1) / kTile));
  return launch(kernel, grid, dim3(kTile, kTile), args, stream);
}

}  // namespace

const char* use_device(int number) {
  const cudaError_t error = cudaSetDevice(number);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

const char* normalise(const Normalise& args, void* stream) {
  return launch_elements(normalise_kernel, args, stream);
}

const char* linear_forward(const LinearForward& args, void* stream) {
  return launch_product(linear_forward_kernel, args.batch, args.outputs, args, stream);
}

const char* softmax_cross_entropy(const SoftmaxCrossEntropy& args, void* stream) {
  return launch(softmax_cross_entropy_kernel, dim3(1), dim3(kThreads), args, stream);
}

const char* linear_backward(const LinearBackward& args, void* stream) {
  const char* error = nullptr;
  if (args.dweights != nullptr) {
    error = launch_product(linear_backward_parameters_kernel, args.inputs + 1, args.outputs, args,
                           stream);
  }
  if (error != nullptr || args.dx == nullptr) return error;
  return launch_product(linear_backward_input_kernel, args.batch, args.inputs, args, stream);
}

const char* sgd_momentum(const SgdMomentum& args, void* stream) {
  return launch_elements(sgd_momentum_kernel, args, stream);
}

}  // namespace mnist::cuda
