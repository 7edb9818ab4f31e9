// Functions that a stream calls on a thread of the driver's.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "leat/csp/unique_function.h"

namespace leat::gpu::cuda {

/// What CUDA does not know: that a host function has thrown. From then on the device counts as
/// failed, as after an error of CUDA's own. The first exception stays. Thread-safe.
class Failure {
 public:
  explicit Failure(std::string device_name) : device_name_(std::move(device_name)) {}
  /// Called while an exception is handled.
  void remember_current_exception() noexcept;
  /// Throws the GpuError that tells of it, if there is one.
  void rethrow() const {
    // acquire: pairs with the release that published error_, which never changes again.
    if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error_);
  }

 private:
  const std::string device_name_;
  std::atomic<bool> claimed_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

/// One queued call. Shares the Failure, since the device's last handle may go before it runs.
class HostCall {
 public:
  HostCall(UniqueFunction<void()> function, std::shared_ptr<Failure> failure)
      : function_(std::move(function)), failure_(std::move(failure)) {}
  /// A cudaHostFn_t: runs the HostCall that `self` points to and frees it. CUDA leaves out queued
  /// calls after an error; those stay allocated, since nobody can tell that they will not run.
  static void CUDART_CB run(void* self) noexcept;

 private:
  UniqueFunction<void()> function_;
  std::shared_ptr<Failure> failure_;
};

}  // namespace leat::gpu::cuda
