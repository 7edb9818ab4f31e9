// Streams: queues of work on a device.
//
// Example
//   leat::gpu::Stream copies(device), compute(device);
//   leat::gpu::Event copied(device);
//   leat::gpu::copy_async(copies, slot.span(), pinned.span());
//   copied.record(copies);
//   compute.wait(copied);                  // on the device; nobody blocks
//   launch_step(compute.native_handle());
//
// Three words, never mixed: wait (the stream waits, on the device), sync (the caller blocks), await
// (the calling fiber is suspended).
//
// Stream owns; StreamRef is a view that must not outlive what it views, and is what functions take.
// Both are thread-safe; work enqueued from several threads at once has no defined order. Errors are
// GpuError.
#pragma once

#include <utility>

#include "leat/csp/clock.h"
#include "leat/csp/unique_function.h"
#include "leat/gpu/device.h"

namespace leat::gpu {

class EventRef;

/// A stream that somebody else owns: a Stream, or the user's own (StreamRef::from_native).
class StreamRef {
 public:
  StreamRef(Device device, StreamHandle handle) noexcept
      : device_(std::move(device)), handle_(handle) {}
  /// The user's own stream as one of `device`: a cudaStream_t. Throws GpuError for a stream that
  /// Leat cannot use (null, the per-thread default stream, another device's), and on the host
  /// device, which knows no foreign streams.
  [[nodiscard]] static StreamRef from_native(const Device& device, void* native);

  /// Work enqueued on this stream from now on runs after the event's latest record.
  void wait(const EventRef& event) const;
  /// Blocks the caller until all that was enqueued has run. A fiber on the host device is suspended
  /// instead, because the device's engines are fibers too.
  void sync() const { device_.backend()->sync(handle_); }
  [[nodiscard]] bool is_done() const { return device_.backend()->is_done(handle_); }
  /// Enqueues a call of `function` in stream order; see Backend::launch_host. On the host device
  /// this is how kernels are launched, and `modelled_time` is how long they take at least.
  void launch_host(UniqueFunction<void()> function,
                   Duration modelled_time = Duration::zero()) const {
    device_.backend()->launch_host(handle_, std::move(function), modelled_time);
  }
  /// A cudaStream_t, for `kernel<<<grid, block, 0, stream>>>`. Null on the host device.
  [[nodiscard]] void* native_handle() const noexcept {
    return device_.backend()->native_handle(handle_);
  }

  [[nodiscard]] const Device& device() const noexcept { return device_; }
  [[nodiscard]] StreamHandle handle() const noexcept { return handle_; }
  friend bool operator==(const StreamRef& a, const StreamRef& b) noexcept {
    return a.device_ == b.device_ && a.handle_ == b.handle_;
  }

 private:
  Device device_;
  StreamHandle handle_;
};

/// A stream of its own. Destroying it does not wait: queued work still runs. Moved from, it is
/// empty and may only be destroyed or assigned to.
class Stream {
 public:
  explicit Stream(Device device);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  operator StreamRef() const noexcept { return ref(); }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] StreamRef ref() const noexcept { return {device_, handle_}; }
  void wait(const EventRef& event) const { ref().wait(event); }
  void sync() const { ref().sync(); }
  [[nodiscard]] bool is_done() const { return ref().is_done(); }
  void launch_host(UniqueFunction<void()> function,
                   Duration modelled_time = Duration::zero()) const {
    ref().launch_host(std::move(function), modelled_time);
  }
  [[nodiscard]] void* native_handle() const noexcept { return ref().native_handle(); }
  [[nodiscard]] const Device& device() const noexcept { return device_; }

 private:
  Device device_;
  StreamHandle handle_;
};

}  // namespace leat::gpu
