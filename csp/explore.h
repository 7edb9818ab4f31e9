// explore: runs a concurrent program under many schedules, and finds one that breaks it.
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
// The explorer finds bugs in Leat's core too. Exploring builds link the target leat::csp_explore in
// place of leat::csp; a program never links both. They simulate the operating system on one thread.
// A SimulatedThread stands for a plain thread. Workers and SimulatedThreads are switched only
// before a lock, an unlock or an access to a shared atomic of the core, hence before every claim
// and wake-up. Futexes, membarrier, clocks and spinning are simulated. Time advances when every
// thread sleeps, and a deadline may pass at any moment. The explorer also chooses which of several
// ready cases a select takes.
//
// A schedule fails by
//  - an exception that leaves f or run() and was not expected. Deadlock is thrown at once, so a
//    wait for a SimulatedThread needs an OutsideWork,
//  - LEAT_ASSERT, or std::terminate,
//  - a hang: the run has not ended, and no thread can continue,
//  - more than max_steps steps.
//
// How schedules are chosen:
//  - sampled: three of four by PCT (Burckhardt et al. 2010): threads run by random priorities that
//    change at few random steps. Every fourth is a random walk. The same seed gives the same
//    schedules;
//  - exhaustive: all schedules with at most a given number of preemptions, those with the fewest
//    first (CHESS: Musuvathi & Qadeer 2007). A preemption is a switch away from a thread that could
//    continue, or a deadline that passes while a thread can run. Switches from a thread that waits
//    are free. A state that another order of independent steps has reached is not explored again.
//
// What the explorer does not see:
//  - weak memory: every atomic is sequentially consistent here, whatever order it asks for;
//  - a data race, unless its outcome shows. ThreadSanitizer on an ordinary build finds these;
//  - the order of accesses to the program's own variables. Threads of f should share only channels
//    and leat::Atomic.
//
// An exhaustive exploration requires that, and an f that is otherwise deterministic: no real time,
// no addresses, no state kept from run to run.
//
// Thread safety: one exploration at a time, on a plain thread.
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
#include "leat/csp/base/unique_function.h"
#include "leat/csp/scheduler.h"

namespace leat {

/// What to explore, and how far.
struct ExploreOptions {
  /// How many schedules to sample; the most that an exhaustive exploration runs.
  std::uint64_t schedules = 1000;
  /// The seed of sampled schedules.
  std::uint64_t seed = 1;
  /// Whether to run all schedules with at most `preemptions` preemptions, in place of samples.
  bool exhaustive = false;
  /// The bound of an exhaustive exploration.
  int preemptions = 2;
  /// How many workers run f, as in leat::run; 0: f runs on a plain thread, without a scheduler.
  int workers = 1;
  /// A schedule with more steps fails.
  std::uint64_t max_steps = 100'000;
  /// Returns whether an exception may leave f or run(). Empty: no exception may.
  std::function<bool(const std::exception_ptr&)> expected = {};
  /// Whether a failure is not printed to stderr.
  bool quiet = false;
};

/// The outcome of an exploration.
struct ExploreResult {
  /// How the program failed; empty if it did not.
  std::string failure;
  /// The schedule that failed, for replay(): "w<workers>", then "<choice>=<alternative>" for each
  /// choice but the first alternative, "continue". A sampled schedule is shortened first.
  std::string schedule;
  /// The number of schedules that were run.
  std::uint64_t schedules = 0;
  /// The number of steps of the longest schedule.
  std::uint64_t longest = 0;
  /// Whether all schedules within the bound were run.
  bool complete = false;

  /// Whether no failure was found.
  explicit operator bool() const noexcept { return failure.empty(); }
};

/// Runs f under many schedules, until one fails. Calls f anew for each schedule. A run that hangs
/// is abandoned: its objects are never destroyed.
template <class F>
ExploreResult explore(F&& f, const ExploreOptions& options = {});

/// Runs f under one schedule: ExploreResult::schedule of an earlier exploration. Throws
/// std::invalid_argument if `schedule` is not one.
template <class F>
ExploreResult replay(F&& f, std::string_view schedule, const ExploreOptions& options = {});

/// Do the same as explore() and replay(), without the type of f.
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
