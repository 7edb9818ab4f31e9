// Go's testing/synctest, whose bubble is here a run with a VirtualClock: what clock_test and
// deadlock_test do not show yet.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <thread>

#include "leat/csp/base/random.h"
#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/csp/ticker.h"
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
