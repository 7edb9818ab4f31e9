// settle(): waits until nothing more can happen at this instant of virtual time.
//
// Always true under lock_: a fiber in settling_ is parked, or its worker is not idle. So when all
// workers are idle, its context is saved. As long as settling_ has an undecided fiber, the last
// worker to become idle releases one: virtual time stands still, and no deadlock is looked for.
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/base/thread_annotations.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/sched/worker.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/park.h"
#include "leat/csp/wait/queue.h"

namespace leat {

void settle() {
  const Fiber* const fiber = Fiber::current();
  if (fiber != nullptr && fiber->core().clock().is_virtual()) {
    fiber->core().settle();
    return;
  }
  yield();
  if (fiber != nullptr && fiber->shall_stop()) throw Cancelled{};
}

void SchedulerCore::settle() {
  WaitNode node;
  const int outcome = park_current(
      {.reason = ParkReason::kSettle}, Deadline::never(),
      [&](Waiter& waiter) {
        node.waiter = &waiter;
        // Not held across the switch, which may take it. It need not be: see above.
        const SpinLockGuard guard(lock_);
        settling_.push(node);
        return HeldLocks{};
      },
      [&](int decided) {
        if (decided != Waiter::kCancelled) return;  // release_settled() has removed the node
        const SpinLockGuard guard(lock_);
        settling_.remove(node);
      });
  if (outcome == Waiter::kCancelled) throw Cancelled{};
}

// One fiber alone: the next is released when all workers are idle again. Not analysed, because a
// SpinUnlockGuard counts as holding the lock.
bool SchedulerCore::release_settled(Worker& worker) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  const WaitNode* const node = settling_.pop_claimed();
  if (node == nullptr) return false;
  mark_busy(worker);
  // The worker is busy, so nobody else finds all workers idle meanwhile.
  const SpinUnlockGuard unlocked(lock_);
  queue_claimed(worker, static_cast<Fiber&>(*node->waiter));
  return true;
}

}  // namespace leat
