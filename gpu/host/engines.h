// What the streams of one host device share: its engines, its model of time, its sticky error.
//
// A device has one engine for each copy direction and one for kernels, as a GPU does: operations of
// several streams that need the same engine take turns, first come first served.
//
// Device time, on a device with a modelled link: an operation begins when the one before it in its
// stream, what it waits for, and the engine's last one are over, as on a GPU, not when the host's
// timer woke the stream's fiber. So modelled operations follow each other without a gap, however
// late timers are, as long as each is longer than that. Without a modelled link the device is the
// CPU that does the work, and its time the clock's. Under virtual time all are the same.
//
// Stream fibers hold this by shared_ptr and refer to nothing else of the device, so that they may
// still run out their queue while the device's last handle goes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <set>
#include <string>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/identity.h"
#include "leat/csp/wait/unique_function.h"
#include "leat/gpu/device.h"

namespace leat::gpu::host {

/// One thing at a time. A channel of one token: taking the token is taking the engine.
class Engine {
 public:
  explicit Engine(const std::string& name);
  /// Waits for the engine, runs `work`, and occupies the engine until the operation is over: at
  /// least `modelled_time` after it could begin, in device time, and not before `work` has
  /// returned. `ready` is when the stream could begin it. Returns when it was over. Throws
  /// Cancelled, and what `work` throws.
  template <class F>
  TimePoint occupy(TimePoint ready, Duration modelled_time, F&& work) {
    struct Turn {
      explicit Turn(Engine& e) : engine(e) { static_cast<void>(engine.token_.recv()); }
      ~Turn() { static_cast<void>(engine.token_.try_send(Token{})); }  // there is room for it
      Turn(const Turn&) = delete;
      Turn& operator=(const Turn&) = delete;
      Engine& engine;
    } const turn(*this);
    const TimePoint start = std::max(ready, free_at_);
    work();
    const TimePoint end = std::max(Deadline::after(start, modelled_time).at(), now());
    sleep_until(end);
    free_at_ = end;
    return end;
  }

 private:
  struct Token {};
  Channel<Token> token_;
  TimePoint free_at_ = TimePoint::min();  // whoever holds the token
};

class Engines {
 public:
  Engines(std::string device, const HostModel& model, const SchedulerCore& scheduler);

  /// Throws std::logic_error where the caller lives in a virtual time that the device does not
  /// take: an hour of it would pass in no time while the caller does `what`, which waits for the
  /// device.
  void refuse_foreign_virtual_time(const char* what) const;
  /// Likewise where the device's time is virtual, and it is to wait for one of `other` time.
  void refuse_to_wait_for(const SchedulerCore& other) const;

  /// When an operation that is enqueued now can begin at the earliest; TimePoint::min() where it
  /// begins when the stream's fiber comes to it.
  [[nodiscard]] TimePoint enqueue_time() const noexcept {
    return keeps_device_time_ ? SteadyClock::instance().now() : TimePoint::min();
  }

  [[nodiscard]] const std::string& device() const noexcept { return device_; }
  [[nodiscard]] const HostModel& model() const noexcept { return model_; }
  /// That of the device's fibers; only its identity may be used, since the device may outlive it.
  [[nodiscard]] const SchedulerCore& scheduler() const noexcept { return scheduler_; }
  [[nodiscard]] Engine& engine(CopyDirection direction) noexcept {
    return direction == CopyDirection::kHostToDevice ? h2d_ : d2h_or_compute(direction);
  }
  [[nodiscard]] Engine& compute() noexcept { return compute_; }
  /// What the model says that a copy takes; zero where nothing is modelled.
  [[nodiscard]] Duration copy_time(CopyDirection direction, std::size_t bytes,
                                   bool with_latency) const noexcept;

  /// Counts an operation that begins: what goes wrong with it, or null (HostFaults).
  [[nodiscard]] const char* next_fault(bool copy, bool kernel) noexcept;

  /// The device accepts no more work: `error` surfaces everywhere. The first one stays.
  void fail(const GpuError& error) noexcept;
  [[nodiscard]] std::exception_ptr error() const noexcept;

  /// Whether the calling fiber is one that runs a stream of this device.
  [[nodiscard]] bool on_stream_fiber() const noexcept;
  /// The same of any host device.
  [[nodiscard]] static bool on_any_stream_fiber() noexcept;
  void enter_stream_fiber();
  void leave_stream_fiber() noexcept;
  /// What streams did whose fibers have been seen to be gone (an expired weak_ptr orders nothing)
  /// happened before this returns.
  void see_what_gone_streams_did() const noexcept;

 private:
  [[nodiscard]] Engine& d2h_or_compute(CopyDirection direction) noexcept {
    // A copy within the device is done by the device's own memory system, as on a GPU.
    return direction == CopyDirection::kDeviceToHost ? d2h_ : compute_;
  }

  const std::string device_;
  const HostModel model_;
  const SchedulerCore& scheduler_;
  const bool virtual_time_;
  const bool keeps_device_time_;
  Engine h2d_;
  Engine d2h_;
  Engine compute_;
  std::atomic<std::uint64_t> operations_{0};  // begun, for the faults
  std::atomic<std::uint64_t> copies_{0};      // of these
  std::atomic<std::uint64_t> kernels_{0};     // likewise
  mutable std::mutex mutex_;                  // never held across a park
  std::exception_ptr error_;
  std::set<const void*> stream_fibers_;
};

}  // namespace leat::gpu::host
