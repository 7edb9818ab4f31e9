// Mutex, Semaphore, WaitGroup, Notification: among fibers, and with plain threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait_group.h"
#include "tests/support/deadlock_report.h"
#include "tests/support/run.h"

namespace leat {
namespace sync_test {

using namespace std::chrono_literals;
using support::elapsed;
using support::on_each_worker_count;
using support::run_each;
using support::until_idle;

// ---- Mutex

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
    EXPECT_FALSE(mutex.try_lock_until(now() + 5ms));
    EXPECT_EQ(elapsed(), 5ms);
    go([&] {
      sleep_for(2ms);
      mutex.unlock();
    });
    EXPECT_TRUE(mutex.try_lock_until(now() + 5ms));
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
                  } else if (mutex.try_lock_until(now() + 1us)) {
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

// ---- Semaphore

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
    EXPECT_FALSE(bytes.acquire_until(3, now() + 1ms));
    EXPECT_TRUE(bytes.acquire_until(2, now() + 1ms));
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
                } else if (!units.acquire_until(many, now() + 1us)) {
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

// ---- WaitGroup

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
    EXPECT_FALSE(group.wait_until(now() + 1us));
    group.wait();
    EXPECT_EQ(finished, 3);
    EXPECT_EQ(elapsed(), 3ms);
    group.wait();  // at once
    EXPECT_THROW(group.done(), std::logic_error);
    EXPECT_TRUE(group.wait_until(now()));
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

// ---- Notification

TEST(Notification, WakesEverybodyOnceAndForAll) {
  run_each([] {
    Notification happened;
    std::atomic<int> woken = 0;
    TaskGroup group;
    for (int i = 0; i < 10; ++i) {
      group.go([&] {
        happened.wait();
        ++woken;
      });
    }
    until_idle();
    EXPECT_EQ(woken, 0);
    EXPECT_FALSE(happened.has_been_notified());
    EXPECT_FALSE(happened.wait_until(now() + 1ms));
    happened.notify();
    happened.notify();
    group.wait();
    EXPECT_EQ(woken, 10);
    happened.wait();
    EXPECT_TRUE(happened.has_been_notified());
  });
}

TEST(Notification, FromAPlainThreadPublishesWhatItWrote) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (int i = 0; i < 50; ++i) {
      Notification happened;
      int value = 0;
      std::jthread thread;
      run(
          [&] {
            const OutsideWork the_thread;
            thread = std::jthread([&] {
              value = 1;
              happened.notify();
            });
            happened.wait();
            EXPECT_EQ(value, 1);
          },
          options);
    }
  });
}

// ---- What all have in common

TEST(Sync, AWaitThatNobodyCanEndIsADeadlockThatNamesIt) {
  const auto expect_names = [&](const char* what, const std::function<void()>& body) {
    support::expect_in(support::report_of(body, {}), std::string("waits for ") + what);
  };
  expect_names("a mutex", [] {
    Mutex mutex;
    mutex.lock();
    mutex.lock();
  });
  expect_names("a semaphore", [] { Semaphore(2).acquire(3); });
  expect_names("a wait group", [] {
    WaitGroup group;
    group.add();
    group.wait();
  });
  expect_names("a notification", [] { Notification().wait(); });
}

TEST(Sync, AWaitThatAPlainThreadMayEndIsNoDeadlock) {
  on_each_worker_count([](const SchedulerOptions& given) {
    VirtualClock clock;
    SchedulerOptions options = given;
    options.clock = &clock;
    Mutex mutex;
    mutex.lock();  // this thread is a plain one
    const TimePoint parked = clock.now() + 1ms;
    std::jthread thread([&] {
      while (clock.now() < parked) std::this_thread::yield();
      mutex.unlock();
    });
    run(
        [&] {
          go([] { sleep_for(1ms); });
          mutex.lock();
        },
        options);
  });
}

TEST(Sync, WaitsEndByCancellation) {
  run_each([] {
    Mutex mutex;
    mutex.lock();
    Semaphore none(0);
    WaitGroup busy;
    busy.add();
    Notification never;
    std::atomic<int> unwound = 0;
    const std::vector<std::function<void()>> waits = {[&] { mutex.lock(); },
                                                      [&] { none.acquire(); }, [&] { busy.wait(); },
                                                      [&] { never.wait(); }};
    TaskGroup group;
    for (const auto& wait : waits) {
      group.go([&] {
        try {
          wait();
        } catch (const Cancelled&) {
          ++unwound;
          throw;
        }
      });
    }
    until_idle();
    group.stop();
    group.wait();
    EXPECT_EQ(unwound, 4);
  });
}

}  // namespace sync_test
}  // namespace leat
