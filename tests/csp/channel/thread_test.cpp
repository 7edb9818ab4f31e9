// Plain OS threads on either end of a channel, with and without a scheduler.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace thread_test {

using namespace std::chrono_literals;
using support::Counted;
using support::on_each_worker_count;

constexpr int kItems = support::rounds(2000);

/// Sum of 0 .. count - 1.
constexpr long sum_below(long count) { return count * (count - 1) / 2; }

TEST(Threads, ExchangeValuesWithoutAnyScheduler) {
  for (const int capacity : {0, 1, 16}) {
    Channel<int> c(capacity);
    std::jthread sender([c] {
      for (int i = 0; i < kItems; ++i) c.send(i);
      c.close();
    });
    int expected = 0;
    for (const int value : c) ASSERT_EQ(value, expected++);
    EXPECT_EQ(expected, kItems);
  }
}

TEST(Threads, SeveralOnEachEndLoseAndDuplicateNothing) {
  for (const int capacity : {0, 3}) {
    Channel<int> c(capacity);
    std::atomic<long> sum = 0;
    std::atomic<int> count = 0;
    std::vector<std::jthread> receivers;
    for (int r = 0; r < 3; ++r) {
      receivers.emplace_back([&, c] {
        for (const int value : c) {
          sum += value;
          ++count;
        }
      });
    }
    {
      std::vector<std::jthread> senders;
      for (int s = 0; s < 3; ++s) {
        senders.emplace_back([&, s] {
          for (int i = 0; i < kItems; ++i) c.send(s * kItems + i);
        });
      }
    }
    c.close();
    receivers.clear();
    EXPECT_EQ(count, 3 * kItems);
    EXPECT_EQ(sum, sum_below(3 * kItems));
  }
}

TEST(Threads, SendToFibers) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (const int capacity : {0, 4}) {
      Channel<int> c(capacity);
      std::jthread sender([c] {
        for (int i = 0; i < kItems; ++i) c.send(i);
        c.close();
      });
      const long sum = run(
          [&] {
            const OutsideWork the_sender;
            std::atomic<long> total = 0;
            TaskGroup group;
            for (int r = 0; r < 3; ++r) {
              group.go([&] {
                for (const int value : c) total += value;
              });
            }
            group.wait();
            return total.load();
          },
          options);
      EXPECT_EQ(sum, sum_below(kItems));
    }
  });
}

TEST(Threads, ReceiveFromFibers) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (const int capacity : {0, 4}) {
      Scheduler scheduler(options);
      Channel<int> c(capacity);
      for (int s = 0; s < 3; ++s) {
        scheduler.go([=] {
          for (int i = 0; i < kItems; ++i) c.send(s * kItems + i);
        });
      }
      long sum = 0;
      for (int i = 0; i < 3 * kItems; ++i) sum += c.recv().value();
      scheduler.join();
      EXPECT_EQ(sum, sum_below(3 * kItems));
    }
  });
}

TEST(Threads, TwoSchedulersShareAChannel) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (const int capacity : {0, 4}) {
      Channel<int> c(capacity);
      Channel<long> result(1);
      Scheduler receiving(options);
      receiving.go([=] {
        long sum = 0;
        for (const int value : c) sum += value;
        result.send(sum);
      });
      run(
          [&] {
            const OutsideWork the_other_scheduler;
            TaskGroup group;
            for (int s = 0; s < 3; ++s) {
              group.go([=] {
                for (int i = 0; i < kItems; ++i) c.send(s * kItems + i);
              });
            }
            group.wait();
            c.close();
          },
          options);
      EXPECT_EQ(result.recv(), sum_below(3 * kItems));
    }
  });
}

TEST(Threads, SelectAmongChannelsOfFibers) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    Channel<int> numbers(0);
    Channel<int> results(0);
    scheduler.go([=] {
      for (int i = 0; i < kItems; ++i) numbers.send(i);
    });
    scheduler.go([=] {
      for (int i = 0; i < kItems; ++i) EXPECT_EQ(results.recv(), i);
    });
    int received = 0;
    int sent = 0;
    while (received < kItems || sent < kItems) {
      int next = sent;
      select(on_recv(numbers, [&](auto v) { EXPECT_EQ(*v, received++); }),
             on_send(sent < kItems ? results : Channel<int>(), next, [&] { ++sent; }));
    }
    scheduler.join();
  });
}

TEST(Threads, TimedOperationsEndNoSoonerThanTheirDeadline) {
  Channel<int> c(0);
  std::optional<int> value;
  const TimePoint deadline = now() + 3ms;
  EXPECT_EQ(c.recv_until(value, deadline), ChannelStatus::timed_out);
  EXPECT_GE(now(), deadline);
  EXPECT_EQ(c.send_until(1, deadline), ChannelStatus::timed_out);  // has passed
  const TimePoint start = now();
  EXPECT_EQ(select(on_recv(c), on_timeout(3ms)), 1);
  EXPECT_GE(now() - start, 3ms);
  EXPECT_EQ(c.try_send(1), ChannelStatus::would_block);  // they left no trace
  EXPECT_EQ(c.try_recv(value), ChannelStatus::would_block);
}

TEST(Threads, TimedOperationsMeetAPeer) {
  Channel<int> c(0);
  std::jthread peer([c] { c.send(1); });
  std::optional<int> value;
  EXPECT_EQ(c.recv_until(value, from_now(1h)), ChannelStatus::ok);
  EXPECT_EQ(value, 1);
}

