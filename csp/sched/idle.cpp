// What happens between having nothing to run and running again: sleeping, waking, watching the
// clock and the busy.
#include <algorithm>
#include <utility>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/wait/assert.h"
#include "leat/csp/wait/cpu_count.h"
#include "leat/csp/wait/futex.h"
#include "leat/csp/wait/spin_times.h"

namespace leat {
namespace {

// How often the watcher looks at the busy workers, and how often in vain before it stops.
constexpr Duration kMonitorPeriod = std::chrono::microseconds(50);
constexpr int kQuietLooks = 4;

}  // namespace

void SchedulerCore::push_remote(Fiber& fiber) noexcept {
  Worker* woken = nullptr;
  {
    const SpinLockGuard guard(lock_);
    ++outside_progress_;
    if (Worker* const home = fiber.home_.get()) {
      home->pinned_inbox_.push(fiber);
      home->has_pinned_inbox_.store(true, std::memory_order_relaxed);
      if (home->idle_) {
        mark_busy(*home);
        woken = home;
      }
    } else {
      global_queue_.push(fiber);
      // seq_cst, both: a spinner that finds other work first leaves spinning_, and then looks here.
      // One that goes to sleep looks under lock_.
      global_count_.fetch_add(1, std::memory_order_seq_cst);
      if (spinning_.load(std::memory_order_seq_cst) == 0) woken = wake_one();
    }
  }
  if (woken != nullptr) futex_wake(&woken->wake_word_);
}

void SchedulerCore::take_pinned_inbox(Worker& worker) noexcept {
  FiberList mine;
  {
    const SpinLockGuard guard(lock_);
    while (Fiber* const fiber = worker.pinned_inbox_.pop()) mine.push(*fiber);
    worker.has_pinned_inbox_.store(false, std::memory_order_relaxed);
  }
  while (Fiber* const fiber = mine.pop()) worker.push_back(*fiber);  // may want the lock: spill()
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
    // Not more than fits the ring, which is empty.
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
  Fiber* injected = nullptr;
  bool timekeeper_wanted = false;
  {
    const SpinLockGuard guard(lock_);
    injected = global_queue_.pop();
    if (injected != nullptr) global_count_.fetch_sub(1, std::memory_order_relaxed);
    timekeeper_wanted = needs_timekeeper();
  }
  if (injected != nullptr) worker.push_back(*injected);
  return timekeeper_wanted;
}

// ---- waking

// A worker counts as busy from the moment somebody decides to wake it: otherwise "all idle" would
// be seen between the decision and its first look at the queues.
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
  // seq_cst: who puts a fiber into a run-next slot looks here next.
  monitor_wanted_.store(idle_.load(std::memory_order_relaxed) > 0 && monitor_ == nullptr,
                        std::memory_order_seq_cst);
}

Worker* SchedulerCore::wake_one() noexcept {
  if (idle_.load(std::memory_order_relaxed) == 0) return nullptr;
  Worker* chosen = nullptr;
  for (const auto& worker : workers_) {
    if (!worker->idle_) continue;
    chosen = worker.get();
    // Those last: they would have to be replaced, by whoever finds work next.
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

// At most one at a time is on its way: it sends the next when it has found something and there is
// more (Worker::found_work).
void SchedulerCore::wake_spinner() noexcept {
  int none = 0;
  if (!spinning_.compare_exchange_strong(none, 1, std::memory_order_seq_cst)) return;
  Worker* woken = nullptr;
  {
    const SpinLockGuard guard(lock_);
    woken = wake_one();
    if (woken != nullptr) {
      woken->spinning_ = true;
    } else {
      // Under the lock: while it counts, push_remote() relies on somebody who looks for work.
      spinning_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }
  if (woken != nullptr) futex_wake(&woken->wake_word_);
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
  Worker* woken = nullptr;
  {
    const SpinLockGuard guard(lock_);
    --outside_work_;
    ++outside_progress_;                         // whoever was waited for may be gone:
    if (outside_work_ == 0) woken = wake_one();  // somebody looks whether all is stuck
  }
  if (woken != nullptr) futex_wake(&woken->wake_word_);
}

// ---- sleeping

bool SchedulerCore::queued_elsewhere(const Worker& worker) const noexcept {
  if (global_count_.load(std::memory_order_seq_cst) > 0) return true;
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
    return other.get() != &worker &&
           (!other->handoff_.empty() || other->ring_.size() >= Worker::kSmallQueue);
  });
}

bool SchedulerCore::woken_elsewhere(const Worker& worker) const noexcept {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& other) {
    return other.get() != &worker && other->holds_woken();
  });
}

// Changes whenever a fiber is run or something happens outside.
std::uint64_t SchedulerCore::progress() const noexcept {
  std::uint64_t sum = outside_progress_;
  for (const auto& worker : workers_) sum += worker->switches_.get();
  return sum;
}

