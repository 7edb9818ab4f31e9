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
#include "leat/csp/wait/unique_function.h"
#include "leat/gpu/device.h"

namespace leat::gpu {

class EventRef;

/// A stream that somebody else owns: a Stream, or the user's own (from_native, legacy).
class StreamRef {
 public:
  /// For the value types of gpu/: `handle` is of `device`'s Backend.
  StreamRef(Device device, StreamHandle handle) noexcept
      : device_(std::move(device)), handle_(handle) {}
  /// The user's own stream as one of `device`: a cudaStream_t. Throws GpuError for a stream that
  /// Leat cannot use (null, the per-thread default stream, another device's, one that is being
  /// captured into a graph), and on the host device, which knows no foreign streams.
  ///
  /// It must have run what uses a buffer before that buffer goes: what is done with it, Leat does
  /// not see.
  [[nodiscard]] static StreamRef from_native(const Device& device, void* native);
  /// CUDA's legacy default stream, on which many trainers launch their kernels. May wait for
  /// events, record them, be synced and launch; copy_async refuses it, because other streams wait
  /// for it and it for them. Throws GpuError on a device that has none.
  [[nodiscard]] static StreamRef legacy(const Device& device);

  /// Work enqueued on this stream from now on runs after the event's latest record. Throws GpuError
  /// for an event of another family of devices, std::logic_error where the stream's time is virtual
  /// and the event's another one.
  void wait(const EventRef& event) const;
  /// Blocks the caller until all that was enqueued has run. A fiber on the host device is suspended
  /// instead, because the device's engines are fibers too.
  void sync() const { backend().sync(handle()); }
  /// Whether all that was enqueued has run. Does not wait.
  [[nodiscard]] bool is_done() const { return backend().is_done(handle()); }
  /// Whether it is being captured into a CUDA graph: what is enqueued now is not run, but recorded.
  [[nodiscard]] bool is_capturing() const { return backend().is_capturing(handle()); }
  /// Enqueues a call of `function` in stream order; see Backend::launch_host. On the host device
  /// this is how kernels are launched, and `modelled_time` is how long they take at least.
  ///
  /// There the function may enqueue, but must not wait for what its own stream has still to run.
  /// On CUDA the function is called, and may be destroyed, by a driver's thread: it must not use
  /// the device, and may own no stream, event or buffer, nor a Device, StreamRef or EventRef, each
  /// of which keeps the device open. Throws std::invalid_argument for no function and for a
  /// negative time.
  void launch_host(UniqueFunction<void()> function,
                   Duration modelled_time = Duration::zero()) const {
    if (!function || modelled_time < Duration::zero()) refuse_launch(modelled_time);
    backend().launch_host(handle(), std::move(function), modelled_time);
  }
  /// A cudaStream_t, for `kernel<<<grid, block, 0, stream>>>`. Null on the host device.
  [[nodiscard]] void* native_handle() const { return backend().native_handle(handle()); }

  /// Whose stream it is.
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  /// For the value types of gpu/. Throws std::logic_error if it was moved from.
  [[nodiscard]] StreamHandle handle() const {
    if (handle_ == StreamHandle::kNone) throw_moved_from();
    return handle_;
  }
  /// Whether both are the same stream of the same opened device.
  friend bool operator==(const StreamRef& a, const StreamRef& b) noexcept {
    return a.device_ == b.device_ && a.handle_ == b.handle_;
  }

 private:
  friend class Stream;
  [[nodiscard]] Backend& backend() const noexcept { return *device_.backend(); }
  [[noreturn]] void throw_moved_from() const;
  [[noreturn]] void refuse_launch(Duration modelled_time) const;

  Device device_;
  StreamHandle handle_;
};

/// A stream of its own. Destroying it does not wait: queued work still runs. (But see Device, of a
/// host device's last handle.)
///
/// Moved from, it is empty: it may be destroyed and assigned to, and tells its device; everything
/// else throws std::logic_error.
class Stream {
 public:
  /// Does not synchronise with any other stream implicitly. Throws GpuError.
  explicit Stream(const Device& device);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  /// The view of it that functions take.
  // NOLINTNEXTLINE(google-explicit-constructor): what takes a StreamRef takes a Stream
  operator const StreamRef&() const noexcept { return ref_; }
  [[nodiscard]] const StreamRef& ref() const noexcept { return ref_; }
  /// As StreamRef's.
  void wait(const EventRef& event) const { ref_.wait(event); }
  void sync() const { ref_.sync(); }
  [[nodiscard]] bool is_done() const { return ref_.is_done(); }
  [[nodiscard]] bool is_capturing() const { return ref_.is_capturing(); }
  void launch_host(UniqueFunction<void()> function,
                   Duration modelled_time = Duration::zero()) const {
    ref_.launch_host(std::move(function), modelled_time);
  }
  [[nodiscard]] void* native_handle() const { return ref_.native_handle(); }
  [[nodiscard]] const Device& device() const noexcept { return ref_.device(); }

 private:
  StreamRef ref_;
};

}  // namespace leat::gpu
