// Timers: which ones are due, and which worker keeps the time.
#include <utility>

#include "leat/csp/sched/alarm.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/wait/futex.h"
#include "leat/csp/wait/sanitizers.h"

namespace leat {

// The fiber's worker looks outside next. Either it finds nothing else to run and sleeps until the
// timer is due, or it wakes an idle worker to keep the time.
void SchedulerCore::add_timer(Timer& timer) noexcept {
  Worker::current()->until_look_outside_.set(0);
  const SpinLockGuard guard(lock_);
  timers_.add(timer);
  ++deadlines_;
  note_earliest();
}

void SchedulerCore::remove_timer(Timer& timer) noexcept {
  const SpinLockGuard guard(lock_);
  if (timer.queued) --deadlines_;
  timers_.remove(timer);
  note_earliest();
}

void SchedulerCore::start_alarm(Alarm& alarm) {
  std::shared_ptr<Alarm> share = alarm.shared_from_this();
  Worker::current()->until_look_outside_.set(0);
  const SpinLockGuard guard(lock_);
  if (alarm.timer_.at == TimePoint::max()) return;  // never
  alarm.keeps_itself_ = std::move(share);
  alarm.next_ = alarms_;
  if (alarms_ != nullptr) alarms_->previous_ = &alarm;
  alarms_ = &alarm;
  timers_.add(alarm.timer_);
  note_earliest();
}

// Returns the scheduler's share of the alarm, to be dropped without lock_. Null if it has none.
std::shared_ptr<Alarm> SchedulerCore::unlink(Alarm& alarm) noexcept {
  if (alarm.keeps_itself_ == nullptr) return nullptr;
  timers_.remove(alarm.timer_);
  (alarm.previous_ != nullptr ? alarm.previous_->next_ : alarms_) = alarm.next_;
  if (alarm.next_ != nullptr) alarm.next_->previous_ = alarm.previous_;
  alarm.next_ = alarm.previous_ = nullptr;
  return std::move(alarm.keeps_itself_);
}

void SchedulerCore::stop_alarm(Alarm& alarm) noexcept {
  std::shared_ptr<Alarm> share;
  const SpinLockGuard guard(lock_);
  share = unlink(alarm);
  note_earliest();
}

// Called when the scheduler ends.
void SchedulerCore::stop_alarms() noexcept {
  for (;;) {
    std::shared_ptr<Alarm> share;  // an alarm has a share of the scheduler in turn
    const SpinLockGuard guard(lock_);
    if (alarms_ == nullptr) return;
    share = unlink(*alarms_);
  }
}

void SchedulerCore::note_earliest() noexcept {
  earliest_.store(timers_.empty() ? TimePoint::max() : timers_.earliest(),
                  std::memory_order_relaxed);
}

bool SchedulerCore::may_have_due_timers() const noexcept {
  return !clock_->is_virtual() && earliest_.load(std::memory_order_relaxed) != TimePoint::max();
}

bool SchedulerCore::has_due_timers() const noexcept {
  return !timers_.empty() && timers_.earliest() <= clock_->now();
}

bool SchedulerCore::timers_may_wake() const noexcept {
  if (deadlines_ > 0) return true;
  for (const Alarm* alarm = alarms_; alarm != nullptr; alarm = alarm->next_) {
    if (alarm->may_wake()) return true;
  }
  return false;
}

// Takes the earliest timer that is due. It claims the fiber's wait under lock_, so a timer may be
// destroyed after remove_timer().
bool SchedulerCore::pop_due(TimePoint now, Due& due) noexcept {
  while (!timers_.empty() && timers_.earliest() <= now) {
    Timer& timer = timers_.pop();
    if (timer.fiber != nullptr) {
      --deadlines_;
      if (!timer.fiber->claim(Waiter::kTimedOut)) continue;
      due.fiber = timer.fiber;
    } else {
      Alarm& alarm = *timer.alarm;
      due.at = timer.at;
      due.fiber = nullptr;
      Deadline next = Deadline::never();
      if (alarm.period_ != Duration::zero()) {
        // The next multiple of the period that is not past. Missed ones are dropped.
        const Duration missed = (now - timer.at) / alarm.period_ * alarm.period_;
        next = Deadline::after(timer.at + missed, alarm.period_);
      }
      if (next.is_never()) {
        due.alarm = unlink(alarm);
      } else {
        due.alarm = alarm.keeps_itself_;
        timer.at = next.at();
        timers_.add(timer);
      }
    }
    note_earliest();
    return true;
  }
  note_earliest();
  return false;
}

// On the scheduler context. One timer at a time, so that the fibers are queued in the order of
// their deadlines; none goes into the run-next slot.
void SchedulerCore::fire_due_timers(Worker& worker) noexcept {
  const TimePoint now = clock_->now();
  for (;;) {
    Due due;
    {
      const SpinLockGuard guard(lock_);
      if (!pop_due(now, due)) return;
    }
    if (due.fiber == nullptr) {
      due.alarm->ring(due.at);
      continue;
    }
    queue_claimed(worker, *due.fiber);
  }
}

void SchedulerCore::queue_claimed(Worker& worker, Fiber& fiber) noexcept {
  fiber.wait_until_parked();
  tsan_release(&fiber);
  Worker* const home = fiber.home_.get();
  if (home == nullptr || home == &worker) {
    worker.push_back(fiber);
  } else {
    push_remote(fiber);
  }
}

// Whether an idle worker should sleep until the earliest timer, because no worker does, or because
// the one that does would wake too late. Under virtual time no worker sleeps until a deadline.
bool SchedulerCore::needs_timekeeper() const noexcept {
  return !clock_->is_virtual() && !timers_.empty() && timers_.earliest() < timekeeper_until_;
}

void SchedulerCore::wake_timekeeper() noexcept {
  Worker* woken = nullptr;
  {
    const SpinLockGuard guard(lock_);
    if (needs_timekeeper()) woken = wake_one();
  }
  if (woken != nullptr) futex_wake(&woken->wake_word_);
}

}  // namespace leat
