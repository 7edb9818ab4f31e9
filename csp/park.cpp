#include "leat/csp/park.h"

namespace leat {

int wait_in(WaitQueue& queue, WaitNode& node, SpinLock& lock, ParkReason reason, Deadline deadline,
            const Touchers* touchers) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  return park_current(
      reason, deadline, {}, touchers,
      [&](Operation& operation) LEAT_NO_THREAD_SAFETY_ANALYSIS {
        node.operation = &operation;
        queue.push(node);
        lock.unlock();
      },
      [&]() LEAT_NO_THREAD_SAFETY_ANALYSIS {
        lock.lock();
        queue.remove(node);
      });
}

}  // namespace leat
