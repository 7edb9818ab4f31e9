#include "leat/gpu/host/completion.h"

#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/park.h"
#include "leat/csp/woken_by.h"

namespace leat::gpu::host {

void Completion::complete(TimePoint at, std::exception_ptr error) noexcept {
  WakeList wake;
  {
    const SpinLockGuard guard(lock_);
    done_ = true;
    at_ = at;
    error_ = std::move(error);
    while (WaitNode* node = waiters_.pop_claimed()) wake.add(*node);
  }
  wake.wake();
}

void Completion::wait() LEAT_NO_THREAD_SAFETY_ANALYSIS {
  const WokenBy waking(scheduler_);
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
