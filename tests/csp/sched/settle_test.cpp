// settle(): everything that can happen at one instant of virtual time has happened.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/blocking.h"
#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/csp/ticker.h"
#include "tests/support/log.h"
#include "tests/support/run.h"

namespace leat {
namespace settle_test {

using namespace std::chrono_literals;
using support::elapsed;
using support::Log;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::run_each;

using Names = std::vector<std::string>;

/// Exchanges `rounds` values with a fiber that answers, so that the caller parks that often.
void ping(const Channel<int>& there, const Channel<int>& back, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    there.send(i);
    ASSERT_EQ(back.recv(), i);
  }
}
void answer(const Channel<int>& there, const Channel<int>& back) {
  while (const std::optional<int> value = there.recv()) back.send(*value);
}

TEST(Settle, ReturnsWhenAllTimersOfTheInstantHaveFired) {
  run_each([] {
    std::atomic<int> fired = 0;
    const Receiver<TimePoint> alarm = after(1s);
    TaskGroup group;
    for (int i = 0; i < 8; ++i) {
      group.go([&] {
        sleep_until(TimePoint(1s));
        for (int turn = 0; turn < 10; ++turn) yield();
        ++fired;
      });
    }
    sleep_until(TimePoint(1s));
    settle();
    EXPECT_EQ(fired, 8);
    std::optional<TimePoint> rung;
    EXPECT_EQ(alarm.try_recv(rung), ChannelStatus::ok);
    EXPECT_EQ(rung, TimePoint(1s));
    EXPECT_EQ(elapsed(), 1s);
  });
}

TEST(Settle, ReturnsWhenFibersThatWakeEachOtherAreDone) {
  run_each([] {
    const Channel<int> there(0);
    const Channel<int> back(0);
    std::atomic<bool> done = false;
    go([=] { answer(there, back); });
    go([&, there, back] {
      ping(there, back, 200);
      go([&] { done = blocking([] { return true; }); });
    });
    settle();
    EXPECT_TRUE(done);
    EXPECT_EQ(elapsed(), 0s);
  });
}

TEST(Settle, HoldsUnderEverySeed) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    support::in_virtual_time({.workers = 1, .seed = seed}, [] {
      const Channel<int> there(0);
      const Channel<int> back(0);
      Log<int> log;
      TaskGroup group;
      group.go([=] { answer(there, back); });
      group.go([&, there, back] {
        ping(there, back, 5);
        log.add(1);
      });
      settle();
      log.add(2);
      there.close();
      group.wait();
      EXPECT_EQ(log.entries(), (std::vector<int>{1, 2}));
    });
  }
}

TEST(Settle, LetsCallersGoOnInTheOrderOfTheirCalls) {
  VirtualClock clock;  // one worker: the order of the first calls is known
  run(
      [] {
        Log<int> log;
        TaskGroup group;
        for (int i = 0; i < 10; ++i) {
          group.go([&, i] {
            settle();
            log.add(i);
          });
        }
        group.wait();
        EXPECT_EQ(log.entries(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
      },
      {.workers = 1, .clock = &clock});
}

// Each calls again before the next goes on, so every round has the order of the first.
TEST(Settle, LetsCallersGoOnInTheSameOrderWithAnyNumberOfWorkers) {
  run_each([] {
    constexpr int kCallers = 6;
    constexpr int kRounds = 10;
    Log<int> log;
    TaskGroup group;
    for (int i = 0; i < kCallers; ++i) {
      group.go([&, i] {
        for (int round = 0; round < kRounds; ++round) {
          settle();
          log.add(i);
        }
      });
    }
    group.wait();
    const std::vector<int> order = log.entries();
    ASSERT_EQ(order.size(), std::size_t{kCallers * kRounds});
    for (std::size_t i = kCallers; i < order.size(); ++i) {
      ASSERT_EQ(order[i], order[i - kCallers]) << "at " << i;
    }
    EXPECT_EQ(elapsed(), 0s);
  });
}

TEST(Settle, LetsTheNextCallerGoOnWhenWhatTheLastOneCausedIsDone) {
  run_each([] {
    const Channel<int> there(0);
    const Channel<int> back(0);
    std::atomic<int> inside = 0;
    std::atomic<int> consequences = 0;
    std::atomic<int> released = 0;
    go([=] { answer(there, back); });
    TaskGroup group;
    for (int i = 0; i < 5; ++i) {
      group.go([&] {
        settle();
        EXPECT_EQ(consequences, released);  // of all callers before
        ++released;
        EXPECT_EQ(inside.fetch_add(1), 0);
        ping(there, back, 20);
        --inside;
        go([&, there, back] {
          ping(there, back, 20);
          ++consequences;
        });
      });
    }
    group.wait();
    settle();
    EXPECT_EQ(released, 5);
    EXPECT_EQ(consequences, 5);
  });
}

TEST(Settle, FiresWhatTheLastCallerLetFallDueAndNothingLater) {
  run_each([] {
    Log<std::string> log;
    TaskGroup group;
    group.go([&] {
      settle();
      group.go([&] {
        settle();
        log.add("settled");
        EXPECT_EQ(elapsed(), 0ns);
      });
      const Channel<int> nothing(0);
      std::optional<int> value;
      for (const auto late : {0ns, 5ns}) {
        EXPECT_EQ(nothing.recv_until(value, now() - late), ChannelStatus::timed_out);
        EXPECT_TRUE(after(0ns).recv().has_value());
        sleep_until(now() - late);
        log.add("due");
      }
      sleep_for(1ns);
      log.add("later");
    });
    group.wait();
    EXPECT_EQ(log.entries(), (Names{"due", "due", "settled", "later"}));
    EXPECT_EQ(elapsed(), 1ns);
  });
}

TEST(Settle, TakesNoVirtualTimeAndLetsNonePass) {
  run_each([] {
    std::atomic<bool> woken = false;
    go([&] {
      sleep_for(1ns);
      woken = true;
    });
    for (int i = 0; i < 100; ++i) {
      settle();
      ASSERT_EQ(elapsed(), 0ns);
      ASSERT_FALSE(woken);
    }
    sleep_for(1ns);
    settle();
    EXPECT_TRUE(woken);
    EXPECT_EQ(elapsed(), 1ns);
  });
}

TEST(Settle, WakesPinnedFibersOnTheirWorkers) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    Scheduler scheduler(options);
    std::atomic<int> stayed = 0;
    for (int i = 0; i < 2 * options.workers; ++i) {
      scheduler.go(
          [&] {
            const std::thread::id home = std::this_thread::get_id();
            for (int turn = 0; turn < 10; ++turn) {
              settle();
              if (std::this_thread::get_id() == home) ++stayed;
            }
          },
          {.pinned = true});
    }
    scheduler.join();
    EXPECT_EQ(stayed, 20 * options.workers);
  });
}

