// That explore() itself does what csp/explore.h says.
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

#include "leat/csp/base/assert.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/explore.h"
#include "tests/csp/explore/scenarios.h"

namespace leat {
namespace explorer_test {

using namespace scenarios;
using namespace std::chrono_literals;

// [lost_update]
// One thread's read and write, with the other's in between.
void lost_update() {
  Atomic<int> count{0};
  const auto add = [&] { count.store(count.load() + 1); };
  SimulatedThread other(add);
  add();
  other.join();
  if (count.load() != 2) throw std::logic_error("an update was lost");
}
// [/lost_update]

TEST(Explore, FindsALostUpdateAndReplaysIt) {
  for (const bool exhaustive : {false, true}) {
    const ExploreOptions options{.exhaustive = exhaustive, .workers = 0, .quiet = true};
    const ExploreResult found = explore(lost_update, options);
    EXPECT_EQ(found.failure, "an update was lost");
    const ExploreResult again = replay(lost_update, found.schedule, options);
    EXPECT_EQ(again.failure, found.failure);
    EXPECT_TRUE(replay(lost_update, "w0", options));
  }
}

TEST(Explore, NeedsAsManyPreemptionsAsTheBugDoes) {
  const ExploreResult none =
      explore(lost_update, {.exhaustive = true, .preemptions = 0, .workers = 0, .quiet = true});
  EXPECT_TRUE(none);
  EXPECT_TRUE(none.complete);
  const ExploreResult found =
      explore(lost_update, {.exhaustive = true, .preemptions = 1, .workers = 0, .quiet = true});
  EXPECT_FALSE(found);
  EXPECT_FALSE(found.complete);
}

TEST(Explore, EqualSeedsGiveEqualSchedules) {
  const auto first_failure = [](std::uint64_t seed) {
    return explore(lost_update, {.seed = seed, .workers = 0, .quiet = true}).schedule;
  };
  EXPECT_EQ(first_failure(5), first_failure(5));
}

void expect_failure(void (*program)(), const char* what, ExploreOptions options = {}) {
  options.quiet = true;
  const ExploreResult found = explore(program, options);
  EXPECT_NE(found.failure.find(what), std::string::npos) << found.failure;
  EXPECT_EQ(replay(program, found.schedule, options).failure, found.failure);
}

TEST(Explore, TellsHowAProgramFails) {
  expect_failure([] { LEAT_ASSERT(false, "what must hold"); }, "what must hold");
  expect_failure([] { std::terminate(); }, "std::terminate");
  expect_failure([] { throw std::runtime_error("escaped"); }, "escaped");
  expect_failure([] { static_cast<void>(Channel<int>(0).recv()); }, "deadlock");
  expect_failure([] { static_cast<void>(Channel<int>(0).recv()); }, "hang", {.workers = 0});
  expect_failure(
      [] {
        for (;;) yield();
      },
      "no end after 500 steps", {.workers = 0, .max_steps = 500});
}

TEST(Explore, LetsPassWhatIsExpected) {
  const ExploreResult result =
      explore([] { static_cast<void>(Channel<int>(0).recv()); },
              {.schedules = 10, .expected = [](const std::exception_ptr& error) {
                 try {
                   std::rethrow_exception(error);
                 } catch (const Deadlock&) {
                   return true;
                 } catch (...) {
                   return false;
                 }
               }});
  EXPECT_TRUE(result) << result.failure;
  EXPECT_EQ(result.schedules, 10U);
}

TEST(Explore, RefusesWhatIsNoScheduleOfTheProgram) {
  EXPECT_THROW(static_cast<void>(replay(lost_update, "2=1")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(replay(lost_update, "w0 2:1")), std::invalid_argument);
  EXPECT_EQ(replay(lost_update, "w0 0=7").failure, "the schedule is not one of this program");
}

}  // namespace explorer_test
}  // namespace leat
