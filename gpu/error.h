// Errors of devices.
#pragma once

#include <string>
#include <utility>

#include "leat/csp/error.h"

namespace leat::gpu {

/// A call to a device failed. what() is one line: the call, the device, the backend's name for the
/// error, and what to do about it.
class GpuError : public Error {
 public:
  /// `advice` says what to do about the error, and may be empty. The other arguments are described
  /// at the functions of the same names.
  GpuError(int code, std::string name, std::string call, std::string device,
           const std::string& advice)
      : Error("leat: " + call + " on " + device + ": " + name +
              (advice.empty() ? "" : "; " + advice)),
        code_(code),
        name_(std::move(name)),
        call_(std::move(call)),
        device_(std::move(device)) {}

  /// Returns the backend's own number, a cudaError_t; 0 if the error is Leat's own.
  [[nodiscard]] int code() const noexcept { return code_; }
  /// Returns the backend's name for the error, such as "cudaErrorMemoryAllocation".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Returns the call that failed, such as "cudaMalloc(1048576 bytes)".
  [[nodiscard]] const std::string& call() const noexcept { return call_; }
  /// Returns the device's name, such as "cuda:0".
  [[nodiscard]] const std::string& device() const noexcept { return device_; }

 private:
  int code_;
  std::string name_;
  std::string call_;
  std::string device_;
};

}  // namespace leat::gpu
