// Streams: queues of work on a device.
//
// Example
//   leat::gpu::Stream copies(device), compute(device);
//   leat::gpu::Event copied(device);
//   leat::gpu::copy_async(copies, slot.span(), pinned.span());
//   copied.record(copies);
//   compute.wait(copied);                  // on the device; the host does not block
//   launch_step(compute.native_handle());
//
// Three words, never mixed: wait (the stream waits, on the device), sync (the caller blocks), await
// (the calling fiber is suspended).
//
// Stream owns; StreamRef is a view that must not outlive the stream, and is what functions take.
// Both are thread-safe. Work that several threads enqueue at the same time has no defined order.
// Failures throw GpuError (gpu/error.h).
#pragma once

#include <utility>

#include "leat/csp/base/unique_function.h"
#include "leat/csp/clock.h"
#include "leat/gpu/backend/handles.h"
#include "leat/gpu/device.h"

namespace leat::gpu {

class EventRef;

/// A stream that something else owns: a Stream, or the user's own code (from_native, legacy).
class StreamRef {
 public:
  /// For the value types of gpu/: `handle` belongs to `device`'s Backend.
  StreamRef(Device device, StreamHandle handle) noexcept
      : device_(std::move(device)), handle_(handle) {}
  /// Wraps the user's own stream of `device`, a cudaStream_t. Throws GpuError for a stream that
  /// Leat cannot use: null, the per-thread default stream, a stream of another device or in a
  /// capture, any stream on the host device.
  ///
  /// All work on the stream that uses a buffer must have run before the buffer is destroyed: Leat
  /// does not see work that is enqueued without it.
  [[nodiscard]] static StreamRef from_native(const Device& device, void* native);
  /// CUDA's legacy default stream, on which many trainers launch their kernels. It may wait for
  /// events, record them, be synced and launch. copy_async refuses the legacy stream: blocking
  /// streams wait for it, and it waits for them. Throws GpuError on a device that has none.
  [[nodiscard]] static StreamRef legacy(const Device& device);

  /// Makes work enqueued on this stream from now on run after the latest record of `event`. Does
  /// not block. Throws GpuError for an event of another family of devices; std::logic_error if this
  /// stream's time is virtual and the event's device does not follow that clock.
  void wait(const EventRef& event) const;
  /// Blocks the caller until all enqueued work has run. On the host device a fiber is suspended
  /// instead, because the device's engines are fibers too.
  void sync() const;
  /// Returns whether all enqueued work has run. Does not block.
  [[nodiscard]] bool is_done() const;
  /// Returns whether the stream is being captured into a CUDA graph: work enqueued now becomes part
  /// of the graph instead of being run.
  [[nodiscard]] bool is_capturing() const;
  /// Enqueues a call of `function` in stream order. On the host device this is how kernels are
  /// launched: the call takes at least `modelled_time`. The function may enqueue work there, but
  /// must not wait for work of its own stream. CUDA ignores `modelled_time`.
  ///
  /// On CUDA a driver's thread calls the function, and may destroy it. So the function must not use
  /// the device. It must own no stream, event, buffer, Device, StreamRef or EventRef, because each
  /// of these keeps the device open. Throws std::invalid_argument for an empty function and for a
  /// negative time.
  void launch_host(UniqueFunction<void()> function,
                   Duration modelled_time = Duration::zero()) const;
  /// Returns a cudaStream_t, for `kernel<<<grid, block, 0, stream>>>`; null on the host device.
  [[nodiscard]] void* native_handle() const;

  /// Returns the stream's device.
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  /// For the value types of gpu/. Throws std::logic_error if the Stream was moved from.
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
  [[noreturn]] void throw_moved_from() const;

  Device device_;
  StreamHandle handle_;
};

/// Owns a stream. The destructor does not wait: queued work still runs. (But see Device for the
/// last handle of a host device.)
///
/// A Stream that was moved from is empty: it may be destroyed and assigned to, and device() still
/// works; everything else throws std::logic_error.
class Stream {
 public:
  /// Makes a stream that synchronises with no other stream implicitly. Throws GpuError or
  /// OutOfMemory.
  explicit Stream(const Device& device);
  Stream(Stream&& other) noexcept
      : ref_(other.device(), std::exchange(other.ref_.handle_, StreamHandle::kNone)) {}
  Stream& operator=(Stream other) noexcept {
    std::swap(ref_, other.ref_);
    return *this;
  }
  ~Stream();

  /// The view that functions take.
  // NOLINTNEXTLINE(google-explicit-constructor): what takes a StreamRef takes a Stream
  operator const StreamRef&() const noexcept { return ref_; }
  /// The same view, by name.
  [[nodiscard]] const StreamRef& ref() const noexcept { return ref_; }
  /// See StreamRef::wait.
  void wait(const EventRef& event) const { ref_.wait(event); }
  /// See StreamRef::sync.
  void sync() const { ref_.sync(); }
  /// See StreamRef::is_done.
  [[nodiscard]] bool is_done() const { return ref_.is_done(); }
  /// See StreamRef::is_capturing.
  [[nodiscard]] bool is_capturing() const { return ref_.is_capturing(); }
  /// See StreamRef::launch_host.
  void launch_host(UniqueFunction<void()> function,
                   Duration modelled_time = Duration::zero()) const {
    ref_.launch_host(std::move(function), modelled_time);
  }
  /// See StreamRef::native_handle.
  [[nodiscard]] void* native_handle() const { return ref_.native_handle(); }
  /// Returns the stream's device.
  [[nodiscard]] const Device& device() const noexcept { return ref_.device(); }

 private:
  StreamRef ref_;
};

}  // namespace leat::gpu
