// One communicator of NCCL, and its stream.
//
// Always true:
//  - NCCL is called with the device current, one call at a time, and never in blocking mode: the
//    lane's fiber asks for what is in progress, and sleeps meanwhile.
//  - After abort() NCCL uses no memory of an operation, and is called no more.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "leat/comm/transports/nccl/library.h"
#include "leat/csp/clock.h"
#include "leat/gpu/backend/backend.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::comm::nccl {

/// Thrown once abort() was called: there is nothing to tell.
struct Stopped {};

/// One fiber calls all functions, except abort().
class Native {
 public:
  Native(std::shared_ptr<const Library> library, gpu::Device device)
      : library_(std::move(library)), device_(std::move(device)) {}
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
  /// Aborts, unless it was closed.
  ~Native() { abort(); }

  [[nodiscard]] const Library& library() const noexcept { return *library_; }
  [[nodiscard]] const gpu::Device& device() const noexcept { return device_; }
  /// Made by open_stream().
  [[nodiscard]] const gpu::Stream& stream() const noexcept { return *stream_; }
  [[nodiscard]] cudaStream_t native_stream() const {
    return static_cast<cudaStream_t>(stream_->native_handle());
  }

  // All of them throw Stopped, GpuError, and Error with what NCCL says.

  /// Makes the stream, if there is none yet.
  void open_stream();
  /// The name of a new communicator, for its ranks.
  [[nodiscard]] ncclUniqueId make_id();
  /// Joins it. Returns once all ranks have.
  void init(const ncclUniqueId& id, int size, int rank);
  [[nodiscard]] bool is_open() const noexcept { return comm_ != nullptr; }
  /// Calls function(the communicator), and waits until NCCL has done what that asks for.
  template <class F>
  void call(const char* name, F&& function) {
    finish(name, enter([&] { return function(comm_); }), Deadline::never());
  }
  /// Throws if an operation under way has failed.
  void check();
  /// Ends the communicator, once all ranks do.
  void close(Deadline deadline);

  /// Thread-safe. Waits until the GPU has stopped.
  void abort() noexcept;

 private:
  template <class F>
  ncclResult_t enter(F&& function) {
    struct Call {
      F& function;
      ncclResult_t result = ncclSuccess;
    } call{function};
    const std::scoped_lock lock(mutex_);
    if (is_stopped_) throw Stopped();
    device_.backend()->call_current(
        [](void* argument) {
          auto& one = *static_cast<Call*>(argument);
          one.result = one.function();
        },
        &call);
    return call.result;
  }
  void finish(const char* name, ncclResult_t result, Deadline deadline);
  [[noreturn]] void throw_error(const char* name, ncclResult_t result);

  const std::shared_ptr<const Library> library_;
  const gpu::Device device_;
  std::mutex mutex_;  // while NCCL is called
  bool is_stopped_ = false;
  ncclComm_t comm_ = nullptr;
  std::optional<gpu::Stream> stream_;
};

}  // namespace leat::comm::nccl
