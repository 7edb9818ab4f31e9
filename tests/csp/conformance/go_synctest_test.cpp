// Go's testing/synctest, whose bubble is here a run with a VirtualClock: what clock_test and
// deadlock_test do not show yet.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/select.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/ticker.h"
#include "leat/csp/wait/random.h"
#include "leat/csp/wait_group.h"
#include "tests/support/run.h"

namespace leat {
namespace go_synctest_test {

using namespace std::chrono_literals;
using support::elapsed;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::rounds;
using support::run_each;
using support::until_idle;

// TestNow, TestMonotonicClock: a bubble's time is its own.
TEST(GoSyncTest, TwoRunsAtOnceHaveTheirOwnTimes) {
  on_each_worker_count([](const SchedulerOptions& options) {
    const auto bubble = [&](Duration step) {
      VirtualClock clock;
      SchedulerOptions own = options;
      own.clock = &clock;
      run(
          [&] {
            for (int i = 1; i <= 100; ++i) {
              sleep_for(step);
              ASSERT_EQ(elapsed(), i * step);
            }
          },
          own);
      EXPECT_EQ(clock.elapsed(), 100 * step);
    };
    std::thread other([&] { bubble(1h); });
    bubble(7ns);
    other.join();
  });
}

TEST(GoSyncTest, AnEmptyRunTakesNoTime) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    run([] {}, options);
    run([] { go([] {}); }, options);
    EXPECT_EQ(clock.elapsed(), 0ns);
  });
}

// TestSimpleWait, TestGoroutineWait: who sleeps for the shortest time runs after all that can run
// without time: also what is only made ready by others, and what is launched meanwhile.
TEST(GoSyncTest, BeforeTimePassesEverythingHasHappenedThatCan) {
  run_each([] {
    constexpr int kStages = 50;
    for (int round = 0; round < rounds(20); ++round) {
      std::atomic<int> happened = 0;
      Channel<int> in(0);
      const Channel<int> start = in;
      for (int i = 0; i < kStages; ++i) {
        const Channel<int> out(0);
        go([&happened, in, out, i] {
          out.send(in.recv().value() + 1);
          ++happened;
          if (i % 5 == 0) go([&happened] { ++happened; });
          for (int k = 0; k < i; ++k) yield();
          ++happened;
        });
        in = out;
      }
      until_idle();
      EXPECT_EQ(happened, 0);
      start.send(0);
      until_idle();
      EXPECT_EQ(happened, 2 * (kStages - 1) + kStages / 5);  // the last one's value is not taken
      EXPECT_EQ(in.recv(), kStages);
      until_idle();
      EXPECT_EQ(happened, 2 * kStages + kStages / 5);
    }
  });
}

// TestDurablyBlocked: of each kind of wait, that it lets time pass and ends at its instant.
TEST(GoSyncTest, TimePassesWhateverTheOthersWaitFor) {
  run_each([] {
    const Channel<int> c(0);
    const Channel<int> full(1);
    full.send(0);
    Mutex mutex;
    mutex.lock();
    Semaphore semaphore(0);
    WaitGroup wait_group;
    wait_group.add();
    Notification notification;
    std::array<Duration, 8> ended{};
    TaskGroup group;
    const auto waiter = [&](std::size_t i, const auto& wait) {
      group.go([&ended, i, wait] {
        wait();
        ended.at(i) = elapsed();
      });
    };
    waiter(0, [&] { static_cast<void>(c.recv()); });
    waiter(1, [&] { full.send(1); });
    waiter(2, [&] { select(on_recv(Channel<int>(0)), on_timeout(3s)); });
    waiter(3, [&] { mutex.lock(); });
    waiter(4, [&] { semaphore.acquire(); });
    waiter(5, [&] { wait_group.wait(); });
    waiter(6, [&] { notification.wait(); });
    waiter(7, [&] {
      TaskGroup inner;
      inner.go([] { sleep_for(8s); });
      inner.wait();
    });
    const std::vector<std::function<void()>> enders = {[&] { c.send(1); },
                                                       [&] { static_cast<void>(full.recv()); },
                                                       [] {},
                                                       [&] { mutex.unlock(); },
                                                       [&] { semaphore.release(); },
                                                       [&] { wait_group.done(); },
                                                       [&] { notification.notify(); }};
    for (std::size_t i = 0; i < enders.size(); ++i) {
      sleep_until(TimePoint(static_cast<int>(i + 1) * 1s));
      enders[i]();
    }
    group.wait();
    for (std::size_t i = 0; i < ended.size(); ++i) {
      EXPECT_EQ(ended.at(i), static_cast<int>(i + 1) * 1s) << i;
    }
  });
}

