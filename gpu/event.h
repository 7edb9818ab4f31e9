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
  EventRef(Device device, EventHandle handle) noexcept
      : device_(std::move(device)), handle_(handle) {}

  /// Marks the end of what has been enqueued on `stream` so far. The stream must be of the event's
  /// device.
  void record(const StreamRef& stream) const;
  /// Blocks the caller until the latest record is done. A fiber on the host device is suspended.
  void sync() const { device_.backend()->sync(handle_); }
  /// Suspends the calling fiber (blocks a plain thread) until the latest record is done. Throws
  /// Cancelled.
  void await() const { device_.backend()->await(handle_); }
  [[nodiscard]] bool is_done() const { return device_.backend()->is_done(handle_); }

  [[nodiscard]] const Device& device() const noexcept { return device_; }
  [[nodiscard]] EventHandle handle() const noexcept { return handle_; }

 private:
  Device device_;
  EventHandle handle_;
};

/// Whether an event remembers when it was reached. Timed events cost a little more on the device.
enum class Timing : bool { kOff, kOn };

/// An event of its own. May be destroyed while a record is pending. Moved from, it is empty and may
/// only be destroyed or assigned to.
class Event {
 public:
  explicit Event(Device device, Timing timing = Timing::kOff);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  operator EventRef() const noexcept { return ref(); }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] EventRef ref() const noexcept { return {device_, handle_}; }
  void record(const StreamRef& stream) const { ref().record(stream); }
  void sync() const { ref().sync(); }
  void await() const { ref().await(); }
  [[nodiscard]] bool is_done() const { return ref().is_done(); }
  [[nodiscard]] const Device& device() const noexcept { return device_; }

 private:
  Device device_;
  EventHandle handle_;
};

/// Suspends the calling fiber until `event` is done; see EventRef::await.
inline void await(const EventRef& event) { event.await(); }

/// Time from `start` to `end`, two timed events of one device that are recorded and done.
[[nodiscard]] Duration elapsed(const EventRef& start, const EventRef& end);

}  // namespace leat::gpu
