// How CUDA is called: on the device's primary context, leaving no trace in the calling thread.
//
// Always true, whatever CUDA returns:
//  - The caller's current context, and with it the current device, is unchanged afterwards.
//  - So is the caller's capture mode. A call that CUDA counts as unsafe beside a capture is made in
//    relaxed mode: Leat's work is no part of a graph that the user captures meanwhile, on this or
//    another thread, and must not invalidate that capture. Enqueueing on a stream is not unsafe,
//    and happens in the caller's mode; so do list() and the making of a context.
//  - A failed call of Leat does not leave its error as the thread's last error, where the user
//    would find it after the next kernel launch. (CUDA keeps only one last error: a failure of
//    Leat's call replaces an older error of the user's.)
//
// The context is exchanged through the driver's API. cudaSetDevice could enter a context, but not
// restore the caller's: it creates a context on a device that the caller has never used, and drops
// a context that the caller has made with the driver's API.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "leat/gpu/cuda/cuda_error.h"

namespace leat::gpu::cuda {

/// The primary context of one device. Thread-safe.
class Context {
 public:
  /// Creates the primary context of device `number` if the process has none yet. Like the runtime,
  /// never releases it. Throws GpuError.
  Context(int number, std::string device_name);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Returns the device's number.
  [[nodiscard]] int number() const noexcept { return number_; }
  /// Returns the device's name: "cuda:0".
  [[nodiscard]] const std::string& device_name() const noexcept { return device_name_; }

  /// Makes the context current on the calling thread for a scope. The scope must not contain a
  /// park: the fiber might continue on another thread.
  class Scope {
   public:
    enum class CaptureMode : bool { kCallers, kRelaxed };
    [[nodiscard]] explicit Scope(const Context& context,
                                 CaptureMode mode = CaptureMode::kRelaxed) noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    /// cudaSuccess, or why the context could not be entered; then make no call.
    [[nodiscard]] cudaError_t error() const noexcept { return error_; }

   private:
    const Context& context_;
    CUcontext callers_ = nullptr;
    bool exchanged_ = false;  // callers_ must be made current again
    bool relaxed_ = false;    // callers_mode_ must be restored
    cudaStreamCaptureMode callers_mode_ = cudaStreamCaptureModeRelaxed;
    cudaError_t error_ = cudaSuccess;
  };

  /// Calls `function` in a Scope and returns the cudaError_t that it returns.
  template <class F>
  cudaError_t attempt(F&& function,
                      Scope::CaptureMode mode = Scope::CaptureMode::kRelaxed) const noexcept {
    const Scope scope(*this, mode);
    if (scope.error() != cudaSuccess) return scope.error();
    const cudaError_t code = function();
    // Failures of the driver's API do not become the last error.
    if (code != cudaSuccess && cudaPeekAtLastError() == code) {
      static_cast<void>(cudaGetLastError());
    }
    return code;
  }
  /// As attempt, but throws GpuError. `name` and `bytes` are for the error's text.
  template <class F>
  void call(const char* name, F&& function, std::size_t bytes = 0) const {
    const cudaError_t code = attempt(function);
    if (code != cudaSuccess) throw_error(code, name, device_name_, bytes);
  }
  /// As call, for a function that only enqueues an operation on a stream.
  template <class F>
  void enqueue(const char* name, F&& function, std::size_t bytes = 0) const {
    const cudaError_t code = attempt(function, Scope::CaptureMode::kCallers);
    if (code != cudaSuccess) throw_error(code, name, device_name_, bytes);
  }
  /// As call, for a query whether work is done. Returns the answer.
  template <class F>
  [[nodiscard]] bool query(const char* name, F&& function) const {
    const cudaError_t code = attempt(function);
    if (code != cudaSuccess && code != cudaErrorNotReady) throw_error(code, name, device_name_);
    return code == cudaSuccess;
  }

  /// Returns the number of the device that a user's stream belongs to. Throws GpuError.
  [[nodiscard]] int device_of(cudaStream_t stream) const;

 private:
  // Functions of the driver's API, which cudart finds at run time: nothing is linked against it.
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
