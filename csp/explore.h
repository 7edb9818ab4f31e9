// explore: runs a concurrent program under many schedules, and finds the one that breaks it.
//
// Example
//   const leat::ExploreResult result = leat::explore([] {
//     leat::Channel<int> c(1);
//     leat::go([&] { c.send(1); });
//     leat::SimulatedThread thread([&] { c.send(2); });
//     if (*c.recv() + *c.recv() != 3) throw std::logic_error("lost");
//     thread.join();
//   }, {.exhaustive = true, .preemptions = 2});
//   if (!result) std::puts(result.schedule.c_str());   // for leat::replay(f, "...")
//
// It finds bugs in the core itself, not only in its users. In exploring builds (the target
// leat::csp_explore instead of leat::csp, never both in one program) the operating system is
// simulated on one thread: workers, and the VirtualThreads that stand for plain threads, are
// switched at the core's sched_points only. These stand before every lock, unlock and shared atomic
// of the core, hence before every claim and wake-up. Sleeping on a futex, membarrier, clocks and
// spinning are simulated; time advances when everybody sleeps, and a deadline may pass at any
// moment. Which of several ready cases a select takes is up to the explorer too.
//
// A schedule fails by
//  - an exception that leaves f or run() (Deadlock among them) and was not expected,
//  - LEAT_ASSERT, or std::terminate,
//  - a hang: the run has not ended, and no thread can go on,
//  - max_steps: somebody goes round in circles.
//
// How schedules are chosen:
//  - sampled: most by PCT (Burckhardt et al. 2010): threads run by random priorities, which change
//    at few random steps; every fourth is a random walk. The same seed gives the same schedules;
//  - exhaustive: all with at most so many preemptions (a switch away from a thread that could go
//    on, or a deadline that passes while somebody can run), fewest first (CHESS: Musuvathi & Qadeer
//    2007). Switches from a thread that waits are free. What has been reached before by another
//    order of independent steps is not followed again.
//
// What it does not see: weak memory. Every atomic is sequentially consistent here, whatever order
// it asks for, and a data race shows only if its outcome does; ThreadSanitizer on the ordinary
// build looks for these. Nor does it interleave accesses to what is not the core's: what the
// threads of `f` share should be channels, or leat::Atomic. An exhaustive exploration relies on
// that, and on f being deterministic otherwise: no real time, no addresses, no state kept from run
// to run.
#pragma once

#if !defined(LEAT_EXPLORE)
#error "leat/csp/explore.h is for exploring builds: link leat::csp_explore instead of leat::csp"
#endif

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "leat/csp/base/os_thread.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/unique_function.h"

namespace leat {

/// What to explore, and how far.
struct ExploreOptions {
  /// How many schedules are sampled; of an exhaustive exploration, at most how many are run.
  std::uint64_t schedules = 1000;
  /// Of what is sampled.
  std::uint64_t seed = 1;
  /// All schedules with at most `preemptions` preemptions.
  bool exhaustive = false;
  int preemptions = 2;
  /// f runs as by leat::run with so many workers; 0: on a plain thread, without a scheduler.
  int workers = 1;
  /// A schedule with more steps than this fails.
  std::uint64_t max_steps = 100'000;
  /// Whether that exception may leave f or run(). None may where this is empty.
  std::function<bool(const std::exception_ptr&)> expected = {};
  /// Says nothing on stderr about a failure.
  bool quiet = false;
};

/// What came of it.
struct ExploreResult {
  /// How the program failed; empty if it did not.
  std::string failure;
  /// Under which schedule, for replay(): "w<workers>", then "<choice>=<alternative>" for each
  /// choice that was not the first alternative, which is to go on. A sampled one is shortened
  /// first.
  std::string schedule;
  /// How many schedules were run, and the steps of the longest.
  std::uint64_t schedules = 0;
  std::uint64_t longest = 0;
  /// All schedules within the bound were run.
  bool complete = false;

  /// No failure was found.
  explicit operator bool() const noexcept { return failure.empty(); }
};

/// Runs f under many schedules, until one fails. f is called afresh for each of them. A run that
/// hangs is abandoned: what it holds is never destroyed. One exploration at a time, on a plain
/// thread.
template <class F>
ExploreResult explore(F&& f, const ExploreOptions& options = {});

/// Runs f under one schedule that explore() has printed.
template <class F>
ExploreResult replay(F&& f, std::string_view schedule, const ExploreOptions& options = {});

/// explore() and replay(), once the type of f is taken care of.
ExploreResult explore_program(UniqueFunction<void()> program, const ExploreOptions& options);
ExploreResult replay_program(UniqueFunction<void()> program, std::string_view schedule,
                             const ExploreOptions& options);

template <class F>
ExploreResult explore(F&& f, const ExploreOptions& options) {
  return explore_program([&f] { f(); }, options);
}

template <class F>
ExploreResult replay(F&& f, std::string_view schedule, const ExploreOptions& options) {
  return replay_program([&f] { f(); }, schedule, options);
}

}  // namespace leat
