// How the calling fiber or thread waits for one operation: the glue between an object with a wait
// queue and the Waiter seam.
#pragma once

#include <span>

#include "leat/csp/clock.h"
#include "leat/csp/fiber.h"
#include "leat/csp/spin_lock.h"
#include "leat/csp/touchers.h"
#include "leat/csp/wait_queue.h"
#include "leat/csp/waiter.h"

namespace leat {

/// Parks the calling fiber, or blocks the calling thread where it is no fiber, until the operation
/// is decided; returns the outcome.
/// `enqueue(operation)` comes first: it registers the operation with whatever may claim it, and
/// drops the locks under which it looked. `dequeue()` comes last, while the operation still exists:
/// it takes out of their queues the nodes that nobody claimed, so that no queue points to an
/// operation that is gone.
template <class Enqueue, class Dequeue>
int park_current(ParkReason reason, Deadline deadline, std::span<Case> cases,
                 const Touchers* touchers, Enqueue&& enqueue, Dequeue&& dequeue) {
  const auto wait = [&](Waiter& waiter) {
    Operation operation(waiter, reason, cases, touchers);
    enqueue(operation);
    waiter.park(operation, deadline);
    dequeue();
    return operation.outcome();
  };
  if (Fiber* const fiber = Fiber::current()) return wait(*fiber);
  ThreadWaiter thread;
  return wait(thread);
}

/// That of the calling fiber; null on a plain thread.
[[nodiscard]] inline const SchedulerCore* calling_scheduler() noexcept {
  const Fiber* const fiber = Fiber::current();
  return fiber != nullptr ? &fiber->core() : nullptr;
}

/// Parks in one queue, for what is not a channel. `lock` protects the queue; it is held on entry
/// and on return. Returns the outcome: node.outcome, if somebody popped the node.
int wait_in(WaitQueue& queue, WaitNode& node, SpinLock& lock, ParkReason reason,
            Deadline deadline = Deadline::never(), const Touchers* touchers = nullptr);

}  // namespace leat
