// Functions that a stream calls on a thread of the driver's.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "leat/csp/wait/unique_function.h"
#include "leat/gpu/backend/pool.h"

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
    if (const std::exception_ptr error = this->error()) std::rethrow_exception(error);
  }
  /// That GpuError, or null.
  [[nodiscard]] std::exception_ptr error() const noexcept {
    // acquire: pairs with the release that published error_, which never changes again.
    return failed_.load(std::memory_order_acquire) ? error_ : nullptr;
  }

 private:
  const std::string device_name_;
  std::mutex mutex_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

/// One queued call; used again after it.
class HostCall {
 public:
  /// By who has taken it from the pool. Shares the Failure, since the device's last handle may go
  /// before it runs.
  void prepare(UniqueFunction<void()> function, std::shared_ptr<Failure> failure) noexcept {
    function_ = std::move(function);
    failure_ = std::move(failure);
  }
  /// For the pool.
  void recycle() noexcept {
    function_ = {};
    failure_ = nullptr;
  }
  /// A cudaHostFn_t: runs the HostCall that `released`, a Pool<HostCall>::Ref, refers to, and gives
  /// it back. CUDA leaves out queued calls after an error; those never come back, since nobody can
  /// tell that they will not run.
  static void CUDART_CB run(void* released) noexcept;

 private:
  UniqueFunction<void()> function_;
  std::shared_ptr<Failure> failure_;
};

}  // namespace leat::gpu::cuda
