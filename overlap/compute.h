// The work of a step on the device: it only takes time, or computes matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "leat/csp/clock.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/shape.h"

namespace overlap {

class Cublas;

/// Computes on the calling thread for `duration`, without parking and without system calls.
void compute_for(leat::Duration duration);

/// How much of a device a kernel occupies.
enum class Occupancy : bool { kOneBlock, kWholeDevice };
/// Enqueues a kernel that computes for `duration` of the device's time. CUDA only. Throws GpuError.
void launch_busy(const leat::gpu::StreamRef& stream, leat::Duration duration, Occupancy occupancy);

/// C = A B of square matrices. A is all 0.5 and B all 1, so every element of C is half the width.
class Gemm {
 public:
  /// Computes one product and checks the result. Throws std::runtime_error if there is no cuBLAS.
  explicit Gemm(const leat::gpu::Stream& stream);
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;
  ~Gemm();
  /// Enqueues a product on `stream`, which must be the constructor's.
  void enqueue(const leat::gpu::Stream& stream);
  /// "SGEMM 2048^3 by cuBLAS 13.1.0 of /usr/local/cuda/lib64/libcublas.so.13".
  [[nodiscard]] std::string name() const;

 private:
  static constexpr int kWidth = 2048;
  static constexpr std::ptrdiff_t kElements = std::ptrdiff_t{kWidth} * kWidth;
  static constexpr std::size_t kBytes = sizeof(float) * kElements;

  leat::gpu::DeviceBuffer a_;
  leat::gpu::DeviceBuffer b_;
  leat::gpu::DeviceBuffer c_;
  std::unique_ptr<Cublas> blas_;
};

/// The work of a step on one device, and the stream that it runs on. Not thread-safe.
class Compute {
 public:
  /// Throws leat::Error if the device cannot compute in the shape's way, std::runtime_error if
  /// there is no cuBLAS, and GpuError.
  Compute(const leat::gpu::Device& device, const Shape& shape);
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;
  ~Compute();

  [[nodiscard]] const leat::gpu::Stream& stream() const noexcept { return stream_; }
  /// Enqueues the work of one step. Throws GpuError.
  void enqueue();
  /// Describes the work, for people.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  const Computing how_;
  const leat::Duration t_c_;
  const leat::gpu::Stream stream_;
  std::int64_t products_;  // in a step
  std::unique_ptr<Gemm> gemm_;
  std::string name_;
};

}  // namespace overlap
