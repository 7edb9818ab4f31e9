// A guard for a wait for fibers of another scheduler: the waiting fiber's own scheduler cannot see
// them, and must not report a deadlock.
#pragma once

#include <optional>

#include "leat/csp/scheduler.h"
#include "leat/csp/wait/identity.h"

namespace leat {

/// A guard for a wait that fibers of `scheduler` will end. If the caller is a fiber of another
/// scheduler, that scheduler reports no deadlock while the guard lives. On a fiber of `scheduler`
/// itself and on a plain thread the guard has no effect. Made and destroyed on the same fiber.
class ExpectWakeFrom {
 public:
  [[nodiscard]] explicit ExpectWakeFrom(const SchedulerCore& scheduler) {
    const SchedulerCore* const caller = calling_scheduler();
    if (caller != nullptr && caller != &scheduler) outside_.emplace();
  }

 private:
  std::optional<OutsideWork> outside_;
};

}  // namespace leat
