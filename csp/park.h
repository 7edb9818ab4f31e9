// How the calling fiber or thread waits for one operation: the glue between an object with a wait
// queue and the Waiter seam.
#pragma once

#include <span>

#include "leat/csp/clock.h"
#include "leat/csp/fiber.h"
#include "leat/csp/waiter.h"

namespace leat {

/// Parks the calling fiber, or blocks the calling thread where it is no fiber, until the operation
/// is decided; returns the outcome.
/// `enqueue(operation)` comes first: it registers the operation with whatever may claim it, and
/// drops the locks under which it looked. `dequeue()` comes last, while the operation still exists:
/// it takes out of their queues the nodes that nobody claimed, so that no queue points to an
/// operation that is gone.
template <class Enqueue, class Dequeue>
int park_current(ParkReason reason, Deadline deadline, std::span<Case> cases, Enqueue&& enqueue,
                 Dequeue&& dequeue) {
  const auto wait = [&](Waiter& waiter) {
    Operation operation(waiter, reason, cases);
    enqueue(operation);
    waiter.park(operation, deadline);
    dequeue();
    return operation.outcome();
  };
  if (Fiber* const fiber = Fiber::current()) return wait(*fiber);
  ThreadWaiter thread;
  return wait(thread);
}

}  // namespace leat
