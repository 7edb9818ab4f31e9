#include "leat/csp/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/selector.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait_group.h"
#include "tests/support/log.h"
#include "tests/support/run.h"

namespace leat {
namespace clock_test {

using namespace std::chrono_literals;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::run_each;

TEST(Deadline, AddsWithoutOverflow) {
  const TimePoint start(5h);
  EXPECT_EQ(Deadline::after(start, 1h).at(), TimePoint(6h));
  EXPECT_EQ(Deadline::after(start, 0h).at(), start);
  EXPECT_EQ(Deadline::after(start, -1h).at(), start);
  EXPECT_EQ(Deadline::after(start, Duration::min()).at(), start);
  EXPECT_TRUE(Deadline::after(start, Duration::max()).is_never());
  EXPECT_TRUE(Deadline::now().is_now());
  EXPECT_FALSE(Deadline::now().is_never());
  EXPECT_TRUE(Deadline::never().is_never());
  EXPECT_FALSE(Deadline(start).is_now() || Deadline(start).is_never());
}

// The named requirement Clock of std::chrono.
static_assert(std::is_same_v<RuntimeClock::time_point, TimePoint>);
static_assert(std::is_same_v<TimePoint::clock, RuntimeClock>);
static_assert(std::is_same_v<TimePoint::duration, RuntimeClock::duration>);
static_assert(std::is_same_v<TimePoint::rep, RuntimeClock::rep>);
static_assert(std::is_same_v<TimePoint::period, RuntimeClock::period>);
static_assert(std::is_same_v<decltype(RuntimeClock::now()), TimePoint>);
static_assert(std::is_same_v<decltype(RuntimeClock::is_steady), const bool>);
static_assert(std::chrono::is_clock_v<RuntimeClock>);

// How many of the functions that have a deadline take a `Time`.
template <class Time>
constexpr int kTakers =
    std::is_constructible_v<Deadline, Time> + std::is_invocable_v<decltype(sleep_until), Time> +
    std::is_invocable_v<decltype(&Channel<int>::send_until), Channel<int>, int, Time> +
    std::is_invocable_v<decltype(&Channel<int>::recv_until), Channel<int>, std::optional<int>&,
                        Time> +
    std::is_invocable_v<decltype(&Selector::select_until), Selector, Time> +
    std::is_invocable_v<decltype(&Mutex::try_lock_until), Mutex, Time> +
    std::is_invocable_v<decltype(&Semaphore::acquire_until), Semaphore, int, Time> +
    std::is_invocable_v<decltype(&WaitGroup::wait_until), WaitGroup, Time> +
    std::is_invocable_v<decltype(&Notification::wait_until), Notification, Time>;

// A regression: under a virtual clock, a deadline of steady_clock let most of an hour pass.
TEST(RuntimeClock, DeadlinesAreItsTimesAndNoOtherClocks) {
  EXPECT_EQ(kTakers<RuntimeClock::time_point>, 9);
  EXPECT_EQ((kTakers<std::chrono::time_point<RuntimeClock, std::chrono::hours>>), 9);
  EXPECT_EQ(kTakers<std::chrono::steady_clock::time_point>, 0);
  EXPECT_EQ(kTakers<std::chrono::system_clock::time_point>, 0);
}

TEST(RuntimeClock, IsTheClockOfTheCaller) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    run(
        [&] {
          EXPECT_EQ(RuntimeClock::now(), clock.now());
          const Channel<int> c(0);
          std::optional<int> value;
          EXPECT_EQ(c.recv_until(value, RuntimeClock::now() + 1s), ChannelStatus::timed_out);
          EXPECT_EQ(clock.elapsed(), 1s);
          EXPECT_EQ(RuntimeClock::now(), clock.now());
        },
        options);
  });
  const auto before = std::chrono::steady_clock::now();  // a plain thread: the machine's clock
  const auto between = SteadyClock::to_std(RuntimeClock::now());
  EXPECT_LE(before, between);
  EXPECT_LE(between, std::chrono::steady_clock::now());
}

