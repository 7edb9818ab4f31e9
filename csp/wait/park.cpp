#include "leat/csp/wait/park.h"

namespace leat {

int wait_in(WaitQueue& queue, WaitNode& node, SpinLock& lock, ParkReason reason,
            const WaitObject& object, Deadline deadline) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  return park_current(
      {.reason = reason, .object = &object}, deadline,
      [&](Waiter& waiter) {
        node.waiter = &waiter;
        queue.push(node);
        lock.publish_before_switch();
        return HeldLocks{.one = &lock};
      },
      [&](int) LEAT_NO_THREAD_SAFETY_ANALYSIS {
        lock.lock();
        queue.remove(node);
      });
}

}  // namespace leat
