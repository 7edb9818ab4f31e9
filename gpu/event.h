// Events: points in a stream's work that can be waited for.
//
// An event that was never recorded is done. Recording it again replaces the earlier record for
// later waits; waits already enqueued keep the record that was the latest then (CUDA:
// cudaEventRecord, cudaStreamWaitEvent).
//
// Event owns; EventRef is a view that must not outlive the event. Thread-safe. Failures throw
// GpuError (gpu/error.h), also failures of the work before the record.
#pragma once

#include <utility>

#include "leat/csp/clock.h"
#include "leat/gpu/backend/handles.h"
#include "leat/gpu/device.h"

namespace leat::gpu {

class StreamRef;

/// An event that something else owns.
class EventRef {
 public:
  /// For the value types of gpu/: `handle` belongs to `device`'s Backend.
  EventRef(Device device, EventHandle handle) noexcept
      : device_(std::move(device)), handle_(handle) {}

  /// Marks the end of the work enqueued on `stream` so far. Does not block. Throws GpuError for a
  /// stream of another device.
  void record(const StreamRef& stream) const;
  /// Blocks the caller until the latest record is done. On the host device a fiber is suspended.
  void sync() const;
  /// Suspends the calling fiber (blocks a plain thread) until the latest record is done. Throws
  /// Cancelled; std::logic_error under a VirtualClock that the device does not follow; leat::Error
  /// if a thread that is needed cannot be started. As a case of select: on_done (gpu/on_done.h).
  void await() const;
  /// As await(), but at most until `deadline`, a time of the caller's clock. Returns whether the
  /// record that was the latest at this call is done.
  [[nodiscard]] bool await_until(TimePoint deadline) const;
  /// Returns whether the latest record is done. Does not block.
  [[nodiscard]] bool is_done() const;

  /// Returns the event's device.
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  /// For the value types of gpu/. Throws std::logic_error if the Event was moved from.
  [[nodiscard]] EventHandle handle() const {
    if (handle_ == EventHandle::kNone) throw_moved_from();
    return handle_;
  }

 private:
  friend class Event;
  [[noreturn]] void throw_moved_from() const;

  Device device_;
  EventHandle handle_;
};

/// Whether an event keeps the time of its record. Timed events cost a little more on the device.
enum class Timing : bool { kOff, kOn };

/// Owns an event of the device's pool: making an event allocates nothing if another one was
/// destroyed before. May be destroyed while a record is pending; waits for that record continue.
///
/// An Event that was moved from is empty: it may be destroyed and assigned to, and device() still
/// works; everything else throws std::logic_error.
class Event {
 public:
  /// Makes an event that was never recorded, hence is done. Throws GpuError.
  explicit Event(const Device& device, Timing timing = Timing::kOff);
  Event(Event&& other) noexcept
      : ref_(other.device(), std::exchange(other.ref_.handle_, EventHandle::kNone)) {}
  Event& operator=(Event other) noexcept {
    std::swap(ref_, other.ref_);
    return *this;
  }
  ~Event();

  /// The view that functions take.
  // NOLINTNEXTLINE(google-explicit-constructor): what takes an EventRef takes an Event
  operator const EventRef&() const noexcept { return ref_; }
  /// The same view, by name.
  [[nodiscard]] const EventRef& ref() const noexcept { return ref_; }
  /// See EventRef::record.
  void record(const StreamRef& stream) const { ref_.record(stream); }
  /// See EventRef::sync.
  void sync() const { ref_.sync(); }
  /// See EventRef::await.
  void await() const { ref_.await(); }
  /// See EventRef::await_until.
  [[nodiscard]] bool await_until(TimePoint deadline) const { return ref_.await_until(deadline); }
  /// See EventRef::is_done.
  [[nodiscard]] bool is_done() const { return ref_.is_done(); }
  /// Returns the event's device.
  [[nodiscard]] const Device& device() const noexcept { return ref_.device(); }

 private:
  EventRef ref_;
};

/// Suspends the calling fiber until `event` is done; see EventRef::await.
inline void await(const EventRef& event) { event.await(); }

/// Returns the time from `start` to `end`: two timed events of one device that are recorded and
/// done. Throws GpuError if they are not.
[[nodiscard]] Duration elapsed(const EventRef& start, const EventRef& end);

}  // namespace leat::gpu
