// Semaphore: among fibers, and with plain threads.
#include "leat/csp/semaphore.h"

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
namespace semaphore_test {

using namespace std::chrono_literals;
using support::elapsed;
using support::on_each_worker_count;
using support::run_each;
using support::until_idle;

TEST(Semaphore, LetsAsManyInAsItHasUnits) {
  run_each([] {
    Semaphore room(3);
    std::atomic<int> inside = 0;
    TaskGroup group;
    for (int i = 0; i < 12; ++i) {
      group.go([&] {
        room.acquire();
        EXPECT_LE(++inside, 3);
        sleep_for(1ms);
        --inside;
        room.release();
      });
    }
    group.wait();
    EXPECT_EQ(elapsed(), 4ms);  // never fewer than 3, either
    EXPECT_EQ(room.available(), 3);
  });
}

TEST(Semaphore, ALargeRequestIsNotOvertakenBySmallOnes) {
  run_each([] {
    Semaphore bytes(10);
    bytes.acquire(4);
    std::atomic<int> small = 0;
    bool large = false;
    TaskGroup group;
    group.go([&] {
      bytes.acquire(8);
      large = true;
      EXPECT_EQ(small, 0);
      bytes.release(8);
    });
    until_idle();
    for (int i = 0; i < 2; ++i) {
      group.go([&] {
        bytes.acquire(3);
        ++small;
      });
    }
    until_idle();
    EXPECT_FALSE(bytes.try_acquire(1));  // nor by this one
    EXPECT_FALSE(large || small != 0);
    bytes.release(2);  // room for the large one alone
    group.wait();
    EXPECT_TRUE(large);
    EXPECT_EQ(small, 2);
    EXPECT_EQ(bytes.available(), 2);
  });
}

TEST(Semaphore, WhenALargeRequestGivesUpThoseBehindItGoOn) {
  run_each([] {
    Semaphore bytes(5);
    TaskGroup large;
    TaskGroup small;
    std::atomic<int> got = 0;
    large.go([&] { bytes.acquire(8); });
    until_idle();
    for (int i = 0; i < 3; ++i) {
      small.go([&] {
        bytes.acquire(1);
        ++got;
      });
    }
    until_idle();
    EXPECT_EQ(got, 0);
    large.stop();
    small.wait();
    EXPECT_EQ(got, 3);
    EXPECT_EQ(bytes.available(), 2);
    EXPECT_FALSE(bytes.acquire_until(3, from_now(1ms)));
    EXPECT_TRUE(bytes.acquire_until(2, from_now(1ms)));
  });
}

TEST(Semaphore, RefusesNegativeUnitsAndTakesZeroAtOnce) {
  EXPECT_THROW(Semaphore(-1), std::invalid_argument);
  Semaphore none(0);
  EXPECT_THROW(none.acquire(-1), std::invalid_argument);
  EXPECT_THROW(none.release(-1), std::invalid_argument);
  none.acquire(0);
  EXPECT_FALSE(none.try_acquire());
}

TEST(Semaphore, RefusesMoreThanItCanCount) {
  Semaphore semaphore(std::numeric_limits<std::int64_t>::max() - 1);
  semaphore.release();
  EXPECT_THROW(semaphore.release(), std::overflow_error);
  EXPECT_EQ(semaphore.available(), std::numeric_limits<std::int64_t>::max());
  semaphore.acquire(2);
  semaphore.release(2);
}

TEST(Semaphore, LosesNoUnitsUnderCancellationDeadlinesAndThreads) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Semaphore units(7);
    std::vector<std::jthread> threads;
    run(
        [&] {
          for (int t = 0; t < 2; ++t) {
            threads.emplace_back([&, t] {
              for (int i = 0; i < support::rounds(2000); ++i) {
                units.acquire(1 + (i + t) % 5);
                units.release(1 + (i + t) % 5);
              }
            });
          }
          for (int round = 0; round < support::rounds(300); ++round) {
            TaskGroup group;
            for (int i = 0; i < 4; ++i) {
              group.go([&, i] {
                const int many = 1 + (i + round) % 7;
                if (i % 2 == 0) {
                  units.acquire(many);
                } else if (!units.acquire_until(many, from_now(1us))) {
                  return;
                }
                units.release(many);
              });
            }
            if (round % 3 != 0) group.wait();
          }
        },
        options);
    threads.clear();
    EXPECT_EQ(units.available(), 7);
  });
}

}  // namespace semaphore_test
}  // namespace leat
