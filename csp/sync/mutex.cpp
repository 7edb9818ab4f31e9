#include "leat/csp/mutex.h"

#include <cstdint>
#include <stdexcept>

#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/wait/park.h"

namespace leat {
namespace {

std::uint64_t calling_fiber_id() noexcept {
  const Fiber* const fiber = Fiber::current();
  return fiber != nullptr ? fiber->id() : 0;
}

}  // namespace

void Mutex::lock() { static_cast<void>(lock(Deadline::never())); }

bool Mutex::try_lock() { return lock(Deadline::now()); }

bool Mutex::try_lock_until(TimePoint deadline) { return lock(Deadline(deadline)); }

bool Mutex::lock(Deadline deadline) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  count_operation(deadline);
  lock_.lock();
  callers_.add(calling_scheduler());
  if (!locked_) {
    locked_ = true;
    holder_.store(calling_fiber_id(), std::memory_order_relaxed);
    lock_.unlock();
    return true;
  }
  if (deadline.is_now()) {
    lock_.unlock();
    return false;
  }
  WaitNode node;
  const int outcome = wait_in(waiters_, node, lock_, ParkReason::kMutex,
                              {.callers = &callers_, .holder = &holder_}, deadline);
  // unlock() hands the mutex over to the next waiter: locked_ has stayed true.
  if (outcome >= 0) holder_.store(calling_fiber_id(), std::memory_order_relaxed);
  lock_.unlock();
  if (outcome == Waiter::kCancelled) throw Cancelled{};
  return outcome >= 0;
}

void Mutex::unlock() {
  WakeList wake;
  const SpinLockGuard guard(lock_);
  callers_.add(calling_scheduler());
  if (!locked_) throw std::logic_error("leat: Mutex::unlock: it is not locked");
  if (WaitNode* const next = waiters_.pop_claimed()) {
    wake.add(*next);
  } else {
    locked_ = false;
    holder_.store(0, std::memory_order_relaxed);
  }
}

}  // namespace leat
