#include "leat/csp/sched/io_pool.h"

#include <mutex>
#include <utility>

#include "leat/csp/base/futex.h"
#include "leat/csp/base/start_thread.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/error.h"
#include "leat/csp/wait/park.h"

namespace leat {

void IoPool::end() noexcept {
  {
    const SpinLockGuard guard(lock_);
    ending_ = true;
    word_.fetch_add(1, std::memory_order_relaxed);
  }
  futex_wake_all(&word_);
  for (;;) {
    OsThread one;
    {
      const std::scoped_lock lock(handles_mutex_);
      std::list<OsThread>& list = ended_.empty() ? running_ : ended_;
      if (list.empty()) return;
      // A running thread moves its handle to ended_ when it ends. So the handle is taken out of the
      // list before the lock is dropped.
      one = std::move(list.front());
      if (&list == &ended_) list.pop_front();
      if (!one.joinable()) {
        if (&list == &running_) list.pop_front();
        continue;
      }
    }
    one.join();
  }
}

int IoPool::threads() const noexcept {
  const SpinLockGuard guard(lock_);
  return threads_;
}

void IoPool::run(BlockingCall& call) {
  start_thread_if_needed();
  const int outcome = park_current(
      {.reason = ParkReason::kBlocking}, Deadline::never(),
      [&](Waiter& waiter) LEAT_NO_THREAD_SAFETY_ANALYSIS {
        call.waiter = &waiter;
        lock_.lock();
        calls_.push(call);
        word_.fetch_add(1, std::memory_order_relaxed);
        lock_.publish_before_switch();
        return HeldLocks{.drop = &unlock_and_wake, .argument = this};
      },
      [&](int decided) {
        if (decided != Waiter::kCancelled) return;  // a thread has taken the call
        const SpinLockGuard guard(lock_);
        calls_.remove(call);
        --waiting_;
      });
  if (outcome == Waiter::kCancelled) throw Cancelled{};
}

// Runs when the fiber has parked. Its scheduler, and so the pool, outlives the worker that calls
// this.
__attribute__((no_sanitize("thread"))) void IoPool::unlock_and_wake(void* self) noexcept {
  auto* const pool = static_cast<IoPool*>(self);
  pool->lock_.unlock_after_switch();
  futex_wake(&pool->word_);
}

void IoPool::start_thread_if_needed() {
  join_ended();
  {
    const SpinLockGuard guard(lock_);
    ++waiting_;
    if (waiting_ <= idle() || threads_ == most_threads_) return;
    ++threads_;
  }
  try {
    const std::scoped_lock lock(handles_mutex_);
    const auto self = running_.emplace(running_.end());
    try {
      *self = start_thread<OsThread>("a thread for blocking()", [this, self] { work(self); });
    } catch (...) {
      running_.erase(self);
      throw;
    }
  } catch (...) {
    {
      const SpinLockGuard guard(lock_);
      if (--threads_ > 0) return;  // another thread will take the call
      --waiting_;
    }
    throw;
  }
}

void IoPool::join_ended() {
  std::list<OsThread> ended;
  {
    const std::scoped_lock lock(handles_mutex_);
    ended.swap(ended_);
  }
  for (OsThread& thread : ended) thread.join();
}

void IoPool::work(std::list<OsThread>::iterator self) noexcept {
  while (BlockingCall* const call = take()) {
    Waiter& waiter = *call->waiter;
    call->run();
    {
      // First, because the fiber may make its next call at once: this thread is there for it.
      const SpinLockGuard guard(lock_);
      --busy_;
    }
    waiter.ready();  // from here on the call may not exist any more
  }
  const std::scoped_lock lock(handles_mutex_);
  if (self->joinable()) ended_.splice(ended_.end(), running_, self);
}

BlockingCall* IoPool::take() noexcept {
  const SpinLockGuard guard(lock_);
  for (bool timed_out = false;;) {
    if (WaitNode* const call = calls_.pop_claimed()) {
      ++busy_;
      --waiting_;
      return static_cast<BlockingCall*>(call);
    }
    if (ending_ || (timed_out && waiting_ < idle())) {
      --threads_;
      return nullptr;
    }
    const std::uint32_t word = word_.load(std::memory_order_relaxed);
    const TimePoint until = SteadyClock::instance().now() + tuning::kIdleIoThread;
    const SpinUnlockGuard unlocked(lock_);
    futex_wait(word_, word, Deadline(until));
    timed_out = SteadyClock::instance().now() >= until;
  }
}

}  // namespace leat
