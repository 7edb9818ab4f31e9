// Who ends a wait on the host device: a fiber of the device's scheduler, which need not be the
// waiting fiber's own.
#pragma once

#include <optional>

#include "leat/csp/fiber.h"
#include "leat/csp/scheduler.h"

namespace leat::gpu::host {

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

}  // namespace leat::gpu::host
