#include "leat/csp/wait_group.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "leat/csp/error.h"
#include "leat/csp/wait/park.h"

namespace leat {

void WaitGroup::add(std::int64_t count) {
  WakeList wake;
  const SpinLockGuard guard(lock_);
  callers_.add(calling_scheduler());
  if (count > std::numeric_limits<std::int64_t>::max() - count_) {
    throw std::overflow_error("leat: WaitGroup: " + std::to_string(count) + " more than " +
                              std::to_string(count_) + " cannot be counted");
  }
  if (count_ + count < 0) {
    throw std::logic_error("leat: WaitGroup: the counter would become " +
                           std::to_string(count_ + count) + "; more is done than was added");
  }
  count_ += count;
  if (count_ == 0) wake.add_all(waiters_);
}

void WaitGroup::wait() { static_cast<void>(wait(Deadline::never())); }

bool WaitGroup::wait_until(TimePoint deadline) { return wait(Deadline(deadline)); }

bool WaitGroup::wait(Deadline deadline) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  count_operation(deadline);
  lock_.lock();
  callers_.add(calling_scheduler());
  if (count_ == 0) {
    lock_.unlock();
    return true;
  }
  WaitNode node;
  const int outcome =
      wait_in(waiters_, node, lock_, ParkReason::kWaitGroup, {.callers = &callers_}, deadline);
  lock_.unlock();
  if (outcome == Waiter::kCancelled) throw Cancelled{};
  return outcome >= 0;
}

}  // namespace leat
