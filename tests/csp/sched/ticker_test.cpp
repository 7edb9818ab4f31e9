// after and tick: times that arrive through channels. Under virtual time, so every instant is
// exact.
#include "leat/csp/ticker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "tests/support/run.h"

namespace leat {
namespace ticker_test {

using namespace std::chrono_literals;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::run_each;

TimePoint at(Duration since_start) { return TimePoint(since_start); }

void run_virtual(const std::function<void()>& body) {
  on_each_worker_count_with_clock(
      [&](const SchedulerOptions& options, const VirtualClock&) { run(body, options); });
}

TEST(After, SendsTheTimeOnce) {
  run_virtual([] {
    const Receiver<TimePoint> late = after(3s);
    const Receiver<TimePoint> early = after(1s);
    EXPECT_EQ(early.recv(), at(1s));
    EXPECT_EQ(now(), at(1s));
    EXPECT_EQ(late.recv(), at(3s));
    std::optional<TimePoint> none;
    EXPECT_EQ(late.try_recv(none), ChannelStatus::would_block);
  });
}

TEST(After, WhatIsNotInTheFutureComesAtOnce) {
  run_virtual([] {
    EXPECT_EQ(after(0s).recv(), at(0s));
    EXPECT_EQ(after(-1s).recv(), at(0s));
  });
}

TEST(After, NeverIsNoTimer) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    EXPECT_THROW(run([] { static_cast<void>(after(Duration::max()).recv()); }, options), Deadlock);
  });
}

// Its timer neither moves the clock nor keeps a deadlock from being reported.
TEST(After, EndsWithItsLastReceiver) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    const auto forget = [] {
      const Channel<int> values(1);
      for (int i = 0; i < 1000; ++i) {
        const Receiver<TimePoint> late = after(1h);
        Selector selector;
        selector.add(on_recv(late));
        values.send(1);
        EXPECT_EQ(select(on_recv(late), on_recv(values), on_recv(after(2h))), 1);
      }
      static_cast<void>(values.recv());
    };
    EXPECT_THROW(run(forget, options), Deadlock);
    EXPECT_EQ(clock.elapsed(), 0s);
  });
}

TEST(After, LivesAsLongAsASelectorHasIt) {
  run_virtual([] {
    Selector selector;
    selector.add(on_recv(after(1s)));
    EXPECT_EQ(selector.select(), 0U);
    EXPECT_EQ(now(), at(1s));
  });
}

TEST(After, ThousandsComeInTheOrderOfTheirTimes) {
  run_virtual([] {
    std::vector<Receiver<TimePoint>> all;
    constexpr int kAll = 3000;
    for (int i = 0; i < kAll; ++i) all.push_back(after(Duration((i * 7919) % kAll + 1)));
    TimePoint end{};
    for (int i = 0; i < kAll; ++i) {
      const std::optional<TimePoint> time = all[static_cast<std::size_t>(i)].recv();
      EXPECT_EQ(time, at(Duration((i * 7919) % kAll + 1)));
      end = std::max(end, *time);
    }
    EXPECT_EQ(end, at(Duration(kAll)));
    EXPECT_EQ(now(), end);
  });
}

TEST(After, StandsInASelect) {
  run_virtual([] {
    const Channel<int> values(0);
    go([values] {
      sleep_for(2s);
      values.send(7);
    });
    const Receiver<TimePoint> deadline = after(5s);
    EXPECT_EQ(select(on_recv(values), on_recv(deadline)), 0);
    EXPECT_EQ(select(on_recv(values), on_recv(deadline)), 1);
    EXPECT_EQ(now(), at(5s));
  });
}

TEST(Tick, SendsTheTimeEveryPeriod) {
  run_virtual([] {
    const Ticker ticker = tick(10ms);
    for (int i = 1; i <= 100; ++i) EXPECT_EQ(ticker.ticks().recv(), at(i * 10ms));
    EXPECT_EQ(now(), at(1s));
  });
}

TEST(Tick, DropsWhatIsNotReceivedAndKeepsToItsMultiples) {
  run_virtual([] {
    const Ticker ticker = tick(10ms);
    sleep_for(35ms);
    EXPECT_EQ(ticker.ticks().recv(), at(10ms));  // kept; those of 20 and 30 ms were dropped
    EXPECT_EQ(ticker.ticks().recv(), at(40ms));
    EXPECT_EQ(now(), at(40ms));
  });
}

