// That the core holds under every schedule of small programs, and that explore() itself does what
// csp/explore.h says.
#include "leat/csp/explore.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "leat/csp/notification.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/wait_group.h"
#include "scenarios.h"

namespace leat {
namespace {

using namespace scenarios;
using namespace std::chrono_literals;

void expect_holds(void (*program)(), const ExploreOptions& options) {
  const ExploreResult result = explore(program, options);
  EXPECT_TRUE(result) << result.failure << "\n" << result.schedule;
  EXPECT_TRUE(result.complete || !options.exhaustive);
  std::printf("%llu schedules of up to %llu steps%s\n",
              static_cast<unsigned long long>(result.schedules),
              static_cast<unsigned long long>(result.longest),
              result.complete ? ": all of them" : "");
}

constexpr std::uint64_t kNoLimit = 100'000'000;
const ExploreOptions kEveryScheduleOfThreads{
    .schedules = kNoLimit, .exhaustive = true, .preemptions = 2, .workers = 0};
const ExploreOptions kEveryScheduleOfTwoWorkers{
    .schedules = kNoLimit, .exhaustive = true, .preemptions = 2, .workers = 2};
const ExploreOptions kSomeOfTwoWorkers{.schedules = 3000, .workers = 2};
const ExploreOptions kSomeOfThreeWorkers{.schedules = 2000, .workers = 3};

// A fiber and plain threads.
template <void (*program)()>
void beside_threads() {
  const OutsideWork threads;
  program();
}

#define LEAT_SCENARIO(name, title)                                           \
  TEST(ExploreEvery, title##BetweenThreads) {                                \
    expect_holds(name<Threads>, kEveryScheduleOfThreads);                    \
  }                                                                          \
  TEST(ExploreEvery, title##BetweenFibers) {                                 \
    expect_holds(name<Fibers>, kEveryScheduleOfTwoWorkers);                  \
  }                                                                          \
  TEST(ExploreSome, title##BetweenFibersOfThreeWorkers) {                    \
    expect_holds(name<Fibers>, kSomeOfThreeWorkers);                         \
  }                                                                          \
  TEST(ExploreSome, title##BetweenAFiberAndThreads) {                        \
    expect_holds(beside_threads<name<Threads>>, kSomeOfTwoWorkers);          \
  }

LEAT_SCENARIO(rendezvous, Rendezvous)
LEAT_SCENARIO(buffered_one, BufferOfOneWakesTheReceiver)
LEAT_SCENARIO(two_senders, TwoSendersKeepTheirOrder)
LEAT_SCENARIO(select_two_peers, SelectTakesOneCaseAtATime)
LEAT_SCENARIO(select_against_close, SelectAgainstClose)
LEAT_SCENARIO(close_wakes_all, CloseWakesAll)
LEAT_SCENARIO(mutual_exclusion, MutexExcludes)
LEAT_SCENARIO(timeout_against_send, TimeoutAgainstSend)

}  // namespace
}  // namespace leat
