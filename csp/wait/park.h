// How the calling fiber or thread waits for one operation: the glue between an object with a wait
// queue and the Waiter seam.
#pragma once

#include "leat/csp/clock.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/wait/guest.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"
#include "leat/csp/wait/thread_waiter.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

/// Parks the calling fiber, or blocks the calling thread where it is no fiber and runs no guests
/// (guest.h), until the operation is decided; returns the outcome.
/// `enqueue(waiter)` comes first: it registers the waiter with whatever may claim it, and returns
/// the locks under which it did. They are held across the switch, so that who finds the waiter
/// finds its context saved; hence publish_before_switch() on each of them. `dequeue(outcome)` comes
/// last, while the operation still exists: it takes out of their queues the nodes that nobody
/// claimed, so that no queue points to an operation that is gone.
template <class Enqueue, class Dequeue>
int park_current(const Wait& what, Deadline deadline, Enqueue&& enqueue, Dequeue&& dequeue) {
  const auto wait = [&](auto& waiter) {
    waiter.begin(what);
    const HeldLocks held = enqueue(waiter);
    waiter.park(deadline, held);
    const int outcome = waiter.outcome();
    dequeue(outcome);
    waiter.end();
    return outcome;
  };
  if (Fiber* const fiber = Fiber::current()) return wait(*fiber);
  if (const GuestWait as_guest = guest_wait()) {
    int outcome = 0;
    auto operation = [&](Waiter& guest) { outcome = wait(guest); };
    as_guest([](void* call, Waiter& guest) { (*static_cast<decltype(operation)*>(call))(guest); },
             &operation);
    return outcome;
  }
  ThreadWaiter thread;
  return wait(thread);
}

/// Parks in one queue, for what is not a channel. `lock` protects the queue; it is held on entry
/// and on return. Returns the outcome: node.outcome, if somebody popped the node.
int wait_in(WaitQueue& queue, WaitNode& node, SpinLock& lock, ParkReason reason,
            const WaitObject& object = {}, Deadline deadline = Deadline::never());

}  // namespace leat
