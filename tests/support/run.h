// Runs a test's body under every configuration that must not matter: 1, 2 and 4 workers.
//
// Time in these runs is virtual: it advances only when every fiber is parked. That makes "is
// blocked" exact: after until_idle() every other fiber waits for something, or has ended.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"

namespace leat::support {

/// Calls body(options) with 1, 2 and 4 workers; real time. A deadlock is reported at once.
template <class Body>
void on_each_worker_count(Body&& body) {
  for (const int workers : {1, 2, 4}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__,
                                     testing::Message() << workers << " workers");
    body(SchedulerOptions{.workers = workers, .deadlock_after = Duration::zero()});
  }
}

/// Calls body(options, clock) with 1, 2 and 4 workers and a fresh virtual clock, which `options`
/// name.
template <class Body>
void on_each_worker_count_with_clock(Body&& body) {
  on_each_worker_count([&](SchedulerOptions options) {
    VirtualClock clock;
    options.clock = &clock;
    body(std::as_const(options), std::as_const(clock));
  });
}

/// Runs `body` as the main fiber, with 1, 2 and 4 workers and virtual time.
template <class Body>
void run_each(Body&& body) {
  on_each_worker_count_with_clock(
      [&](const SchedulerOptions& options, const VirtualClock&) { leat::run(body, options); });
}

/// Runs `body` in virtual time, and returns how much of it has passed by its end.
template <class Body>
Duration in_virtual_time(SchedulerOptions options, Body&& body) {
  VirtualClock clock;
  options.clock = &clock;
  leat::run(std::forward<Body>(body), options);
  return clock.elapsed();
}
/// The same on one worker.
template <class Body>
Duration in_virtual_time(Body&& body) {
  return in_virtual_time({.workers = 1}, std::forward<Body>(body));
}

/// How many rounds a test that would take `count` takes where each is slow: a switch costs
/// ThreadSanitizer a hundred times as much, and it knows about 8,000 threads and fibers in all.
constexpr int rounds(int count) {
#if defined(LEAT_TSAN)
  return count / 10;
#else
  return count;
#endif
}

/// True for the cells of a grid of cases that are left out where each is slow: six of seven. Seven
/// has no factor in common with the sizes of most axes, so that most values are met.
constexpr bool is_left_out(int cell) {
#if defined(LEAT_TSAN)
  return cell % 7 != 0;
#else
  static_cast<void>(cell);
  return false;
#endif
}

/// Returns when every other fiber is parked (or done). A nanosecond of virtual time passes.
inline void until_idle() { sleep_for(Duration(1)); }

/// Virtual time since the clock's epoch.
inline Duration elapsed() { return now().time_since_epoch(); }

}  // namespace leat::support
