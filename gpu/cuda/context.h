// How CUDA is called: on the device's primary context, leaving no trace in the calling thread.
//
// Always true, whatever CUDA answers:
//  - the caller's current context, and with it its current device, is afterwards what it was;
//  - so is its capture mode. During a call on an open device that CUDA counts as unsafe beside a
//    capture it is relaxed: Leat's work is no part of a graph that the user captures meanwhile,
//    here or on another thread, and must not invalidate it. What is enqueued on a stream is not
//    among those, and is spared it; list() and the making of a context are in the caller's mode;
//  - a failure of Leat's is not left behind as the thread's last error, where the user would find
//    it after the next kernel launch. (CUDA keeps one: an older error of the user's that the
//    failure has replaced is lost.)
//
// The context is exchanged through the driver's interface. cudaSetDevice would do for the way in,
// but not for the way back: it creates a context on a device that the caller has never used, and
// drops one that the caller has made with the driver's interface.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "leat/gpu/cuda/cuda_error.h"

namespace leat::gpu::cuda {

class Context {
 public:
  /// Creates the primary context of device `number` where the process has none yet. Like the
  /// runtime, never lets go of it. Throws GpuError.
  Context(int number, std::string device_name);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] const std::string& device_name() const noexcept { return device_name_; }

  /// Makes the context the calling thread's for a scope, which must not contain a park: the fiber
  /// might go on on another thread.
  class Scope {
   public:
    enum class CaptureMode : bool { kCallers, kRelaxed };
    explicit Scope(const Context& context, CaptureMode mode = CaptureMode::kRelaxed) noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    /// cudaSuccess, or why the context could not be entered; then call nothing.
    [[nodiscard]] cudaError_t error() const noexcept { return error_; }

   private:
    const Context& context_;
    CUcontext callers_ = nullptr;
    bool exchanged_ = false;  // callers_ is to be put back
    bool relaxed_ = false;    // so is callers_mode_
    cudaStreamCaptureMode callers_mode_ = cudaStreamCaptureModeRelaxed;
    cudaError_t error_ = cudaSuccess;
  };

  /// Calls `function`, which returns a cudaError_t, and returns that.
  template <class F>
  cudaError_t attempt(F&& function,
                      Scope::CaptureMode mode = Scope::CaptureMode::kRelaxed) const noexcept {
    const Scope scope(*this, mode);
    if (scope.error() != cudaSuccess) return scope.error();
    const cudaError_t code = function();
    // Not every failure becomes the last error: the driver's do not.
    if (code != cudaSuccess && cudaPeekAtLastError() == code) {
      static_cast<void>(cudaGetLastError());
    }
    return code;
  }
  /// As attempt, but throws GpuError. `name` and `bytes` are for its text.
  template <class F>
  void call(const char* name, F&& function, std::size_t bytes = 0) const {
    const cudaError_t code = attempt(function);
    if (code != cudaSuccess) throw_error(code, name, device_name_, bytes);
  }
  /// As call, for a function that enqueues something on a stream, and does nothing else.
  template <class F>
  void enqueue(const char* name, F&& function, std::size_t bytes = 0) const {
    const cudaError_t code = attempt(function, Scope::CaptureMode::kCallers);
    if (code != cudaSuccess) throw_error(code, name, device_name_, bytes);
  }
  /// As call, for a function that asks whether something is done.
  template <class F>
  [[nodiscard]] bool query(const char* name, F&& function) const {
    const cudaError_t code = attempt(function);
    if (code != cudaSuccess && code != cudaErrorNotReady) throw_error(code, name, device_name_);
    return code == cudaSuccess;
  }

  /// The number of the device that a user's stream belongs to.
  [[nodiscard]] int device_of(cudaStream_t stream) const;

 private:
  // The driver's functions, which cudart finds: nothing is linked against a driver.
  struct Driver {
    CUresult(CUDAAPI* initialise)(unsigned) = nullptr;
    CUresult(CUDAAPI* get_device)(CUdevice*, int) = nullptr;
    CUresult(CUDAAPI* retain_primary)(CUcontext*, CUdevice) = nullptr;
    CUresult(CUDAAPI* get_current)(CUcontext*) = nullptr;
    CUresult(CUDAAPI* set_current)(CUcontext) = nullptr;
    CUresult(CUDAAPI* get_stream_context)(CUstream, CUcontext*) = nullptr;
  };
  [[nodiscard]] static Driver find_driver(const std::string& device_name);

  const int number_;
  const std::string device_name_;
  const Driver driver_;
  CUcontext primary_ = nullptr;
};

}  // namespace leat::gpu::cuda
