// The scheduler's side of after() and tick() (csp/ticker.h).
#pragma once

#include <memory>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/sched/timers.h"

namespace leat {

class SchedulerCore;

/// A timer that sends the time into a channel, once or periodically. The scheduler owns a share of
/// it while its timer is queued.
class Alarm : public std::enable_shared_from_this<Alarm> {
 public:
  Alarm(std::shared_ptr<SchedulerCore> core, TimePoint at, Duration period);
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() = default;

  /// Queues the timer.
  void start();
  /// Removes the timer. Idempotent.
  void stop() noexcept;
  /// Sends `at`. Called without a lock.
  void ring(TimePoint at) const noexcept;
  /// Whether the next ring() may wake a fiber: false while the last time has not been received.
  [[nodiscard]] bool may_wake() const noexcept {
    return period_ == Duration::zero() || times_.core().get()->empty_hint();
  }
  [[nodiscard]] const Channel<TimePoint>& times() const noexcept { return times_; }

 private:
  friend class SchedulerCore;

  const std::shared_ptr<SchedulerCore> core_;
  const Duration period_;  // zero: once
  const Channel<TimePoint> times_;
  Timer timer_;                          // guarded, with the members below, by SchedulerCore::lock_
  std::shared_ptr<Alarm> keeps_itself_;  // while the timer is queued
  Alarm* next_ = nullptr;                // in the scheduler's list of alarms
  Alarm* previous_ = nullptr;
};

}  // namespace leat
