// Compute to copy beside, and kernels of a given duration.
#pragma once

#include <memory>
#include <string>

#include "leat/csp/clock.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/compute.h"

namespace bench {

/// Enqueues a kernel that computes for `duration`, of the device's time: one block of it on CUDA,
/// one CPU on the host device. Throws GpuError.
void enqueue_kernel(const leat::gpu::StreamRef& stream, leat::Duration duration);

/// Work that fills the device: matrix products by cuBLAS where that library can be loaded, else
/// (CUDA) a kernel that occupies every multiprocessor, else (host device) one CPU.
class Compute {
 public:
  /// Has checked one product's result, and has measured a unit.
  explicit Compute(const leat::gpu::Device& device);
  Compute(const Compute&) = delete;
  Compute& operator=(const Compute&) = delete;
  ~Compute();

  /// Its own stream, on which units run.
  [[nodiscard]] const leat::gpu::Stream& stream() const noexcept { return stream_; }
  /// Enqueues a unit of it. Throws GpuError.
  void enqueue();
  /// What it is, for people.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// How long a unit takes on a device that does nothing else.
  [[nodiscard]] leat::Duration unit() const noexcept { return unit_; }

 private:
  const leat::gpu::Stream stream_;
  std::unique_ptr<overlap::Gemm> gemm_;  // null: the kernel
  std::string name_;
  leat::Duration unit_{};
};

}  // namespace bench
