// With one worker and virtual time a seed decides which of the fibers that can run comes next.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/log.h"
#include "tests/support/run.h"

namespace leat {
namespace seeded_order_test {

using namespace std::chrono_literals;
using Order = std::vector<int>;

template <class F>
auto run_with(std::uint64_t seed, F&& body) {
  VirtualClock clock;
  return run(std::forward<F>(body), {.workers = 1, .clock = &clock, .seed = seed});
}

/// In which order `count` fibers run that are launched, and wait for nothing.
Order launched(int count) {
  support::Log<int> log;
  TaskGroup group;
  for (int i = 0; i < count; ++i) group.go([&log, i] { log.add(i); });
  group.wait();
  return log.entries();
}

/// In which order `count` fibers run that are woken at once, having waited in this order.
template <class Wait, class Wake>
Order woken(int count, Wait&& wait, Wake&& wake) {
  support::Log<int> log;
  TaskGroup group;
  for (int i = 0; i < count; ++i) {
    group.go([&, i] {
      wait();
      log.add(i);
    });
  }
  support::until_idle();
  wake();
  group.wait();
  return log.entries();
}

Order woken_by_close() {
  const Channel<int> c(0);
  return woken(
      4, [=] { static_cast<void>(c.recv()); }, [=] { c.close(); });
}

Order woken_by_one_instant() {
  return woken(
      4, [] { sleep_until(TimePoint(1s)); }, [] {});
}

/// Whether fiber 0, which is the main one and pinned, comes before or behind two others.
Order pinned() {
  support::Log<int> log;
  TaskGroup group;
  for (const int i : {1, 2}) group.go([&log, i] { log.add(i); });
  yield();
  log.add(0);
  group.wait();
  return log.entries();
}

std::set<Order> orders_of(Order (*program)(), int seeds) {
  std::set<Order> seen;
  for (int seed = 1; seed <= seeds; ++seed) {
    seen.insert(run_with(static_cast<std::uint64_t>(seed), program));
  }
  return seen;
}

TEST(SeededOrder, ReachesEveryOrderOfLaunchedFibers) {
  EXPECT_EQ(orders_of([] { return launched(4); }, 500).size(), 24U);
}

TEST(SeededOrder, ReachesEveryOrderOfFibersWokenAtOnce) {
  EXPECT_EQ(orders_of(woken_by_close, 500).size(), 24U);
}

TEST(SeededOrder, ReachesEveryOrderOfTimersOfOneInstant) {
  EXPECT_EQ(orders_of(woken_by_one_instant, 500).size(), 24U);
}

TEST(SeededOrder, PlacesAPinnedFiberAsAnyOther) { EXPECT_EQ(orders_of(pinned, 200).size(), 6U); }

// More than the ring holds, whose rest waits elsewhere.
TEST(SeededOrder, OfMoreThanTheRingHoldsLosesNone) {
  for (int i = 1; i <= support::rounds(20); ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    Order order = run_with(seed, [] { return launched(2000); });
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(order, run_with(seed, [] { return launched(2000); }));
    std::sort(order.begin(), order.end());
    Order all(2000);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
}

TEST(SeededOrder, IsThatOfTheLaunchesWithoutASeed) {
  Order all(200);  // which the ring holds
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(run_with(0, [] { return launched(200); }), all);
}

TEST(SeededOrder, KeepsNobodyWaitingForEver) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    EXPECT_TRUE(run_with(seed, [] {
      std::atomic<bool> stop = false;
      TaskGroup group;
      for (int i = 0; i < 3; ++i) {
        group.go([&] {
          while (!stop) yield();
        });
      }
      group.go([&] { stop = true; });
      group.wait();
      return stop.load();
    })) << seed;
  }
}

// Pinned fibers that a plain thread wakes come through the worker's inbox, into a ring that is
// full.
TEST(SeededOrder, TakesInWhatAThreadWakes) {
  constexpr int kFibers = 600;
  const Channel<int> c(0);
  std::optional<int> nothing;  // a channel that a thread has used: it may be late
  ASSERT_EQ(c.try_recv(nothing), ChannelStatus::would_block);
  std::thread thread([&] {
    for (int i = 0; i < kFibers; ++i) c.send(i);
  });
  const int sum = run_with(7, [&] {
    std::atomic<int> received = 0;
    TaskGroup group;
    for (int i = 0; i < kFibers; ++i) {
      group.go([&] { received += c.recv().value(); }, {.pinned = true});
      group.go([] { yield(); });
    }
    group.wait();
    return received.load();
  });
  thread.join();
  EXPECT_EQ(sum, kFibers * (kFibers - 1) / 2);
}

// What a seed is for: a program that relies on an order that nobody promised it.
TEST(SeededOrder, FindsWhatDependsOnIt) {
  // [seeds]
  const auto greets = [] {
    const leat::Channel<std::string> names(1);
    std::string greeting;
    leat::TaskGroup group;
    group.go([=] { names.send("miller"); });
    group.go([&greeting, names] {
      std::optional<std::string> name;
      static_cast<void>(names.try_recv(name));  // relies on the order of the launches
      greeting = "hello, " + name.value_or("nobody");
    });
    group.wait();
    return greeting == "hello, miller";
  };
  std::optional<std::uint64_t> fails;
  for (std::uint64_t seed = 1; seed <= 100 && !fails; ++seed) {
    leat::VirtualClock clock;
    if (!leat::run(greets, {.workers = 1, .clock = &clock, .seed = seed})) fails = seed;
  }
  // [/seeds]
  ASSERT_TRUE(fails.has_value());
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(run_with(*fails, greets));
  EXPECT_TRUE(run_with(0, greets));
}

}  // namespace seeded_order_test
}  // namespace leat