TEST(VirtualClock, StartsAtItsEpochAndEndsWhereTheLastSleeperWoke) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    EXPECT_EQ(clock.elapsed(), 0ns);
    run(
        [&] {
          EXPECT_EQ(now(), clock.now());
          sleep_for(90min);
          EXPECT_EQ(clock.elapsed(), 90min);
          sleep_until(TimePoint(2h));
        },
        options);
    EXPECT_EQ(clock.elapsed(), 2h);
    run([] { sleep_for(1h); }, options);  // the next scheduler goes on from there
    EXPECT_EQ(clock.elapsed(), 3h);
  });
}

TEST(VirtualClock, ItsEndIsToldAndNotOnlyADeadlock) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    try {
      run(
          [] {
            for (;;) sleep_for(std::chrono::hours(24 * 365 * 100));
          },
          options);
      ADD_FAILURE() << "time went on";
    } catch (const Deadlock& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("virtual time ends at 2^63 ns (292 years) and has reached 6307200000"),
                std::string::npos)
          << text;
      EXPECT_NE(text.find("waits that would end later never do; "), std::string::npos) << text;
    }
  });
}

TEST(VirtualClock, SpendsNoRealTime) {
  const auto start = std::chrono::steady_clock::now();
  run_each([] {
    for (int i = 0; i < 1000; ++i) sleep_for(1h);
    EXPECT_EQ(support::elapsed(), 1000h);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 50s);
}

TEST(VirtualClock, StandsStillWhileAnyFiberCanRun) {
  run_each([] {
    std::atomic<bool> woken = false;
    go([&] {
      sleep_for(1ns);
      woken = true;
    });
    for (int i = 0; i < 1000; ++i) {
      yield();
      ASSERT_EQ(support::elapsed(), 0ns);
      ASSERT_FALSE(woken);
    }
  });
}

TEST(VirtualClock, WakesSleepersOfDistinctDeadlinesInOrderWithAnyNumberOfWorkers) {
  run_each([] {
    std::string order;  // no two write at a time: time stands still while one of them runs
    TaskGroup group;
    for (const int wait : {7, 3, 9, 1, 5, 2, 8, 4, 6}) {
      group.go([&, wait] {
        sleep_for(wait * 1s);
        order += std::to_string(wait);
      });
    }
    group.wait();
    EXPECT_EQ(order, "123456789");
  });
}

TEST(VirtualClock, WakesEqualDeadlinesInTheOrderTheyBeganToSleep) {
  VirtualClock clock;
  run(
      [] {
        support::Log<int> woken;
        TaskGroup group;
        for (int i = 0; i < 20; ++i) {
          group.go([&, i] {
            sleep_until(TimePoint(1s));
            woken.add(i);
          });
        }
        group.wait();
        std::vector<int> in_order(20);
        std::iota(in_order.begin(), in_order.end(), 0);
        EXPECT_EQ(woken.entries(), in_order);
      },
      {.workers = 1, .clock = &clock});
}

TEST(VirtualClock, ServesOneSchedulerAtATime) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    {
      const Scheduler scheduler(options);
      EXPECT_THROW(Scheduler{options}, std::logic_error);
      EXPECT_THROW(run([] {}, options), std::logic_error);
    }
    EXPECT_NO_THROW(run([] {}, options));
  });
}

TEST(VirtualClock, ServesASchedulerOfAPlainThreadToo) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    Scheduler scheduler(options);
    EXPECT_EQ(&scheduler.clock(), &clock);
    scheduler.go([] {  // both from here: from this thread, time might pass in between
      go([] { sleep_for(5h); });
      go([] { sleep_for(7h); });
    });
    scheduler.join();
    EXPECT_EQ(clock.elapsed(), 7h);
  });
}