SchedulerCore::Woken SchedulerCore::sleep(Worker& worker) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  if (has_due_timers()) {
    lock_.unlock();
    fire_due_timers(worker);
    return Woken::kBySomebody;
  }
  if (!global_queue_.empty() || !worker.pinned_inbox_.empty()) {
    lock_.unlock();
    return Woken::kBySomebody;
  }

  worker.idle_ = true;
  const int idle = idle_.fetch_add(1, std::memory_order_relaxed) + 1;
  // Somebody runs: one of those who sleep watches him. From the first moment on: if nobody did for
  // as long as a fence takes, he would wake this worker again and again.
  if (monitor_ == nullptr && idle < running_workers_) monitor_ = &worker;
  update_monitor_wanted();
  if (worker.spinning_) {
    worker.spinning_ = false;
    spinning_.fetch_sub(1, std::memory_order_seq_cst);
  }
  const std::uint32_t word = worker.wake_word_.load(std::memory_order_relaxed);

  if (idle == running_workers_) {  // every fiber is parked
    if (shutting_down_.load(std::memory_order_relaxed) && live_count() == 0) {
      ended_ = true;
      mark_busy(worker);
      wake_all();
      lock_.unlock();
      return Woken::kEnded;
    }
    if (clock_->is_virtual() && timers_may_wake()) {
      options_.clock->advance_to(timers_.earliest());
      mark_busy(worker);
      lock_.unlock();
      return Woken::kBySomebody;
    }
    if (throws_deadlock_ && !timers_may_wake() && outside_work_ == 0 &&
        deadlock_sought_at_ != progress()) {
      const std::uint64_t before = progress();
      mark_busy(worker);
      // Where all were stuck and nobody has moved on since, the next step follows at once.
      if (!end_deadlock()) deadlock_sought_at_ = before;
      lock_.unlock();
      return Woken::kBySomebody;
    }
  } else {
    if (ended_) {
      mark_busy(worker);
      lock_.unlock();
      return Woken::kEnded;
    }
    // Somebody may have queued a fiber before he could see that this worker is idle.
    lock_.unlock();
    heavy_fence();
    const bool work = queued_elsewhere(worker);
    lock_.lock();
    if (work || !worker.idle_) {
      if (worker.idle_) mark_busy(worker);
      worker.shares_cpu_ = false;  // or it would come here again instead of looking for this work
      lock_.unlock();
      return Woken::kBySomebody;
    }
  }

  bool to_watch = false;
  int slept_on = kNoCpu;
  for (;;) {
    if (monitor_ == &worker) review_monitor();
    const bool watches = monitor_ == &worker;
    worker.keeps_time_ = needs_timekeeper();
    if (worker.keeps_time_) timekeeper_until_ = timers_.earliest();
    const TimePoint keeps_until = timekeeper_until_;
    Deadline until = worker.keeps_time_ ? Deadline(timekeeper_until_) : Deadline::never();
    lock_.unlock();
    to_watch = false;
    if (watches) {
      const TimePoint next_watch = SteadyClock::instance().now() + kMonitorPeriod;
      if (next_watch < until.at()) {
        until = Deadline(next_watch);
        to_watch = true;
      }
    }
    slept_on = current_cpu();
    futex_wait(worker.wake_word_, word, until);
    lock_.lock();
    if (worker.keeps_time_ && timekeeper_until_ == keeps_until) {
      timekeeper_until_ = TimePoint::max();
    }
    worker.keeps_time_ = false;
    // A watch that sees nothing leaves the worker idle: no fence, which would interrupt the others.
    if (!worker.idle_ || !to_watch || worker.sees_stalled_worker()) break;
  }
  const bool by_itself = worker.idle_;  // its time came, or a spurious return
  worker.shares_cpu_ = !by_itself && shares_its_cpu(slept_on, worker.woken_from_);
  if (by_itself) mark_busy(worker);
  const bool ended = ended_;
  lock_.unlock();
  if (ended) return Woken::kEnded;
  return by_itself && to_watch ? Woken::kToRetake : Woken::kBySomebody;
}

// Of the watcher: where nothing moves for a while, nobody watches, until somebody moves again.
void SchedulerCore::review_monitor() noexcept {
  const std::uint64_t now = progress();
  quiet_looks_ = now == progress_at_last_look_ ? quiet_looks_ + 1 : 0;
  progress_at_last_look_ = now;
  if (quiet_looks_ < kQuietLooks) return;
  Worker* const watcher = std::exchange(monitor_, nullptr);
  update_monitor_wanted();
  // Whoever puts a fiber into his run-next slot from here on sees monitor_wanted_, or is seen.
  heavy_fence();
  if (woken_elsewhere(*watcher)) {
    quiet_looks_ = 0;
    monitor_ = watcher;
    update_monitor_wanted();
  }
}

}  // namespace leat
