#include "leat/csp/sched/group_core.h"

#include <stdexcept>
#include <utility>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/park.h"

namespace leat {

GroupCore::GroupCore(std::shared_ptr<SchedulerCore> core)
    : hold_(std::move(core)), core_(*hold_), is_root_(false) {}

GroupCore::GroupCore(SchedulerCore& core) : core_(core), is_root_(true) {}

// Called with the lock held, returns with it held; throws without it.
void GroupCore::wait_in(WaitQueue& queue, ParkReason reason) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  const ExpectWakeFrom waking(core_);
  WaitNode node;
  const int outcome = leat::wait_in(queue, node, lock_, reason, {.group = this});
  if (outcome == Waiter::kCancelled) {
    lock_.unlock();
    throw Cancelled{};
  }
}

void GroupCore::leave(WakeList& wake) noexcept {
  --count_;
  if (WaitNode* node = launchers_.pop_claimed()) wake.add(*node);
  if (count_ == 0) {
    wake.add_all(joiners_);
  }
}

void GroupCore::add(Fiber& fiber) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  if (is_root_) return;
  lock_.lock();
  while (count_ >= limit_) wait_in(launchers_, ParkReason::kLimit);  // throws without the lock
  ++count_;
  fiber.group_next_ = fibers_;
  fiber.group_previous_ = nullptr;
  if (fibers_ != nullptr) fibers_->group_previous_ = &fiber;
  fibers_ = &fiber;
  if (stopped()) fiber.request_cancel();
  lock_.unlock();
}

void GroupCore::remove(Fiber& fiber) noexcept {
  if (is_root_) return;
  WakeList wake;
  const SpinLockGuard guard(lock_);
  (fiber.group_previous_ != nullptr ? fiber.group_previous_->group_next_ : fibers_) =
      fiber.group_next_;
  if (fiber.group_next_ != nullptr) fiber.group_next_->group_previous_ = fiber.group_previous_;
  leave(wake);  // from here the group may be gone
}

void GroupCore::wake_joiners() noexcept {
  WakeList wake;
  const SpinLockGuard guard(lock_);
  wake.add_all(joiners_);
}

bool GroupCore::is_empty() const noexcept {
  return is_root_ ? core_.root_count() == 0 : count_ == 0;
}

void GroupCore::fail(std::exception_ptr error) noexcept {
  {
    const SpinLockGuard guard(lock_);
    if (first_error_ == nullptr) first_error_ = std::move(error);
  }
  stop();
}

void GroupCore::stop() noexcept {
  bool has_fibers = false;
  {
    const SpinLockGuard guard(lock_);
    if (stopped()) return;
    stopped_.store(true, std::memory_order_relaxed);
    has_fibers = fibers_ != nullptr;
    for (Fiber* fiber = fibers_; fiber != nullptr; fiber = fiber->group_next_) {
      fiber->request_cancel();
    }
  }
  if (has_fibers) {
    heavy_fence();
    FiberList cancelled;
    {
      const SpinLockGuard guard(lock_);
      for (Fiber* fiber = fibers_; fiber != nullptr; fiber = fiber->group_next_) {
        if (fiber->deliver_cancel()) cancelled.push(*fiber);
      }
    }
    cancelled.make_ready();
  }
  if (is_root_) core_.cancel_root_fibers();
  stop_source_.request_stop();  // runs user callbacks: without the lock
}

void GroupCore::join(ParkReason reason) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  if (const Fiber* const fiber = Fiber::current(); fiber != nullptr && fiber->group() == this) {
    throw std::logic_error(
        "leat: a fiber waits for the group that it belongs to, hence for itself");
  }
  if (is_root_) {
    // Fibers end without lock_: either the last one that ends sees this, or the group is empty
    // below.
    was_joined_.store(true, std::memory_order_relaxed);
    heavy_fence();
  }
  lock_.lock();
  while (!is_empty()) wait_in(joiners_, reason);  // throws without the lock
  lock_.unlock();
}

void GroupCore::set_limit(std::size_t limit) noexcept {
  WakeList wake;
  const SpinLockGuard guard(lock_);
  limit_ = limit;
  // A launcher that is woken looks at the limit again.
  wake.add_all(launchers_);
}

std::exception_ptr GroupCore::first_error() const {
  const SpinLockGuard guard(lock_);
  return first_error_;
}

std::exception_ptr GroupCore::take_first_error() noexcept {
  const SpinLockGuard guard(lock_);
  return std::exchange(first_error_, nullptr);
}

std::exception_ptr GroupCore::restart() noexcept {
  const SpinLockGuard guard(lock_);
  if (is_empty()) stopped_.store(false, std::memory_order_relaxed);
  return std::exchange(first_error_, nullptr);
}

}  // namespace leat
