// Parking a fiber, inlined down to the switch. Shared by core.cpp and select_core.cpp.
#pragma once

#include <utility>

#include "leat/csp/base/cycles.h"
#include "leat/csp/clock.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/sched/worker_switch.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

/// The approximate time: of the calling worker, or, for a plain thread (null), of the CPU.
inline Cycles coarse_now(const Worker* worker) noexcept {
  return worker != nullptr ? worker->coarse_now() : cycles_now();
}

/// park_current() for the fiber that `worker` runs.
template <class Enqueue, class Dequeue>
LEAT_INLINE int park_fiber(Worker& worker, const Wait& what, Deadline deadline, Enqueue&& enqueue,
                           Dequeue&& dequeue) {
  Fiber& fiber = *worker.running();
  fiber.begin_here(worker, what);
  const HeldLocks held = enqueue(fiber);
  fiber.park_here(worker, deadline, held);
  const int outcome = fiber.outcome();
  dequeue(outcome);
  fiber.end();
  return outcome;
}

}  // namespace leat
