// Waiting for fibers of another scheduler, which the waiting fiber's own scheduler cannot see.
#pragma once

#include <optional>

#include "leat/csp/fiber/fiber.h"
#include "leat/csp/scheduler.h"

namespace leat {

/// While one lives, the calling fiber may wait for fibers of `scheduler`: where that is not its
/// own, its own does not take the wait for a deadlock. No effect on a plain thread.
class WokenBy {
 public:
  explicit WokenBy(const SchedulerCore& scheduler) {
    const Fiber* const fiber = Fiber::current();
    if (fiber != nullptr && &fiber->core() != &scheduler) outside_.emplace();
  }

 private:
  std::optional<OutsideWork> outside_;
};

}  // namespace leat
