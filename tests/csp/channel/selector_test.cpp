// select over lists made at run time: what select_test shows of one case or two, for 0 to 65,536.
#include "leat/csp/selector.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace selector_test {

using namespace std::chrono_literals;
using support::Counted;
using support::run_each;

TEST(Selector, ReceivesFromEachOfMany) {
  run_each([] {
    constexpr int kChannels = 100;
    std::vector<Channel<int>> channels;
    Selector any;
    int sum = 0;
    for (int i = 0; i < kChannels; ++i) {
      channels.emplace_back(i % 3);
      any.add(on_recv(channels.back(), [&sum](std::optional<int> v) { sum += v.value(); }));
    }
    TaskGroup senders;
    for (int i = 0; i < kChannels; ++i) {
      senders.go([c = channels[static_cast<std::size_t>(i)], i] { c.send(i); });
    }
    std::vector<bool> seen(kChannels);
    for (int i = 0; i < kChannels; ++i) {
      const std::size_t index = any.select();
      EXPECT_FALSE(seen.at(index));
      seen.at(index) = true;
    }
    EXPECT_EQ(sum, kChannels * (kChannels - 1) / 2);
    EXPECT_EQ(any.try_select(), std::nullopt);
  });
}

TEST(Selector, SelectsOver65536CasesAndRefusesOneMore) {
  run([] {
    Channel<int> idle(0);
    Channel<int> ready(1);
    std::vector<Channel<int>> others;
    for (int i = 0; i < 1000; ++i) others.emplace_back(0);
    Selector any;
    for (std::size_t i = 0; i < Selector::kMostCases; ++i) {
      any.add(on_recv(i == 4'321 ? ready : i % 2 == 0 ? idle : others[i % others.size()]));
    }
    EXPECT_EQ(any.size(), Selector::kMostCases);
    EXPECT_THROW(any.add(on_recv(idle)), std::length_error);
    EXPECT_EQ(any.try_select(), std::nullopt);
    ready.send(1);
    EXPECT_EQ(any.select(), 4'321U);
    go([others] { others[77].send(1); });
    EXPECT_EQ(any.select() % others.size(), 77U);  // parked in every queue
    go([idle] { idle.send(2); });
    EXPECT_EQ(any.select() % 2, 0U);
  });
}

TEST(Selector, WithoutCasesWaitsForEver) {
  run_each([] {
    Selector none;
    EXPECT_EQ(none.try_select(), std::nullopt);
    EXPECT_EQ(none.select_until(from_now(1h)), std::nullopt);
    EXPECT_EQ(support::elapsed(), 1h);
  });
  EXPECT_THROW(run([] { Selector().select(); }, {.deadlock_after = 0s}), Deadlock);
}

TEST(Selector, CasesOfTheNilChannelAndDisabledOnesAreNeverReady) {
  run_each([] {
    Channel<int> c(1);
    Selector any;
    any.add(on_recv(Channel<int>()));
    any.add(on_send(Channel<int>(), 1));
    const std::size_t index = any.add(on_recv(c));
    c.send(1);
    any.disable(index);
    EXPECT_EQ(any.try_select(), std::nullopt);
    any.set(index, on_recv(c));
    EXPECT_EQ(any.try_select(), index);
    EXPECT_THROW(any.disable(3), std::out_of_range);
    EXPECT_THROW(any.set(3, on_recv(c)), std::out_of_range);
    any.clear();
    EXPECT_EQ(any.size(), 0U);
  });
}

TEST(Selector, AValueIsSentOnceAsItWasWhenTheCaseWasGiven) {
  run_each([] {
    Channel<int> c(10);
    int value = 1;
    Selector any;
    any.add(on_send(c, 7));
    EXPECT_EQ(any.select(), 0U);
    EXPECT_EQ(any.try_select(), std::nullopt);
    any.set(0, on_send(c, value));
    value = 2;
    any.select();
    any.set(0, on_send(c, value));
    any.select();
    EXPECT_EQ(any.try_select(), std::nullopt);
    for (const int expected : {7, 1, 2}) EXPECT_EQ(c.recv(), expected);
  });
}

TEST(Selector, TakesAValueThatIsMovedIntoItAndFreesItIfNotChosen) {
  run_each([] {
    Channel<Counted> c(1);
    {
      Selector any;
      any.add(on_send(c, Counted(1)));
      EXPECT_EQ(any.select(), 0U);
      Counted second(2);
      any.set(0, on_send(c, std::move(second)));
      EXPECT_EQ(any.try_select(), std::nullopt);  // full
      EXPECT_EQ(c.recv()->number(), 1);
      EXPECT_EQ(any.select(), 0U);
      any.set(0, on_send(c, Counted(3)));
    }
    EXPECT_EQ(c.recv()->number(), 2);
    EXPECT_EQ(Counted::live(), 0);
  });
}

TEST(Selector, HandlersMayChangeItAndSelectAgain) {
  run_each([] {
    Channel<int> c(3);
    for (int i = 0; i < 3; ++i) c.send(i);
    Selector any;
    int got = 0;
    any.add(on_recv(c, [&](std::optional<int> v) {
      ++got;
      if (v == 0) any.select();  // takes 1
      any.set(0, on_recv(c, [&](std::optional<int>) { got += 10; }));
    }));
    any.select();
    any.select();
    EXPECT_EQ(got, 12);
  });
}

TEST(Selector, KeepsItsChannelsAlive) {
  run_each([] {
    Selector any;
    Sender<int> sender;
    {
      Channel<int> c(0);
      sender = c;
      any.add(on_recv(c));
    }
    go([s = std::exchange(sender, {})] { s.send(1); });
    EXPECT_EQ(any.select(), 0U);
  });
}

TEST(Selector, ChoosesUniformlyAmongTheReadyOfMany) {
  constexpr int kTrials = 10'000;
  constexpr std::size_t kCases = 64;
  run([] {
    Channel<int> ready(0);
    ready.close();
    Channel<int> idle(0);
    Selector any;
    for (std::size_t i = 0; i < kCases; ++i) any.add(on_recv(i >= 60 || i == 7 ? ready : idle));
    std::vector<int> count(kCases);
    for (int i = 0; i < kTrials; ++i) ++count.at(any.select());
    for (const std::size_t i : {7U, 60U, 61U, 62U, 63U}) {
      EXPECT_LT(std::abs(count[i] / double{kTrials} - 0.2), 4.891676 * std::sqrt(0.16 / kTrials));
    }
  });
}

TEST(Selector, WorksOnPlainThreads) {
  Channel<int> a(0);
  Channel<int> b(0);
  std::thread sender([=] {
    for (int i = 0; i < 100; ++i) (i % 2 == 0 ? a : b).send(i);
  });
  int sum = 0;
  Selector any;
  for (const auto& c : {a, b}) {
    any.add(on_recv(c, [&](std::optional<int> v) { sum += v.value(); }));
  }
  for (int i = 0; i < 100; ++i) any.select();
  sender.join();
  EXPECT_EQ(sum, 4950);
}

}  // namespace selector_test
}  // namespace leat
