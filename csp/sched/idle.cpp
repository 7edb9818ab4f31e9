// A worker without fibers to run: sleeping, waking, keeping the time, and monitoring the busy
// workers.
#include <algorithm>
#include <utility>

#include "leat/csp/base/assert.h"
#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/cpu_count.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/sched/scheduler_core.h"

namespace leat {

void SchedulerCore::push_remote(Fiber& fiber) noexcept {
  WokenWorker woken;
  const SpinLockGuard guard(lock_);
  ++outside_progress_;
  if (Worker* const home = fiber.home_.get()) {
    home->pinned_inbox_.push(fiber);
    home->has_pinned_inbox_.store(true, std::memory_order_relaxed);
    if (home->idle_) {
      mark_busy(*home);
      woken.worker = home;
    }
  } else {
    global_queue_.push(fiber);
    // seq_cst, both: a spinner that finds other work first decrements spinning_, and then looks
    // here. A worker that goes to sleep looks under lock_.
    global_count_.fetch_add(1, std::memory_order_seq_cst);
    if (spinning_.load(std::memory_order_seq_cst) == 0) woken.worker = wake_one();
  }
}

void SchedulerCore::take_pinned_inbox(Worker& worker) noexcept {
  FiberList mine;
  {
    const SpinLockGuard guard(lock_);
    while (Fiber* const fiber = worker.pinned_inbox_.pop()) mine.push(*fiber);
    worker.has_pinned_inbox_.store(false, std::memory_order_relaxed);
  }
  while (Fiber* const fiber = mine.pop()) worker.push_back(*fiber);  // may take lock_: spill()
}

Fiber* SchedulerCore::take_global(Worker& worker) noexcept {
  if (global_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  FiberList mine;
  Fiber* first = nullptr;
  {
    const SpinLockGuard guard(lock_);
    first = global_queue_.pop();
    if (first == nullptr) return nullptr;
    const std::size_t count = global_count_.load(std::memory_order_relaxed);
    // No more than fits into the ring, which is empty.
    const std::size_t share =
        std::clamp<std::size_t>(count / workers_.size(), 1, RunRing::kSize / 2);
    std::size_t taken = 1;
    for (; taken < share; ++taken) mine.push(*global_queue_.pop());
    global_count_.store(count - taken, std::memory_order_relaxed);
  }
  while (Fiber* const fiber = mine.pop()) worker.push_back(*fiber);
  return first;
}

void SchedulerCore::spill(Worker& worker) noexcept {
  FiberList half;
  std::size_t count = 0;
  for (; count < RunRing::kSize / 2; ++count) {
    Fiber* const fiber = worker.ring_.pop(worker.alone_);
    if (fiber == nullptr) break;
    half.push(*fiber);
  }
  const SpinLockGuard guard(lock_);
  while (Fiber* const fiber = half.pop()) global_queue_.push(*fiber);
  global_count_.fetch_add(count, std::memory_order_relaxed);
}

bool SchedulerCore::look_outside(Worker& worker) noexcept {
  const bool timers = may_have_due_timers();
  if (timers) fire_due_timers(worker);
  if (!timers && global_count_.load(std::memory_order_relaxed) == 0) return false;
  Fiber* fiber = nullptr;
  bool timekeeper_wanted = false;
  {
    const SpinLockGuard guard(lock_);
    fiber = global_queue_.pop();
    if (fiber != nullptr) global_count_.fetch_sub(1, std::memory_order_relaxed);
    timekeeper_wanted = needs_timekeeper();
  }
  if (fiber != nullptr) worker.push_back(*fiber);
  return timekeeper_wanted;
}

// ---- waking

void SchedulerCore::mark_idle(Worker& worker) noexcept {
  worker.idle_ = true;
  const int idle = idle_.fetch_add(1, std::memory_order_relaxed) + 1;
  // While a worker runs, one idle worker monitors it. It is appointed here, before missed_work()
  // takes its time for a fence: otherwise the running worker would keep waking this one.
  if (monitor_ == nullptr && idle < running_workers_) monitor_ = &worker;
  update_monitor_wanted();
  if (worker.spinning_) {
    worker.spinning_ = false;
    spinning_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

// A worker counts as busy from the decision to wake it: otherwise "all idle" would be seen between
// that decision and the worker's first look at the queues.
void SchedulerCore::mark_busy(Worker& worker) noexcept {
  worker.idle_ = false;
  idle_.fetch_sub(1, std::memory_order_relaxed);
  if (monitor_ == &worker) monitor_ = nullptr;
  update_monitor_wanted();
  worker.woken_from_ = current_cpu();
  // relaxed: under lock_, as is the sleeper's read
  worker.wake_word_.fetch_add(1, std::memory_order_relaxed);
}

void SchedulerCore::update_monitor_wanted() noexcept {
  // seq_cst: a worker that puts a fiber into its run-next slot looks here next.
  monitor_wanted_.store(idle_.load(std::memory_order_relaxed) > 0 && monitor_ == nullptr,
                        std::memory_order_seq_cst);
}

Worker* SchedulerCore::wake_one() noexcept {
  if (idle_.load(std::memory_order_relaxed) == 0) return nullptr;
  Worker* chosen = nullptr;
  for (const auto& worker : workers_) {
    if (!worker->idle_) continue;
    chosen = worker.get();
    // The timekeeper and the monitor come last: they would have to be replaced.
    if (!worker->keeps_time_ && monitor_ != chosen) break;
  }
  LEAT_ASSERT(chosen != nullptr, "idle_ counts the workers that are idle");
  mark_busy(*chosen);
  return chosen;
}

void SchedulerCore::wake_all() noexcept {
  for (const auto& worker : workers_) {
    if (!worker->idle_) continue;
    mark_busy(*worker);
    futex_wake(&worker->wake_word_);
  }
}

// At most one worker at a time is on its way to look for work. When it has found some and there is
// more, it wakes the next one (Worker::found_work).
void SchedulerCore::wake_spinner() noexcept {
  int none = 0;
  if (!spinning_.compare_exchange_strong(none, 1, std::memory_order_seq_cst)) return;
  WokenWorker woken;
  const SpinLockGuard guard(lock_);
  woken.worker = wake_one();
  if (woken.worker != nullptr) {
    woken.worker->spinning_ = true;
  } else {
    // Under the lock: while spinning_ is not 0, push_remote() relies on a worker that looks for
    // work.
    spinning_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

bool SchedulerCore::may_spin(Worker& worker) noexcept {
  if (worker.spinning_) return true;
  if (2 * spinning_.load(std::memory_order_relaxed) >= worker_count_) return false;
  spinning_.fetch_add(1, std::memory_order_seq_cst);
  worker.spinning_ = true;
  return true;
}

void SchedulerCore::begin_outside_work() noexcept {
  const SpinLockGuard guard(lock_);
  ++outside_work_;
}

void SchedulerCore::end_outside_work() noexcept {
  WokenWorker woken;
  const SpinLockGuard guard(lock_);
  --outside_work_;
  ++outside_progress_;
  // No outside work can wake a fiber any more, so the worker looks for a deadlock.
  if (outside_work_ == 0) woken.worker = wake_one();
}

// ---- sleeping

bool SchedulerCore::queued_elsewhere(const Worker& worker) const noexcept {
  if (global_count_.load(std::memory_order_seq_cst) > 0) return true;
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
    return other.get() != &worker &&
           (!other->handoff_.empty() || other->ring_.size() >= tuning::kSmallQueue);
  });
}

bool SchedulerCore::woken_elsewhere(const Worker& worker) const noexcept {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
    return other.get() != &worker && other->has_retakable();
  });
}

// Changes whenever a worker switches to a fiber, and whenever something happens outside.
std::uint64_t SchedulerCore::progress() const noexcept {
  std::uint64_t sum = outside_progress_;
  for (const auto& worker : workers_) sum += worker->switches_.get();
  return sum;
}

SchedulerCore::Woken SchedulerCore::sleep(Worker& worker) noexcept {
  {
    const SpinLockGuard guard(lock_);
    switch (decide(worker)) {
      case Decision::kFireTimers: break;  // without lock_, below
      case Decision::kLookAgain: return Woken::kForWork;
      case Decision::kEnd: return Woken::kEnded;
      case Decision::kSleep: return sleep_until_woken(worker, TimePoint::max());
      case Decision::kSleepWhileStuck: return sleep_until_woken(worker, next_stuck_look_);
      case Decision::kSleepIfNoWork:
        return missed_work(worker) ? Woken::kForWork : sleep_until_woken(worker, TimePoint::max());
    }
  }
  fire_due_timers(worker);
  return Woken::kForWork;
}

SchedulerCore::Decision SchedulerCore::decide(Worker& worker) noexcept {
  // The alarms of receivers that outlive the scheduler must not keep its workers awake: if they are
  // short, one is always due, and the workers are never all idle.
  if (shutting_down_.load(std::memory_order_relaxed) && alarms_ != nullptr && live_count() == 0) {
    while (alarms_ != nullptr) unlist(*alarms_);
    note_earliest();
  }
  if (has_due_timers()) return Decision::kFireTimers;
  if (!global_queue_.empty() || !worker.pinned_inbox_.empty()) return Decision::kLookAgain;
  mark_idle(worker);
  const bool all_idle = idle_.load(std::memory_order_relaxed) == running_workers_;
  if (all_idle) return decide_when_all_idle(worker);
  if (!ended_) return Decision::kSleepIfNoWork;
  mark_busy(worker);
  return Decision::kEnd;
}

SchedulerCore::Decision SchedulerCore::decide_when_all_idle(Worker& worker) noexcept {
  if (shutting_down_.load(std::memory_order_relaxed) && live_count() == 0) {
    ended_ = true;
    mark_busy(worker);
    wake_all();
    return Decision::kEnd;
  }
  if (clock_->is_virtual()) {
    if (release_settled(worker)) return Decision::kLookAgain;
    if (timers_may_wake()) {
      options_.clock->advance_to(timers_.earliest());
      mark_busy(worker);
      return Decision::kLookAgain;
    }
  }
  if (!seeks_deadlock()) return Decision::kSleep;
  const std::uint64_t before = progress();
  if (!all_stuck()) {
    deadlock_sought_at_ = before;
    return Decision::kSleep;
  }
  if (!deadlock_is_certain()) return Decision::kSleepWhileStuck;
  mark_busy(worker);
  // After a step, the next one follows at once if no fiber has moved on since.
  if (!end_deadlock()) deadlock_sought_at_ = before;
  return Decision::kLookAgain;
}

bool SchedulerCore::missed_work(Worker& worker) noexcept {
  bool work = false;
  {
    const SpinUnlockGuard unlocked(lock_);
    heavy_fence();
    work = queued_elsewhere(worker);
  }
  if (!work && worker.idle_) return false;
  if (worker.idle_) mark_busy(worker);
  // Otherwise the worker would not spin, and would sleep again instead of taking this work.
  worker.shares_cpu_ = false;
  return true;
}

SchedulerCore::Woken SchedulerCore::sleep_until_woken(Worker& worker, TimePoint latest) noexcept {
  // As long as the worker is idle, the word has this value: mark_busy() changes both.
  const std::uint32_t word = worker.wake_word_.load(std::memory_order_relaxed);
  bool to_look = false;
  int slept_on = kNoCpu;
  do {
    if (monitor_ == &worker) review_monitor();
    const bool monitors = monitor_ == &worker;
    worker.keeps_time_ = needs_timekeeper();
    if (worker.keeps_time_) timekeeper_until_ = timers_.earliest();
    const TimePoint keeps_until = timekeeper_until_;
    {
      const SpinUnlockGuard unlocked(lock_);
      Deadline until(worker.keeps_time_ ? std::min(keeps_until, latest) : latest);
      to_look = false;
      if (monitors) {
        const TimePoint next_look = SteadyClock::instance().now() + tuning::kMonitorPeriod;
        if (next_look < until.at()) {
          until = Deadline(next_look);
          to_look = true;
        }
      }
      slept_on = current_cpu();
      futex_wait(worker.wake_word_, word, until);
    }
    if (worker.keeps_time_ && timekeeper_until_ == keeps_until) {
      timekeeper_until_ = TimePoint::max();
    }
    worker.keeps_time_ = false;
    // A look that finds nothing leaves the worker idle: no fence, which would interrupt the others.
  } while (worker.idle_ && to_look && !worker.sees_stalled_worker());
  const bool by_itself = worker.idle_;  // its deadline has passed, or a spurious return
  worker.shares_cpu_ = !by_itself && shares_its_cpu(slept_on, worker.woken_from_);
  if (by_itself) mark_busy(worker);
  if (ended_) return Woken::kEnded;
  return by_itself && to_look ? Woken::kToRetake : Woken::kForWork;
}

// Dismisses the monitor if no fiber was switched for some time, until a fiber is switched again.
void SchedulerCore::review_monitor() noexcept {
  const std::uint64_t now = progress();
  quiet_looks_ = now == progress_at_last_look_ ? quiet_looks_ + 1 : 0;
  progress_at_last_look_ = now;
  if (quiet_looks_ < tuning::kQuietLooks) return;
  Worker* const monitor = std::exchange(monitor_, nullptr);
  update_monitor_wanted();
  // From here on, a worker that puts a fiber into its run-next slot either sees monitor_wanted_ or
  // is seen below.
  heavy_fence();
  if (woken_elsewhere(*monitor)) {
    quiet_looks_ = 0;
    monitor_ = monitor;
    update_monitor_wanted();
  }
}

}  // namespace leat
