// Who is calling: the identity of the calling fiber and of a scheduler.
//
// Outside csp/, Fiber and SchedulerCore are incomplete types. A pointer to one is compared with
// another, kept as an identity, or passed to the functions of this file.
#pragma once

namespace leat {

class Clock;
class Fiber;
class SchedulerCore;

// Of the thread: set while it is a worker. Its address may be kept by the compiler across a park,
// after which the fiber may run on another thread: that one is a worker of the same scheduler, and
// the old one still is, so both read the same. No other thread-local may be read in this way.
extern thread_local constinit const SchedulerCore* t_scheduler
    __attribute__((tls_model("initial-exec")));

/// The scheduler of the calling fiber; null on a plain thread. Not checked for races: the variable
/// is the thread's, and a worker and its fibers are one thread.
[[nodiscard]] __attribute__((no_sanitize("thread"))) inline const SchedulerCore*
calling_scheduler() noexcept {
  return t_scheduler;
}

/// The calling fiber; null on a plain thread. Valid as an identity until the fiber has ended.
[[nodiscard]] const Fiber* calling_fiber() noexcept;

/// The clock of a scheduler that has not ended.
[[nodiscard]] const Clock& clock_of(const SchedulerCore& scheduler) noexcept;

/// How many workers a scheduler has been made with.
[[nodiscard]] int workers_of(const SchedulerCore& scheduler) noexcept;

}  // namespace leat
