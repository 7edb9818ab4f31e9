// The identity of the calling fiber and of its scheduler.
//
// Outside csp/, Fiber and SchedulerCore are incomplete types. A pointer to one of them is an
// identity: code compares it, keeps it, or passes it to the functions of this file.
#pragma once

#include "leat/csp/base/required.h"

namespace leat {

class Clock;
class Fiber;
class SchedulerCore;

// The scheduler of the calling thread while that thread is a worker, else null. The compiler may
// keep the variable's address across a park, and the fiber may then run on another thread. Both
// threads are workers of one scheduler, so the old address has the right value. This holds for no
// other thread-local.
//
// It has the default TLS model. In a program that costs no more than initial-exec, because the
// linker replaces the call. A plug-in with one initial-exec variable needs all of its thread-locals
// in the loader's spare block, about 1.6 KB in all, or cannot be loaded. The static CUDA runtime
// alone has 12 KB.
extern thread_local constinit const SchedulerCore* t_scheduler;

/// Returns the scheduler of the calling fiber; null on a plain thread. ThreadSanitizer does not
/// check it: the tool takes a worker and its fibers for several threads, but they share one
/// variable.
[[nodiscard]] __attribute__((no_sanitize("thread"))) inline const SchedulerCore*
calling_scheduler() noexcept {
  return t_scheduler;
}

/// Returns the calling fiber; null on a plain thread. An identity until the fiber has ended.
[[nodiscard]] const Fiber* calling_fiber() noexcept;

/// Returns the clock of a scheduler that has not ended.
[[nodiscard]] const Clock& clock_of(const SchedulerCore& scheduler) noexcept;

/// Returns the number of workers that a scheduler was made with.
[[nodiscard]] int workers_of(const SchedulerCore& scheduler) noexcept;

}  // namespace leat
