// What a scheduler keeps of an after() or a tick() (csp/ticker.h).
#pragma once

#include <memory>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/sched/timers.h"

namespace leat {

class SchedulerCore;

/// What a scheduler keeps of an after() or tick().
class Alarm : public std::enable_shared_from_this<Alarm> {
 public:
  Alarm(std::shared_ptr<SchedulerCore> core, TimePoint at, Duration period);
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() = default;

  void start();
  void stop() noexcept;
  /// Without any lock: sends `at`.
  void ring(TimePoint at) const noexcept;
  /// Whether anybody may be woken by the next one.
  [[nodiscard]] bool may_wake() const noexcept {
    return period_ == Duration::zero() || times_.core().get()->empty_hint();
  }
  [[nodiscard]] const Channel<TimePoint>& times() const noexcept { return times_; }

 private:
  friend class SchedulerCore;

  const std::shared_ptr<SchedulerCore> core_;
  const Duration period_;  // zero: once
  const Channel<TimePoint> times_;
  Timer timer_;                          // the rest: SchedulerCore::lock_
  std::shared_ptr<Alarm> keeps_itself_;  // while the timer is queued
  Alarm* next_ = nullptr;                // in the scheduler's list of alarms
  Alarm* previous_ = nullptr;
};

}  // namespace leat