TEST(Threads, CloseWakesThem) {
  for (int round = 0; round < 50; ++round) {
    Channel<int> empty(0);
    Channel<int> full(1);
    full.send(1);
    std::atomic<int> ended = 0;
    {
      std::vector<std::jthread> threads;
      threads.emplace_back([&] { ended += !empty.recv().has_value(); });
      threads.emplace_back([&] { ended += select(on_recv(empty), on_recv(Channel<int>())) == 0; });
      threads.emplace_back([&] {
        try {
          full.send(2);
        } catch (const ChannelClosed&) {
          ++ended;
        }
      });
      if (round % 2 == 0) std::this_thread::yield();
      empty.close();
      full.close();
    }
    EXPECT_EQ(ended, 3);
  }
}

TEST(Threads, RaceOfDeadlineAndPeerLosesAndDuplicatesNothing) {
  Channel<Counted> c(0);
  std::atomic<int> sent = 0;
  std::atomic<int> received = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          Counted value(i);
          const ChannelStatus status = c.send_until(std::move(value), from_now(i % 50 * 1us));
          sent += status == ChannelStatus::ok;
          EXPECT_EQ(value.number() == Counted::kMovedFrom, status == ChannelStatus::ok);
        }
      });
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          std::optional<Counted> value;
          received += c.recv_until(value, from_now(i % 50 * 1us)) == ChannelStatus::ok;
        }
      });
    }
  }
  EXPECT_EQ(sent, received);
  EXPECT_EQ(Counted::live(), 0);
}

// A thread that wakes the last fiber may still be inside ready() when run has returned.
TEST(Threads, MayWakeAFiberAsRunEnds) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (int i = 0; i < 200; ++i) {
      Channel<int> c(i % 2);
      std::thread thread([c] { c.send(1); });
      EXPECT_EQ(run(
                    [&] {
                      const OutsideWork the_thread;
                      return c.recv();
                    },
                    options),
                1);
      thread.join();
    }
  });
}

// A regression: such a thread held the scheduler's core, and with it the clock.
TEST(Threads, MayWakeAFiberAsRunEndsAndTheClockIsFreeForTheNextRun) {
  support::on_each_worker_count_with_clock(
      [](const SchedulerOptions& options, const VirtualClock&) {
        Channel<int> c(0);
        std::jthread thread([c] {
          for (int i = 0; i < 300; ++i) c.send(i);
        });
        for (int i = 0; i < 300; ++i) {
          const auto body = [&] {
            const OutsideWork the_thread;
            return c.recv();
          };
          EXPECT_EQ(run(body, options), i);
        }
      });
}

TEST(Threads, MayStopAndDestroyGroupsWhileFibersRun) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    for (int i = 0; i < 100; ++i) {
      Channel<int> c(0);
      TaskGroup group(scheduler);
      for (int k = 0; k < 4; ++k) {
        group.go([=] {
          for (;;) {
            if (k % 2 == 0) {
              c.send(k);
            } else {
              static_cast<void>(c.recv());
            }
          }
        });
      }
      if (i % 3 == 0) static_cast<void>(c.recv());
      if (i % 2 == 0) group.stop();
    }
    scheduler.join();
  });
}

// A channel as a bell: what is written before the bell is rung, is seen by who hears it, also if
// the bell rang already. The listener takes an earlier token at about that moment. Where other
// programs use the CPUs, a hundredth of the rings is enough.
void expect_bell_is_heard(void (*ring)(const Channel<char>& bell)) {
  constexpr int kRings = support::rounds(300'000);
  const TimePoint enough = now() + 2s;
  const Channel<char> bell(1);
  std::atomic<int> written = 0;
  std::atomic<int> heard = 0;
  std::jthread listener([&](const std::stop_token& stop) {
    for (int idle = 0; heard.load(std::memory_order_relaxed) < kRings && !stop.stop_requested();) {
      std::optional<char> token;
      if (bell.try_recv(token) == ChannelStatus::ok) {
        heard.store(written.load(std::memory_order_relaxed), std::memory_order_relaxed);
      } else if (++idle % 1024 == 0) {
        std::this_thread::yield();
      }
    }
  });
  for (int i = 1; i <= kRings && (i <= kRings / 100 || now() < enough); ++i) {
    ring(bell);
    for (std::atomic<int> pause = i % 32; pause.load(std::memory_order_relaxed) > 0;) {
      pause.store(pause.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    }
    written.store(i, std::memory_order_relaxed);
    ring(bell);
    const TimePoint late = now() + 5s;
    for (int idle = 0; heard.load(std::memory_order_relaxed) < i; ++idle) {
      if (idle % 1024 != 1023) continue;
      std::this_thread::yield();
      ASSERT_LT(now(), late) << "ring " << i << " was not heard";
    }
  }
}

TEST(Threads, AFullTrySendIsSeenByWhoMakesRoom) {
  expect_bell_is_heard([](const Channel<char>& bell) { static_cast<void>(bell.try_send(char{})); });
}

TEST(Threads, AFullSendOfASelectIsSeenByWhoMakesRoom) {
  expect_bell_is_heard(
      [](const Channel<char>& bell) { select(on_send(bell, char{}), otherwise()); });
}

TEST(Threads, NowAndSleepAreOfRealTime) {
  EXPECT_FALSE(on_fiber());
  const TimePoint before = now();
  const TimePoint real = SteadyClock::instance().now();
  EXPECT_LE(before, real);
  EXPECT_LE(real, now());
  const OutsideWork has_no_effect;
  const Shield has_none_either;
}

}  // namespace thread_test
}  // namespace leat
