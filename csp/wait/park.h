// How the calling fiber or thread waits for one operation: connects an object that has a wait queue
// with the caller's Waiter.
#pragma once

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/wait/guest.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/thread_waiter.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

/// Waits until the operation is decided, and returns its outcome. Parks a fiber, waits as a guest
/// where the thread runs guests (guest.h), and blocks any other thread.
///
/// `enqueue(waiter)` is called first. It puts the waiter's nodes into their queues and returns the
/// locks of these queues, held, after publish_before_switch() on each. The locks stay held across
/// the switch: a claimer that finds a node finds the waiter's context saved.
///
/// `dequeue(outcome)` is called last, while the operation still exists. It removes the nodes that
/// are still in a queue, so that no queue points to an operation that is gone.
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

/// Called without a lock, before an operation that may wait until `deadline`: counts it, and gives
/// way if the calling fiber has not waited for many operations. Throws Cancelled where it gives
/// way. A try is not counted.
inline void count_operation(Deadline deadline) {
  if (deadline.is_now()) return;
  if (Fiber* const fiber = Fiber::current()) fiber->count_operation();
}

/// Waits in one queue of an object that is not a channel. `lock` guards the queue; it is held on
/// entry and on return. Returns the outcome: node.outcome if the node was popped, Waiter::kTimedOut
/// at `deadline`, or Waiter::kCancelled.
int wait_in(WaitQueue& queue, WaitNode& node, SpinLock& lock, ParkReason reason,
            const WaitObject& object = {}, Deadline deadline = Deadline::never());

}  // namespace leat
