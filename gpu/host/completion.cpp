#include "leat/gpu/host/completion.h"

#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/wait/expect_wake_from.h"
#include "leat/csp/wait/park.h"

namespace leat::gpu::host {

void Completion::complete(TimePoint at, const std::exception_ptr& error) noexcept {
  WakeList wake;
  DoneSignal* signals = nullptr;
  {
    const SpinLockGuard guard(lock_);
    done_ = true;
    at_ = at;
    error_ = error;
    while (WaitNode* node = waiters_.pop_claimed()) wake.add(*node);
    signals = signals_.detach();
  }
  wake.wake();
  DoneSignalList::reach_all(signals, error);
}

void Completion::subscribe(const DoneSignalRef& signal) {
  std::exception_ptr error;
  {
    const SpinLockGuard guard(lock_);
    if (!done_) {
      signals_.push(signal);
      return;
    }
    error = error_;
  }
  signal->reach(std::move(error));
}

void Completion::unsubscribe(DoneSignal& signal) noexcept {
  DoneSignalRef ours;  // goes after the lock
  const SpinLockGuard guard(lock_);
  ours = signals_.remove(signal);
}

void Completion::recycle() noexcept {
  std::exception_ptr error;  // likewise
  const SpinLockGuard guard(lock_);
  done_ = false;
  error.swap(error_);
}

void Completion::wait() LEAT_NO_THREAD_SAFETY_ANALYSIS {
  const ExpectWakeFrom waking(scheduler_);
  lock_.lock();
  if (!done_) {
    WaitNode node;
    const int outcome = wait_in(waiters_, node, lock_, ParkReason::kAwait);
    if (outcome == Waiter::kCancelled) {
      lock_.unlock();
      throw Cancelled{};
    }
  }
  const std::exception_ptr error = error_;
  lock_.unlock();
  if (error != nullptr) std::rethrow_exception(error);
}

bool Completion::is_done() const {
  const SpinLockGuard guard(lock_);
  return done_;
}

void Completion::rethrow_error() const {
  std::exception_ptr error;
  {
    const SpinLockGuard guard(lock_);
    error = error_;
  }
  if (error != nullptr) std::rethrow_exception(error);
}

TimePoint Completion::at() const {
  const SpinLockGuard guard(lock_);
  return at_;
}

}  // namespace leat::gpu::host
