// That what Exhaustive leaves out had been reached before.
#include <gtest/gtest.h>

#include <set>

#include "leat/csp/explore/strategies.h"
#include "tests/csp/explore/scenarios.h"

namespace leat {
namespace explore_strategies_test {

using namespace scenarios;

struct Reached {
  std::set<std::uint64_t> states;  // at the ends of all runs
  int runs = 0;
};

Reached enumerate(void (*program)(), int preemptions, bool remembers) {
  Simulation simulation(10'000);
  Exhaustive strategy(preemptions, remembers);
  Reached reached;
  do {
    EXPECT_EQ(simulation.run([=] { program(); }, strategy), "");
    reached.states.insert(simulation.state());
    ++reached.runs;
  } while (strategy.next());
  return reached;
}

void expect_same_ends(void (*program)(), int preemptions) {
  const Reached all = enumerate(program, preemptions, false);
  const Reached chosen = enumerate(program, preemptions, true);
  EXPECT_EQ(all.states, chosen.states);
  EXPECT_LT(chosen.runs, all.runs);
  std::printf("%d runs instead of %d, %zu ends\n", chosen.runs, all.runs, chosen.states.size());
}

TEST(ExploreStrategies, EveryEndIsReachedWithFewerRuns) {
  expect_same_ends(rendezvous<Threads>, 2);
  expect_same_ends(buffered_one<Threads>, 3);
  expect_same_ends(close_wakes_all<Threads>, 2);
  expect_same_ends(two_senders<Threads>, 2);
  expect_same_ends(timeout_against_send<Threads>, 2);
  expect_same_ends(select_two_peers<Threads>, 1);
}

}  // namespace explore_strategies_test
}  // namespace leat