TEST(Tick, StopsWhenItIsToldTo) {
  run_virtual([] {
    Ticker ticker = tick(10ms);
    EXPECT_EQ(ticker.ticks().recv(), at(10ms));
    ticker.stop();
    ticker.stop();
    sleep_for(1s);
    std::optional<TimePoint> none;
    EXPECT_EQ(ticker.ticks().try_recv(none), ChannelStatus::would_block);
  });
}

// A regression: it was always due, so that the workers were never all idle.
TEST(Tick, AShortOneThatOutlivesItsRunDoesNotKeepItUp) {
  for (const int workers : {1, 3}) {
    std::optional<Ticker> ticker;
    run([&] { ticker.emplace(tick(1ns)); }, {.workers = workers});
    std::optional<TimePoint> sent;
    static_cast<void>(ticker->ticks().try_recv(sent));
    EXPECT_EQ(ticker->ticks().try_recv(sent), ChannelStatus::would_block) << "it goes on";
  }
}

TEST(Tick, ATickThatWasSentIsReceivedAfterTheStop) {
  run_virtual([] {
    Ticker ticker = tick(10ms);
    sleep_for(15ms);
    ticker.stop();
    EXPECT_EQ(ticker.ticks().recv(), at(10ms));
  });
}

TEST(Tick, MovedItGoesOn) {
  run_virtual([] {
    Ticker first = tick(10ms);
    Ticker second = std::move(first);
    EXPECT_EQ(second.ticks().recv(), at(10ms));
    second = tick(1ms);  // which stops the one before
    EXPECT_EQ(second.ticks().recv(), at(11ms));
    EXPECT_EQ(second.ticks().recv(), at(12ms));
  });
}

TEST(Tick, RefusesAPeriodThatIsNotPositive) {
  run_virtual([] {
    EXPECT_THROW(static_cast<void>(tick(0s)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(tick(-1s)), std::invalid_argument);
  });
}

// A ticker that wakes nobody is no reason to wait.
TEST(Tick, IsNoReasonToWaitForWhatNeverComes) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    EXPECT_THROW(run(
                     [] {
                       const Ticker ticker = tick(1s);
                       static_cast<void>(Channel<int>(0, "never").recv());
                     },
                     options),
                 Deadlock);
    EXPECT_EQ(clock.elapsed(), 1s);  // the first tick still had room
  });
}

TEST(Tick, MayOutliveItsScheduler) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    std::optional<Ticker> ticker;
    run([&] { ticker.emplace(tick(1s)); }, options);
    ticker->stop();
  });
}

TEST(Alarm, NeedsAScheduler) {
  EXPECT_THROW(static_cast<void>(after(1s)), std::logic_error);
  EXPECT_THROW(static_cast<void>(tick(1s)), std::logic_error);
}

void expect_rings() {
  const TimePoint start = now();
  const Ticker ticker = tick(1ms);
  const Receiver<TimePoint> end = after(5ms);
  int ticks = 0;
  for (bool over = false; !over;) {
    select(on_recv(ticker.ticks(), [&](std::optional<TimePoint>) { ++ticks; }),
           on_recv(end, [&](std::optional<TimePoint> time) {
             over = true;
             EXPECT_GE(*time - start, 5ms);
           }));
  }
  EXPECT_GE(now() - start, 5ms);
  EXPECT_GE(ticks, 1);
}

// Only that they come, in order.
TEST(Alarm, RingsInRealTime) {
  on_each_worker_count([](const SchedulerOptions& options) { run(expect_rings, options); });
}

// Where nothing else is to be done, its worker sleeps until it is due.
TEST(Alarm, RingsInRealTimeForAnEmbeddedScheduler) {
  Scheduler scheduler({.workers = 2});
  for (int i = 0; i < 4; ++i) scheduler.go(expect_rings);
  scheduler.join();
}

TEST(Tick, OfAPeriodThatReachesBeyondTheClockComesOnce) {
  run_each([] {
    const Ticker ticker = tick(Duration(5'000'000'000'000'000'000));
    EXPECT_EQ(ticker.ticks().recv(), TimePoint(Duration(5'000'000'000'000'000'000)));
    std::optional<TimePoint> none;
    EXPECT_EQ(ticker.ticks().try_recv(none), ChannelStatus::would_block);
  });
}

}  // namespace ticker_test
}  // namespace leat