TEST(Settle, ThrowsWhereTheFiberIsCancelledWhileItWaits) {
  run_each([] {
    std::atomic<int> calls = 0;
    std::atomic<int> cancelled = 0;
    std::atomic<int> returned = 0;
    TaskGroup group;
    for (int i = 0; i < 3; ++i) {
      group.go([&] {
        try {
          ++calls;
          settle();
          ++returned;
        } catch (const Cancelled&) {
          ++cancelled;
          throw;
        }
      });
    }
    while (calls < 3) yield();  // this fiber runs, so none of them goes on
    group.stop();
    settle();  // not behind those that have gone
    EXPECT_EQ(cancelled, 3);
    EXPECT_EQ(returned, 0);
    EXPECT_EQ(elapsed(), 0ns);
  });
}

TEST(Settle, ThrowsWhereTheFiberWasCancelledBefore) {
  const auto is_cancelled = [] {
    std::atomic<int> cancelled = 0;
    TaskGroup group;
    group.stop();
    group.go([&] {
      try {
        settle();
      } catch (const Cancelled&) {
        ++cancelled;
        throw;
      }
    });
    group.wait();
    EXPECT_EQ(cancelled, 1);
  };
  run_each(is_cancelled);
  on_each_worker_count(
      [&](const SchedulerOptions& in_real_time) { run(is_cancelled, in_real_time); });
}

TEST(Settle, WaitsInTheDestructorsOfACancelledFiber) {
  class Settles {
   public:
    explicit Settles(std::atomic<int>& count) : count_(count) {}
    Settles(const Settles&) = delete;
    Settles& operator=(const Settles&) = delete;
    ~Settles() {
      settle();
      ++count_;
    }

   private:
    std::atomic<int>& count_;
  };
  std::atomic<int> settled = 0;
  run_each([&] {
    for (int i = 0; i < 3; ++i) {
      go([&] {
        const Settles at_the_end(settled);
        sleep_for(1h);
      });
    }
    settle();
  });
  EXPECT_EQ(settled, 9);
}

TEST(Settle, IsNoDeadlockThoughAllFibersWaitInIt) {
  run_each([] {
    TaskGroup group;
    for (int i = 0; i < 20; ++i) group.go([] { settle(); });
    settle();
    group.wait();
  });
}

TEST(Settle, HidesNoDeadlock) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    std::atomic<bool> settled = false;
    EXPECT_THROW(run(
                     [&] {
                       const Channel<int> never(0);
                       go([&] {
                         settle();
                         settled = true;
                       });
                       static_cast<void>(never.recv());
                     },
                     options),
                 Deadlock);
    EXPECT_TRUE(settled);
  });
}

TEST(Settle, IsNamedInDumps) {
  run_each([] {
    TaskGroup group;
    group.go([] { settle(); }, {.name = "settler"});
    // It cannot go on before it is named: this fiber runs.
    while (dump().find("\"settler\" waits for the other fibers to wait") == std::string::npos) {
      yield();
    }
    group.wait();
  });
}

TEST(Settle, YieldsInRealTime) {
  std::atomic<bool> ran = false;
  run(
      [&] {
        go([&] { ran = true; });
        settle();
        EXPECT_TRUE(ran);
      },
      {.workers = 1});
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          std::atomic<bool> enough = false;
          TaskGroup group;
          group.go([&] {
            while (!enough) yield();
          });
          settle();  // though the other one runs
          enough = true;
          group.wait();
        },
        options);
  });
}

TEST(Settle, YieldsOnAPlainThread) {
  settle();
  run_each([] {
    std::thread plain([] { settle(); });  // though this fiber runs
    plain.join();
  });
}

}  // namespace settle_test
}  // namespace leat
