// Mutex: among fibers, and with plain threads.
#include "leat/csp/mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace mutex_test {

using namespace std::chrono_literals;
using support::elapsed;
using support::on_each_worker_count;
using support::run_each;
using support::until_idle;

TEST(Mutex, ExcludesAcrossParks) {
  run_each([] {
    Mutex mutex;
    int inside = 0;
    int done = 0;
    TaskGroup group;
    for (int i = 0; i < 50; ++i) {
      group.go([&] {
        const std::scoped_lock lock(mutex);
        EXPECT_EQ(++inside, 1);
        sleep_for(1ms);
        EXPECT_EQ(--inside, 0);
        ++done;
      });
    }
    group.wait();
    EXPECT_EQ(done, 50);
    EXPECT_EQ(elapsed(), 50ms);
  });
}

TEST(Mutex, IsHandedOverInTheOrderOfAsking) {
  run_each([] {
    Mutex mutex;
    mutex.lock();
    std::vector<int> order;
    TaskGroup group;
    for (int i = 0; i < 10; ++i) {
      group.go([&, i] {
        const std::scoped_lock lock(mutex);
        order.push_back(i);
      });
      until_idle();
    }
    EXPECT_FALSE(mutex.try_lock());
    mutex.unlock();
    group.wait();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  });
}

TEST(Mutex, TimedAndTriedLocksGiveUp) {
  run_each([] {
    Mutex mutex;
    EXPECT_TRUE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_until(from_now(5ms)));
    EXPECT_EQ(elapsed(), 5ms);
    go([&] {
      sleep_for(2ms);
      mutex.unlock();
    });
    EXPECT_TRUE(mutex.try_lock_until(from_now(5ms)));
    EXPECT_EQ(elapsed(), 7ms);
    mutex.unlock();
    EXPECT_THROW(mutex.unlock(), std::logic_error);
  });
}

TEST(Mutex, ACancelledWaiterNeverGetsIt) {
  run_each([] {
    Mutex mutex;
    mutex.lock();
    bool locked = false;
    {
      TaskGroup group;
      group.go([&] {
        mutex.lock();
        locked = true;
      });
      until_idle();
    }  // cancels and joins
    EXPECT_FALSE(locked);
    mutex.unlock();
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  });
}

// A lost or doubled hand-over would break the count or hang.
TEST(Mutex, SurvivesCancellationDeadlinesAndThreadsAtOnce) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Mutex mutex;
    long counter = 0;
    std::atomic<long> expected{0};
    const auto use = [&] {
      ++counter;
      ++expected;
    };
    std::vector<std::jthread> threads;
    run(
        [&] {
          for (int t = 0; t < 2; ++t) {
            threads.emplace_back([&] {
              for (int i = 0; i < support::rounds(2000); ++i) {
                const std::scoped_lock lock(mutex);
                use();
              }
            });
          }
          for (int round = 0; round < support::rounds(200); ++round) {
            TaskGroup group;
            for (int i = 0; i < 4; ++i) {
              group.go([&, i] {
                for (int turn = 0; turn < 20; ++turn) {
                  if (i % 2 == 0) {
                    const std::scoped_lock lock(mutex);
                    use();
                    yield();
                  } else if (mutex.try_lock_until(from_now(1us))) {
                    use();
                    mutex.unlock();
                  }
                }
              });
            }
            if (round % 2 == 0) {
              group.wait();
            } else {
              yield();
            }
          }
        },
        options);
    threads.clear();
    EXPECT_EQ(counter, expected);
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  });
}

}  // namespace mutex_test
}  // namespace leat