// Sleepers that make sleepers, against a list of what must happen when. Time never goes back, and
// no wake-up is early, late or lost.
TEST(GoSyncTest, ManyTimersAndThoseThatTheyMakeFireAtTheirInstants) {
  run_each([] {
    constexpr int kSleepers = rounds(200);
    constexpr int kSleeps = 10;
    Mutex mutex;
    std::map<Duration, int> fired;
    std::map<Duration, int> expected;
    Duration last{};
    TaskGroup group;
    for (int s = 0; s < kSleepers; ++s) {
      const auto length = [s](int i) {
        return Duration(mix(static_cast<std::uint64_t>(s * kSleeps + i)) % 5000);
      };
      Duration at{};
      for (int i = 0; i < kSleeps; ++i) ++expected[at += length(i)];
      group.go([&, length] {
        Duration due{};
        for (int i = 0; i < kSleeps; ++i) {
          sleep_for(length(i));
          due += length(i);
          ASSERT_EQ(elapsed(), due);
          const std::scoped_lock lock(mutex);
          ASSERT_LE(last, due);
          last = due;
          ++fired[due];
        }
      });
    }
    group.wait();
    EXPECT_EQ(fired, expected);
    EXPECT_EQ(elapsed(), expected.rbegin()->first);
  });
}

// Timers that are given up, by a peer or by cancellation, do not hold time up and do not fire.
TEST(GoSyncTest, TimersThatAreGivenUpDoNotMoveTime) {
  run_each([] {
    const Channel<int> c(0);
    for (int i = 0; i < rounds(100); ++i) {
      const TimePoint start = now();
      TaskGroup group;
      group.go([&] { EXPECT_EQ(select(on_recv(c), on_timeout(1h)), 0); });
      group.go([] { sleep_for(1h); });
      sleep_for(5ns);
      c.send(1);
      group.stop();
      group.wait();
      ASSERT_EQ(now() - start, 5ns);
    }
  });
}

// TestDeadlockRoot and TestDeadlockChild. A root that returns leaves no deadlock: it cancels.
TEST(GoSyncTest, AChildThatWaitsForEverIsADeadlockForARootThatWaitsForIt) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    const auto child = [] { select(); };
    EXPECT_THROW(run([] { select(); }, options), Deadlock);
    EXPECT_THROW(run(
                     [&] {
                       TaskGroup group;
                       group.go(child);
                       group.wait();
                     },
                     options),
                 Deadlock);
    EXPECT_NO_THROW(run([&] { go(child); }, options));
    EXPECT_NO_THROW(run(
        [&] {
          go(child);
          until_idle();
        },
        options));
    EXPECT_EQ(clock.elapsed(), 1ns);
  });
}

// What a deadlock waits for is looked for only when no timer is left: the report comes at the time
// of the last one.
TEST(GoSyncTest, ADeadlockIsFoundWhenTheLastTimerHasFired) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    EXPECT_THROW(run(
                     [] {
                       go([] {
                         for (int i = 0; i < 10; ++i) sleep_for(1h);
                       });
                       go([] { select(on_recv(Channel<int>(0)), on_timeout(25h)); });
                       select();
                     },
                     options),
                 Deadlock);
    EXPECT_EQ(clock.elapsed(), 25h);
  });
}

// TestDeadlockTicker: time ends with the root, and its tickers with it.
TEST(GoSyncTest, AfterTheRootHasReturnedNoTimePasses) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    std::atomic<int> ticks = 0;
    run(
        [&] {
          go([&] {
            const Ticker ticker = tick(1s);
            for ([[maybe_unused]] const TimePoint at : ticker.ticks()) ++ticks;
          });
          sleep_for(3500ms);
        },
        options);
    EXPECT_EQ(ticks, 3);
    EXPECT_EQ(clock.elapsed(), 3500ms);
  });
}

}  // namespace go_synctest_test
}  // namespace leat