// A regression: the clock was in use for as long as anybody held the scheduler's core.
TEST(VirtualClock, IsFreeWhenTheSchedulerHasEndedThoughATaskGroupIsLeft) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    auto scheduler = std::make_unique<Scheduler>(options);
    const TaskGroup group(*scheduler);
    scheduler.reset();
    EXPECT_NO_THROW(run([] {}, options));
  });
}

TEST(VirtualClock, MayGoBeforeATaskGroupOfItsScheduler) {
  auto clock = std::make_unique<VirtualClock>();
  auto scheduler =
      std::make_unique<Scheduler>(SchedulerOptions{.workers = 1, .clock = clock.get()});
  const TaskGroup group(*scheduler);
  scheduler.reset();
  clock.reset();
}

TEST(VirtualClock, APipelineTakesExactlyTheTimeThatArithmeticSays) {
  // Read 3 ms, copy 5 ms, compute 4 ms, 20 items, room for 2 between stages: 3 + 20 * 5 + 4.
  run_each([] {
    Channel<int> read(2);
    Channel<int> copied(2);
    go([=] {
      for (int i = 0; i < 20; ++i) {
        sleep_for(3ms);
        read.send(i);
      }
      read.close();
    });
    go([=] {
      for (const int i : read) {
        sleep_for(5ms);
        copied.send(i);
      }
      copied.close();
    });
    int expected = 0;
    for (const int i : copied) {
      EXPECT_EQ(i, expected++);
      sleep_for(4ms);
    }
    EXPECT_EQ(expected, 20);
    EXPECT_EQ(support::elapsed(), 107ms);
  });
}

TEST(SteadyClock, IsTheDefaultAndSleepsNoLessThanAsked) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          const TimePoint start = now();
          TaskGroup group;
          for (int i = 1; i <= 10; ++i) {
            group.go([=] {
              sleep_for(i * 300us);
              EXPECT_GE(now() - start, i * 300us);
            });
          }
          group.wait();
          EXPECT_GE(now() - start, 3ms);
        },
        options);
  });
}

TEST(SteadyClock, TimersFireWhileAnotherFiberComputes) {
  on_each_worker_count([](const SchedulerOptions& options) {
    if (options.workers == 1) return;  // the only worker computes
    run(
        [] {
          std::atomic<bool> woken = false;
          TaskGroup group;
          group.go([&] {
            sleep_for(1ms);
            woken = true;
          });
          yield();
          while (!woken) {  // never parks: an idle worker has to watch the clock
          }
        },
        options);
  });
}

TEST(SteadyClock, TimersFireWhileTheWorkerThatWatchedTheClockComputes) {
  for (int round = 0; round < 20; ++round) {
    Scheduler scheduler({.workers = 2});
    const std::vector<Channel<int>> start = {Channel<int>(1), Channel<int>(1)};
    std::atomic<bool> woken = false;
    for (const Channel<int>& c : start) {  // one on each worker
      const auto compute = [&woken, c] {
        static_cast<void>(c.recv());
        while (!woken) {
        }
      };
      scheduler.go(compute, {.pinned = true});
    }
    const Channel<int> armed(1);
    scheduler.go([&woken, armed] {
      armed.send(1);
      sleep_for(2ms);
      woken = true;
    });
    static_cast<void>(armed.recv());
    std::this_thread::yield();
    // Whichever worker sleeps until the deadline, in half of the rounds it is the one to compute.
    start[static_cast<std::size_t>(round % 2)].send(1);
    while (!woken) std::this_thread::yield();
    for (const Channel<int>& c : start) c.close();
    scheduler.join();
  }
}

TEST(Sleep, OnAPlainThreadBlocksIt) {
  const TimePoint start = now();
  sleep_for(2ms);
  EXPECT_GE(now() - start, 2ms);
  sleep_for(-1h);
  sleep_until(start);
}

}  // namespace clock_test
}  // namespace leat
