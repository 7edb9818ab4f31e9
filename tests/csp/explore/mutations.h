// The programs in which the bugs show that tests/csp/explore/CMakeLists.txt plants into copies of
// the channels' algorithm.
#pragma once

#include <array>

#include "leat/csp/explore.h"
#include "scenarios.h"

namespace leat::scenarios {

struct Mutation {
  const char* name;
  const char* bug;
  void (*program)();
  /// Of a run: 0 for plain threads only.
  int workers;
};

inline constexpr std::array kMutations{
    Mutation{"lost_wakeup", "a lost wake-up when a receiver blocks first on a buffered channel",
             buffered_one<Threads>, 0},
    Mutation{"overtaking", "a later sender overtakes a blocked one", senders_in_turn<Threads>, 0},
    Mutation{"select_gap", "a select unlocks, then parks", select_two_peers<Threads>, 0},
    Mutation{"closed_not_ready", "a receive case on a closed channel is never ready",
             select_against_close<Threads>, 0},
    Mutation{"both_cases", "two cases of one select both fire", select_two_peers<Threads>, 0},
    Mutation{"missed_waiter", "a close misses a waiter", close_wakes_all<Threads>, 0},
};

}  // namespace leat::scenarios
