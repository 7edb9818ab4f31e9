// Usage: LEAT_MUTANT=<its number> mutants_csp <name of a fault of mutants.txt>
//
// Linked with copies of the core's files, with planted faults: shows that explore() finds the one
// that is on, by sampling and by enumerating, and that the schedule it tells makes it happen again.
// Fails where it does not.
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "leat/csp/explore.h"
#include "tests/csp/explore/descriptors.h"
#include "tests/csp/explore/scenarios.h"

namespace leat::scenarios {
namespace {

// The programs in which the faults show.
struct Mutant {
  const char* name;
  void (*between_threads)();  // null: a plain thread cannot show it
  void (*between_fibers)();
  int workers;  // of the latter's run
};

void senders_in_turn_beside_a_thread() {
  const OutsideWork thread;
  senders_in_turn<Fibers>();
}

constexpr std::array kMutants{
    Mutant{"lost_wakeup", buffered_one<Threads>, buffered_one<Fibers>, 2},
    Mutant{"overtaking", senders_in_turn<Threads>, senders_in_turn_beside_a_thread, 1},
    Mutant{"select_gap", select_two_peers<Threads>, select_two_peers<Fibers>, 2},
    Mutant{"closed_not_ready", select_against_close<Threads>, select_against_close<Fibers>, 2},
    // On threads the second case reads a waiter on a stack that has ended: a crash, now and then.
    Mutant{"both_cases", nullptr, select_two_peers<Fibers>, 2},
    Mutant{"missed_waiter", close_wakes_all<Threads>, close_wakes_all<Fibers>, 2},
    Mutant{"no_lock", nullptr, cancellation_against_nil_select, 2},
    Mutant{"no_generation", nullptr, reused_number, 1},
    Mutant{"not_armed_again", nullptr, both_directions, 1},
    Mutant{"closed_silently", nullptr, closed_under_way, 1},
};

bool finds(void (*program)(), const char* how, const ExploreOptions& options) {
  const ExploreResult found = explore(program, options);
  if (found) {
    std::printf("  %s: not found in %llu schedules\n", how,
                static_cast<unsigned long long>(found.schedules));
    return false;
  }
  const ExploreResult again = replay(program, found.schedule, options);
  const bool same = again.failure == found.failure;
  std::printf("  %s: found in schedule %llu: %s\n    replayed \"%s\": %s\n", how,
              static_cast<unsigned long long>(found.schedules), found.failure.c_str(),
              found.schedule.c_str(), same ? "the same" : again.failure.c_str());
  return same;
}

bool finds(const Mutant& mutant) {
  bool all = true;
  for (const bool exhaustive : {false, true}) {
    const std::uint64_t schedules = exhaustive ? 1'000'000 : 1000;
    if (mutant.between_threads != nullptr) {
      all &= finds(mutant.between_threads, exhaustive ? "threads, enumerated" : "threads, sampled",
                   {.schedules = schedules, .exhaustive = exhaustive, .workers = 0, .quiet = true});
    }
    all &= finds(mutant.between_fibers, exhaustive ? "fibers, enumerated" : "fibers, sampled",
                 {.schedules = schedules,
                  .exhaustive = exhaustive,
                  .workers = mutant.workers,
                  .quiet = true});
  }
  return all;
}

}  // namespace
}  // namespace leat::scenarios

int main(int argc, char** argv) {
  for (const auto& mutant : leat::scenarios::kMutants) {
    if (argc == 2 && std::string_view(argv[1]) == mutant.name) return finds(mutant) ? 0 : 1;
  }
  std::fprintf(stderr, "usage: mutants_csp <name of a fault>\n");
  return 2;
}
