// Events: points in a stream's work that can be waited for.
//
// An Event that was never recorded is done. Recording it again replaces the earlier record for
// later waits; waits already enqueued keep the record they saw (CUDA: cudaEventRecord,
// cudaStreamWaitEvent).
//
// Event owns; EventRef is a view that must not outlive it. Thread-safe. Errors are GpuError, and
// include those of the work before the record.
#pragma once

#include <utility>

#include "leat/csp/clock.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace leat::gpu {

/// An event that somebody else owns.
class EventRef {
 public:
  /// For the value types of gpu/: `handle` is of `device`'s Backend.
  EventRef(Device device, EventHandle handle) noexcept
      : device_(std::move(device)), handle_(handle) {}

  /// Marks the end of what has been enqueued on `stream` so far. The stream must be of the event's
  /// device.
  void record(const StreamRef& stream) const;
  /// Blocks the caller until the latest record is done. A fiber on the host device is suspended.
  void sync() const { backend().sync(handle()); }
  /// Suspends the calling fiber (blocks a plain thread) until the latest record is done. Throws
  /// Cancelled; std::logic_error on a VirtualClock whose time the device does not take, leat::Error
  /// where a thread that it needs cannot be started. See also on_done (gpu/on_done.h), a case of
  /// select.
  void await() const { backend().await(handle()); }
  /// Whether the latest record is done. Does not wait.
  [[nodiscard]] bool is_done() const { return backend().is_done(handle()); }

  /// Whose event it is.
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  /// For the value types of gpu/. Throws std::logic_error if it was moved from.
  [[nodiscard]] EventHandle handle() const {
    if (handle_ == EventHandle::kNone) throw_moved_from();
    return handle_;
  }

 private:
  friend class Event;
  [[nodiscard]] Backend& backend() const noexcept { return *device_.backend(); }
  [[noreturn]] void throw_moved_from() const;

  Device device_;
  EventHandle handle_;
};

/// Whether an event remembers when it was reached. Timed events cost a little more on the device.
enum class Timing : bool { kOff, kOn };

/// An event of its own, out of the device's pool: making one allocates nothing where one was
/// destroyed before. May be destroyed while a record is pending.
///
/// Moved from, it is empty: it may be destroyed and assigned to, and tells its device; everything
/// else throws std::logic_error.
class Event {
 public:
  /// Never recorded, hence done. Throws GpuError.
  explicit Event(const Device& device, Timing timing = Timing::kOff);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// The view of it that functions take.
  // NOLINTNEXTLINE(google-explicit-constructor): what takes an EventRef takes an Event
  operator const EventRef&() const noexcept { return ref_; }
  [[nodiscard]] const EventRef& ref() const noexcept { return ref_; }
  /// As EventRef's.
  void record(const StreamRef& stream) const { ref_.record(stream); }
  void sync() const { ref_.sync(); }
  void await() const { ref_.await(); }
  [[nodiscard]] bool is_done() const { return ref_.is_done(); }
  [[nodiscard]] const Device& device() const noexcept { return ref_.device(); }

 private:
  EventRef ref_;
};

/// Suspends the calling fiber until `event` is done; see EventRef::await.
inline void await(const EventRef& event) { event.await(); }

/// Time from `start` to `end`, two timed events of one device that are recorded and done. Throws
/// GpuError where they are not.
[[nodiscard]] Duration elapsed(const EventRef& start, const EventRef& end);

}  // namespace leat::gpu
