// What a step does on the device: nothing but taking time, or matrix products.
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

/// Computes on the calling thread for so long: no park, no system call.
void compute_for(leat::Duration duration);

/// How much of a device a kernel occupies.
enum class Extent : bool { kOneBlock, kWholeDevice };
/// Enqueues a kernel that computes for so long, of the device's time. CUDA only. Throws GpuError.
void launch_busy(const leat::gpu::StreamRef& stream, leat::Duration duration, Extent extent);

/// C = A B of square matrices, all of A a half and all of B ones: all of C is half their width.
class Gemm {
 public:
  /// Has checked one product. Throws std::runtime_error where there is no cuBLAS.
  explicit Gemm(const leat::gpu::Stream& stream);
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;
  ~Gemm();
  /// On the stream that it was made with.
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

/// The work of a step on one device, and the stream that it is done on. For one fiber at a time.
class Compute {
 public:
  /// Throws leat::Error where the device cannot compute in that way, std::runtime_error where there
  /// is no cuBLAS, GpuError.
  Compute(const leat::gpu::Device& device, const Shape& shape);
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;
  ~Compute();

  [[nodiscard]] const leat::gpu::Stream& stream() const noexcept { return stream_; }
  /// Enqueues one step's. Throws GpuError.
  void enqueue();
  /// What it is, for people.
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
