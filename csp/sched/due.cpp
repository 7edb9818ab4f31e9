// Timers: which ones are due, and which worker keeps the time.
#include <utility>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/sched/alarm.h"
#include "leat/csp/sched/scheduler_core.h"

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

void SchedulerCore::start_alarm(Alarm& alarm) noexcept {
  Worker::current()->until_look_outside_.set(0);
  const SpinLockGuard guard(lock_);
  if (alarm.timer_.at == TimePoint::max()) return;  // never
  alarm.listed_ = true;
  alarm.next_ = alarms_;
  if (alarms_ != nullptr) alarms_->previous_ = &alarm;
  alarms_ = &alarm;
  timers_.add(alarm.timer_);
  note_earliest();
}

void SchedulerCore::unlist(Alarm& alarm) noexcept {
  alarm.listed_ = false;
  timers_.remove(alarm.timer_);
  (alarm.previous_ != nullptr ? alarm.previous_->next_ : alarms_) = alarm.next_;
  if (alarm.next_ != nullptr) alarm.next_->previous_ = alarm.previous_;
  alarm.next_ = alarm.previous_ = nullptr;
}

void SchedulerCore::stop_alarm(Alarm& alarm) noexcept {
  WokenWorker woken;
  const SpinLockGuard guard(lock_);
  if (!alarm.listed_) return;
  unlist(alarm);
  note_earliest();
  // By a thread outside. Without this timer, the fibers may be in a deadlock.
  if (idle_.load(std::memory_order_relaxed) == running_workers_) {
    ++outside_progress_;
    woken.worker = wake_one();
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
// destroyed after remove_timer(). Likewise it counts itself as a user of the alarm under lock_: an
// alarm may be dropped after stop_alarm().
bool SchedulerCore::pop_due(TimePoint now, DueTimer& due) noexcept {
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
      due.alarm = &alarm;
      alarm.users_.fetch_add(1, std::memory_order_relaxed);
      if (next.is_never()) {
        unlist(alarm);
      } else {
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
    DueTimer due;
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
  WokenWorker woken;
  const SpinLockGuard guard(lock_);
  if (needs_timekeeper()) woken.worker = wake_one();
}

}  // namespace leat
