// The state that the streams of one host device share: engines, model of time, sticky error.
//
// A device has one engine for each copy direction and one for kernels, as a GPU does. Operations of
// several streams that need the same engine take turns, first come first served.
//
// Device time: on a device with a modelled link an operation begins when the previous operation of
// its stream, the event that it waits for, and the engine's last operation are over, even if a late
// timer wakes the stream's fiber later. So modelled operations follow each other without a gap, as
// long as each operation is longer than the timer's delay. Without a modelled link the CPU that
// does the work is the device, and device time is the clock's. Under virtual time both are the
// same.
//
// Stream fibers hold this by shared_ptr and refer to no other part of the device, so they may still
// run the queued operations while the device's last handle is destroyed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>

#include "leat/csp/base/unique_function.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/identity.h"
#include "leat/gpu/backend/backend.h"
#include "leat/gpu/host_model.h"

namespace leat::gpu::host {

/// Runs one operation at a time. A channel of one token: who holds the token has the engine.
class Engine {
 public:
  explicit Engine(const std::string& name);
  /// Waits for the engine, calls `work`, and keeps the engine until the operation is over: in
  /// device time at least `modelled_time` after it could begin, and not before `work` has returned.
  /// `ready` is the time at which the stream could begin it. Returns the time of its end. Throws
  /// Cancelled, and the exceptions of `work`.
  template <class F>
  TimePoint run(TimePoint ready, Duration modelled_time, F&& work) {
    struct Turn {
      [[nodiscard]] explicit Turn(Engine& e) : engine(e) {
        static_cast<void>(engine.token_.recv());
      }
      ~Turn() { static_cast<void>(engine.token_.try_send(Token{})); }  // there is room for it
      Turn(const Turn&) = delete;
      Turn& operator=(const Turn&) = delete;
      Engine& engine;
    } const turn(*this);
    const TimePoint start = std::max(ready, busy_until_);
    work();
    const TimePoint end = std::max(Deadline::after(start, modelled_time).at(), now());
    sleep_until(end);
    busy_until_ = end;
    return end;
  }

 private:
  struct Token {};
  Channel<Token> token_;
  TimePoint busy_until_ = TimePoint::min();  // guarded by the token
};

/// The shared part of one host device. Thread- and fiber-safe.
class Engines {
 public:
  Engines(std::string device, const HostModel& model, const SchedulerCore& scheduler);

  /// Throws std::logic_error if the caller's scheduler uses a VirtualClock other than the device's:
  /// virtual time would run ahead while the caller waits for the device. `what` is the operation,
  /// for the message.
  void refuse_foreign_virtual_time(const char* what) const;
  /// Throws std::logic_error if the device's time is virtual and `other`, the scheduler of an event
  /// to wait for, is another scheduler.
  void refuse_to_wait_for(const SchedulerCore& other) const;

  /// Returns the earliest time at which an operation enqueued now can begin; TimePoint::min() if it
  /// begins when the stream's fiber gets to it.
  [[nodiscard]] TimePoint enqueue_time() const noexcept {
    return keeps_device_time_ ? SteadyClock::instance().now() : TimePoint::min();
  }

  /// Returns the device's name.
  [[nodiscard]] const std::string& device() const noexcept { return device_; }
  /// Returns the scheduler of the device's fibers. Only for comparison: the device may outlive it.
  [[nodiscard]] const SchedulerCore& scheduler() const noexcept { return scheduler_; }
  /// Returns the engine for copies in this direction. Copies within the device are done by the
  /// compute engine.
  [[nodiscard]] Engine& engine(CopyDirection direction) noexcept;
  /// Returns the engine for kernels.
  [[nodiscard]] Engine& compute() noexcept { return compute_; }
  /// Returns the modelled time of a copy; zero if nothing is modelled.
  [[nodiscard]] Duration copy_time(CopyDirection direction, std::size_t bytes,
                                   bool with_latency) const noexcept;

  /// Counts an operation that begins. Returns its planned fault (HostFaults), or null.
  [[nodiscard]] const char* next_fault(bool copy, bool kernel) noexcept;

  /// Makes the device fail: every later operation throws `error`. The first error stays.
  void fail(std::exception_ptr error) noexcept;
  /// Returns the error that the device failed with, or null.
  [[nodiscard]] std::exception_ptr error() const noexcept;

 private:
  const std::string device_;
  const HostModel model_;
  const SchedulerCore& scheduler_;
  const bool virtual_time_;
  const bool keeps_device_time_;
  Engine h2d_;
  Engine d2h_;
  Engine compute_;
  std::atomic<std::uint64_t> operations_{0};  // operations begun, for the faults
  std::atomic<std::uint64_t> copies_{0};      // copies among them
  std::atomic<std::uint64_t> kernels_{0};     // kernels among them
  mutable std::mutex mutex_;                  // never held across a park
  std::exception_ptr error_;
};

/// While this object lives, the fiber that made it runs a stream of the device with these engines.
/// Lives on that fiber's stack.
class StreamFiber {
 public:
  explicit StreamFiber(const Engines& engines) noexcept;
  ~StreamFiber();
  StreamFiber(const StreamFiber&) = delete;
  StreamFiber& operator=(const StreamFiber&) = delete;

  /// Returns the engines of the device whose stream the calling fiber runs; null if it runs none.
  [[nodiscard]] static const Engines* current() noexcept;

 private:
  const Engines& engines_;
  const void* const fiber_;
  StreamFiber* next_;
  StreamFiber* previous_ = nullptr;
};

}  // namespace leat::gpu::host
