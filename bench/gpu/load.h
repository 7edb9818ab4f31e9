// Work to copy beside, and kernels of a given duration.
#pragma once

#include <memory>
#include <string>

#include "leat/csp/clock.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/compute.h"

namespace bench {

/// Enqueues a kernel that computes for `duration`, of the device's time: one block of it on CUDA,
/// one CPU on the host device. Throws GpuError.
void enqueue_kernel(const leat::gpu::StreamRef& stream, leat::Duration duration);

/// Work that fills the device, to copy beside: matrix products by cuBLAS where that library can be
/// loaded, else (CUDA) a kernel that occupies every multiprocessor, else (host device) one CPU.
class Load {
 public:
  /// Has checked one product's result, and has measured a unit.
  explicit Load(const leat::gpu::Device& device);

  /// Its own stream, on which units run.
  [[nodiscard]] const leat::gpu::Stream& stream() const noexcept { return work_->stream(); }
  /// Enqueues a unit of it. Throws GpuError.
  void enqueue() { work_->enqueue(); }
  /// What it is, for people.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// How long a unit takes on a device that does nothing else.
  [[nodiscard]] leat::Duration unit() const noexcept { return unit_; }

 private:
  std::unique_ptr<overlap::Compute> work_;
  std::string name_;
  leat::Duration unit_{};
};

}  // namespace bench
