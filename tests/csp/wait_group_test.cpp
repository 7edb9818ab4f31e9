// WaitGroup: among fibers, and with plain threads.
#include "leat/csp/wait_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace wait_group_test {

using namespace std::chrono_literals;
using support::elapsed;
using support::run_each;
using support::until_idle;

TEST(WaitGroup, WaitsUntilAllIsDone) {
  run_each([] {
    WaitGroup group;
    std::atomic<int> finished = 0;
    group.add(3);
    for (int i = 1; i <= 3; ++i) {
      go([&, i] {
        sleep_for(i * 1ms);
        ++finished;
        group.done();
      });
    }
    EXPECT_FALSE(group.wait_until(from_now(1us)));
    group.wait();
    EXPECT_EQ(finished, 3);
    EXPECT_EQ(elapsed(), 3ms);
    group.wait();  // at once
    EXPECT_THROW(group.done(), std::logic_error);
    EXPECT_TRUE(group.wait_until(now()));
  });
}

TEST(WaitGroup, WakesAllThatWait) {
  run_each([] {
    WaitGroup group;
    std::atomic<int> woken = 0;
    group.add();
    TaskGroup waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.go([&] {
        group.wait();
        ++woken;
      });
    }
    until_idle();
    EXPECT_EQ(woken, 0);
    group.done();
    waiters.wait();
    EXPECT_EQ(woken, 3);
  });
}

TEST(WaitGroup, RefusesMoreThanItCanCount) {
  WaitGroup group;
  group.add(std::numeric_limits<std::int64_t>::max());
  EXPECT_THROW(group.add(), std::overflow_error);
  EXPECT_THROW(group.add(std::numeric_limits<std::int64_t>::min()), std::logic_error);
  group.add(-std::numeric_limits<std::int64_t>::max());
  group.wait();
}

TEST(WaitGroup, MayBeUsedAgainAndByPlainThreads) {
  run_each([] {
    WaitGroup group;
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> finished = 0;
      std::vector<std::jthread> threads;
      const OutsideWork the_threads;
      for (int i = 0; i < 3; ++i) {
        group.add();
        threads.emplace_back([&] {
          ++finished;
          group.done();
        });
      }
      group.wait();
      EXPECT_EQ(finished, 3);
    }
  });
}

}  // namespace wait_group_test
}  // namespace leat
