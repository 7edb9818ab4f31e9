// The scheduler's side of after() and tick() (csp/ticker.h).
#pragma once

#include <memory>

#include "leat/csp/base/atomic.h"
#include "leat/csp/channel/core.h"
#include "leat/csp/clock.h"
#include "leat/csp/sched/timers.h"

namespace leat {

class SchedulerCore;

/// A channel of capacity 1 with a timer that sends the time into it, once or periodically.
///
/// Its references are the receivers' handles. The scheduler has none: when the channel would be
/// freed, the timer is removed. A worker that rings the alarm at that moment frees it in its stead.
class Alarm final : public ChannelCore {
 public:
  /// Starts with one reference, which the caller adopts, and without its timer.
  Alarm(std::shared_ptr<SchedulerCore> core, TimePoint at, Duration period);

  /// Queues the timer.
  void start();
  /// Removes the timer. Idempotent.
  void stop() noexcept;
  /// Sends `at`, and ends the worker's use of the alarm. Called without a lock.
  void ring(TimePoint at) noexcept;
  /// Whether the next ring() may wake a fiber: false while the last time has not been received.
  [[nodiscard]] bool may_wake() const noexcept {
    return period_ == Duration::zero() || empty_hint();
  }

 private:
  friend class SchedulerCore;

  ~Alarm() = default;
  static void end(ChannelCore* channel) noexcept;
  static const ElementType kElement;
  void drop() noexcept;

  const std::shared_ptr<SchedulerCore> core_;
  const Duration period_;  // zero: once
  // The handles together, and a worker between pop_due() and the end of ring().
  Atomic<int> users_{1};
  Timer timer_;          // guarded, with the members below, by SchedulerCore::lock_
  bool listed_ = false;  // in the scheduler's list of alarms
  Alarm* next_ = nullptr;
  Alarm* previous_ = nullptr;
};

}  // namespace leat
