// Functions that a stream calls on a driver's thread.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "leat/csp/base/unique_function.h"
#include "leat/gpu/backend/pool.h"

namespace leat::gpu::cuda {

/// The first exception that a host function has thrown; CUDA does not know of it. From then on the
/// device counts as failed, as after an error of CUDA's own. Thread-safe.
class Failure {
 public:
  explicit Failure(std::string device_name) : device_name_(std::move(device_name)) {}
  /// Keeps the exception that is being handled, if it is the first.
  void remember_current_exception() noexcept;
  /// Throws the GpuError that describes the exception, if there was one.
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

/// One queued call; reused by a Pool.
class HostFunction {
 public:
  /// Called by the thread that took it from the pool. Shares the Failure, because the device's last
  /// handle may be destroyed before the function runs.
  void prepare(UniqueFunction<void()> function, std::shared_ptr<Failure> failure) noexcept {
    function_ = std::move(function);
    failure_ = std::move(failure);
  }
  /// Called by the pool.
  void recycle() noexcept {
    function_ = {};
    failure_ = nullptr;
  }
  /// A cudaHostFn_t. `released` is a released Pool<HostFunction>::Ref: calls its function and
  /// returns it to the pool. CUDA skips queued calls after an error; those stay allocated, because
  /// CUDA does not report that they will not run.
  static void CUDART_CB run(void* released) noexcept;

 private:
  UniqueFunction<void()> function_;
  std::shared_ptr<Failure> failure_;
};

}  // namespace leat::gpu::cuda
