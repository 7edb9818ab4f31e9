// The programs in which the bugs show that tests/csp/explore/CMakeLists.txt plants into copies of
// the channels' algorithm.
#pragma once

#include <array>

#include "leat/csp/explore.h"
#include "tests/csp/explore/descriptors.h"
#include "tests/csp/explore/scenarios.h"

namespace leat::scenarios {

struct Mutation {
  const char* name;
  const char* bug;
  void (*between_threads)();  // null: a plain thread cannot show it
  void (*between_fibers)();
  /// Of the latter's run.
  int workers;
};

inline void senders_in_turn_beside_a_thread() {
  const OutsideWork thread;
  senders_in_turn<Fibers>();
}

inline constexpr std::array kMutations{
    Mutation{"lost_wakeup", "a lost wake-up when a receiver blocks first on a buffered channel",
             buffered_one<Threads>, buffered_one<Fibers>, 2},
    Mutation{"overtaking", "a later sender overtakes a blocked one", senders_in_turn<Threads>,
             senders_in_turn_beside_a_thread, 1},
    Mutation{"select_gap", "a select unlocks, then parks", select_two_peers<Threads>,
             select_two_peers<Fibers>, 2},
    Mutation{"closed_not_ready", "a receive case on a closed channel is never ready",
             select_against_close<Threads>, select_against_close<Fibers>, 2},
    // On threads the second case reads a waiter on a stack that has ended: a crash, now and then.
    Mutation{"both_cases", "two cases of one select both fire", nullptr, select_two_peers<Fibers>,
             2},
    Mutation{"missed_waiter", "a close misses a waiter", close_wakes_all<Threads>,
             close_wakes_all<Fibers>, 2},
    Mutation{"no_lock", "a select that holds no lock is read after its end", nullptr,
             cancellation_against_nil_select, 2},
    Mutation{"no_generation", "an event ends a wait for another file", nullptr, reused_number, 1},
    Mutation{"not_armed_again", "an event for one direction ends the other's registration", nullptr,
             both_directions, 1},
    Mutation{"closed_silently", "a close leaves its waiters waiting", nullptr, closed_under_way, 1},
};

}  // namespace leat::scenarios
