#include "leat/csp/notification.h"

#include "leat/csp/error.h"
#include "leat/csp/wait/park.h"

namespace leat {

void Notification::notify() noexcept {
  WakeList wake;
  const SpinLockGuard guard(lock_);
  callers_.add(calling_scheduler());
  notified_ = true;
  wake.add_all(waiters_);
}

bool Notification::has_been_notified() const noexcept {
  const SpinLockGuard guard(lock_);
  return notified_;
}

void Notification::wait() { static_cast<void>(wait(Deadline::never())); }

bool Notification::wait_until(TimePoint deadline) { return wait(Deadline(deadline)); }

bool Notification::wait(Deadline deadline) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  count_operation(deadline);
  lock_.lock();
  callers_.add(calling_scheduler());
  if (notified_) {
    lock_.unlock();
    return true;
  }
  WaitNode node;
  const int outcome =
      wait_in(waiters_, node, lock_, ParkReason::kNotification, {.callers = &callers_}, deadline);
  lock_.unlock();
  if (outcome == Waiter::kCancelled) throw Cancelled{};
  return outcome >= 0;
}

}  // namespace leat
