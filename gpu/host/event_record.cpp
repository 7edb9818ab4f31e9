#include "leat/gpu/host/event_record.h"

#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/park.h"

namespace leat::gpu::host {

void EventRecord::complete(TimePoint at, const std::exception_ptr& error) noexcept {
  WakeList wake;
  DoneSignal* signals = nullptr;
  {
    const SpinLockGuard guard(lock_);
    done_ = true;
    at_ = at;
    error_ = error;
    wake.add_all(waiters_);
    signals = signals_.detach();
  }
  wake.wake();
  DoneSignalList::notify_all(signals, error);
}

void EventRecord::subscribe(const DoneSignalRef& signal) {
  std::exception_ptr error;
  {
    const SpinLockGuard guard(lock_);
    if (!done_) {
      signals_.push(signal);
      return;
    }
    error = error_;
  }
  signal->notify(std::move(error));
}

void EventRecord::unsubscribe(DoneSignal& signal) noexcept {
  DoneSignalRef ours;  // released after the lock
  const SpinLockGuard guard(lock_);
  ours = signals_.remove(signal);
}

void EventRecord::recycle() noexcept {
  std::exception_ptr error;  // released after the lock, too
  const SpinLockGuard guard(lock_);
  done_ = false;
  error.swap(error_);
}

void EventRecord::wait() LEAT_NO_THREAD_SAFETY_ANALYSIS {
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

bool EventRecord::is_done() const {
  const SpinLockGuard guard(lock_);
  return done_;
}

void EventRecord::rethrow_error() const {
  std::exception_ptr error;
  {
    const SpinLockGuard guard(lock_);
    error = error_;
  }
  if (error != nullptr) std::rethrow_exception(error);
}

TimePoint EventRecord::at() const {
  const SpinLockGuard guard(lock_);
  return at_;
}

}  // namespace leat::gpu::host
