// Go's test/chan/{select,select2,select5,select6,select7}.go: what a select evaluates, and
// what it leaves behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "tests/support/memory.h"
#include "tests/support/run.h"

namespace leat {
namespace go_chan_select_test {

using namespace std::chrono_literals;
using support::memory_in_use;
using support::rounds;
using support::run_each;
using support::until_idle;

// A loop that offers each number in turn to two channels, and drops one that has taken its number.
TEST(GoChanSelect, AChannelIsDisabledByMakingItNil) {
  run_each([] {
    unsigned counter = 0;
    unsigned shift = 0;
    const auto value = [&] {
      ++counter;
      return 1U << shift;
    };
    const auto send = [&](Channel<unsigned> a, Channel<unsigned> b) {
      int sent = 0;
      for (bool going_on = true; going_on; ++shift) {
        select(on_send(a, value(),
                       [&] {
                         ++sent;
                         a = {};
                       }),
               on_send(b, value(),
                       [&] {
                         ++sent;
                         b = {};
                       }),
               otherwise([&] { going_on = false; }));
      }
      return sent;
    };
    const Channel<unsigned> a(1);
    const Channel<unsigned> b(1);
    EXPECT_EQ(send(a, b), 2);
    EXPECT_EQ(a.recv().value() | b.recv().value(), 3U);
    EXPECT_EQ(send(a, {}), 1);
    EXPECT_EQ(a.recv(), 8U);  // 4 was offered to nobody, in the round that ended the first loop
    EXPECT_EQ(counter, 10U);  // both operands in each of 3 + 2 rounds, also for the nil channel
  });
}

// A place that each loser left in the queue of `never` would take more than 16 bytes.
TEST(GoChanSelect2, SelectsWithACaseThatIsNeverReadyDoNotGrowMemory) {
  run_each([] {
    const Channel<int> c(0);
    const Channel<int> never(0);
    Selector any;
    any.add(on_recv(never));
    any.add(on_recv(c));
    const auto exchange = [&](int count) {
      TaskGroup group;
      group.go([&] {
        for (int i = 0; i < count; ++i) c.send(int{i});
      });
      for (int i = 0; i < count; ++i) {
        if (i % 2 == 0) {
          EXPECT_EQ(select(on_recv(never), on_recv(c), on_send(never, 1)), 1);
        } else {
          EXPECT_EQ(any.select(), 1U);
        }
      }
      group.wait();
    };
    exchange(1000);
    const std::size_t before = memory_in_use();
    constexpr int kSelects = rounds(100'000);
    exchange(kSelects);
    EXPECT_LT(memory_in_use(), before + std::size_t{16} * kSelects);
    EXPECT_EQ(never.try_send(1), ChannelStatus::would_block);
  });
}

/// Counts how often each operand was evaluated, and that nothing was sent or received before the
/// last one was.
class Operands {
 public:
  explicit Operands(std::vector<Channel<int>> channels) : channels_(std::move(channels)) {}

  const Channel<int>& channel(std::size_t i) {
    evaluated(i);
    return channels_.at(i);
  }
  int value(std::size_t i) {
    evaluated(10 + i);
    return static_cast<int>(i);
  }
  [[nodiscard]] bool each_once(const std::vector<std::size_t>& which) const {
    std::array<int, 20> expected{};
    for (const std::size_t i : which) expected.at(i) = 1;
    return std::equal(counts_.begin(), counts_.end(), expected.begin());
  }

 private:
  void evaluated(std::size_t i) {
    ++counts_.at(i);
    std::size_t buffered = 0;
    for (const Channel<int>& c : channels_) buffered += c.size();
    if (buffered_ == kUnknown) buffered_ = buffered;
    EXPECT_EQ(buffered, buffered_);
  }

  static constexpr std::size_t kUnknown = ~std::size_t{0};
  const std::vector<Channel<int>> channels_;
  std::array<std::atomic<int>, 20> counts_{};  // looked at while the select waits
  std::size_t buffered_ = kUnknown;
};

// Their order is the compiler's in C++; that all are evaluated once, on entry, is select's.
TEST(GoChanSelect5, EachOperandIsEvaluatedOnceOnEntryWhicheverCaseIsChosen) {
  run_each([] {
    for (int ready = 0; ready < 4; ++ready) {
      std::vector<Channel<int>> channels;
      for (int i = 0; i < 3; ++i) channels.emplace_back(1);
      if (ready != 0) channels[0].send(7);  // a send is ready where there is room
      if (ready == 1) channels[1].send(8);
      if (ready != 2) channels[2].send(9);
      Operands operands(channels);
      int handled = -1;
      const auto send_to = [&](std::size_t i) {
        return on_send(operands.channel(i), operands.value(i),
                       [&, i] { handled = static_cast<int>(i); });
      };
      const int index =
          select(send_to(0), on_recv(operands.channel(1), [&](std::optional<int>) { handled = 1; }),
                 send_to(2), otherwise([&] { handled = 3; }));
      EXPECT_EQ(index, ready);
      EXPECT_EQ(handled, ready);
      EXPECT_TRUE(operands.each_once({0, 1, 2, 10, 12}));
    }
  });
}

TEST(GoChanSelect5, EachOperandIsEvaluatedOnceAlsoWhereTheSelectWaits) {
  run_each([] {
    const Channel<int> a(0);
    const Channel<int> b(0);
    Operands operands({a, b});
    TaskGroup group;
    group.go([&] {
      EXPECT_EQ(
          select(on_recv(operands.channel(0)), on_send(operands.channel(1), operands.value(1))), 1);
    });
    until_idle();
    EXPECT_TRUE(operands.each_once({0, 1, 11}));
    EXPECT_EQ(b.recv(), 1);
    group.wait();
    EXPECT_TRUE(operands.each_once({0, 1, 11}));
  });
}

// A select that stands first in the queue of c1 is chosen by c2: it must leave that queue, and
// nobody else with it.
TEST(GoChanSelect6, ALosingReceiveLeavesTheQueueAndTheNextReceiverStays) {
  run_each([] {
    const Channel<bool> c1(0);
    const Channel<bool> c2(0);
    const Channel<bool> c3(0);
    TaskGroup group;
    group.go([&] { EXPECT_EQ(c1.recv(), true); });
    until_idle();
    group.go([&] {
      EXPECT_EQ(select(on_recv(c1), on_recv(c2)), 1);
      c3.send(true);
      EXPECT_EQ(c1.recv(), true);
    });
    until_idle();
    group.go([&] { c2.send(true); });
    EXPECT_EQ(c3.recv(), true);
    c1.send(true);
    c1.send(true);
    group.wait();
  });
}

TEST(GoChanSelect6, ALosingSendLeavesTheQueueAndTheNextSenderStays) {
  run_each([] {
    const Channel<int> c1(0);
    const Channel<int> c2(0);
    const Channel<int> c3(0);
    TaskGroup group;
    group.go([&] { c1.send(1); });
    until_idle();
    group.go([&] {
      EXPECT_EQ(select(on_send(c1, 2), on_send(c2, 3)), 1);
      c3.send(4);
      c1.send(5);
    });
    until_idle();
    group.go([&] { EXPECT_EQ(c2.recv(), 3); });
    EXPECT_EQ(c3.recv(), 4);
    EXPECT_EQ(c1.recv(), 1);
    EXPECT_EQ(c1.recv(), 5);
    group.wait();
  });
}

// The same for each place in queues of three, and for every way to leave.
TEST(GoChanSelect6, WhoeverLeavesTheOthersKeepTheirTurn) {
  run_each([] {
    for (std::size_t leaver = 0; leaver < 3; ++leaver) {
      for (const bool by_timeout : {false, true}) {
        const Channel<int> common(0);
        const Channel<int> exit(0);
        std::array<std::optional<int>, 3> got;
        TaskGroup group;
        for (std::size_t i = 0; i < 3; ++i) {
          group.go([&, i] {
            const auto keep = [&, i](std::optional<int> v) { got.at(i) = v; };
            if (i != leaver) {
              keep(common.recv());
            } else if (by_timeout) {
              select(on_recv(common, keep), on_timeout(1ms));
            } else {
              select(on_recv(common, keep), on_recv(exit));
            }
          });
          until_idle();
        }
        if (by_timeout) {
          sleep_for(2ms);
        } else {
          exit.send(1);
        }
        common.send(0);
        common.send(1);
        group.wait();
        EXPECT_EQ(common.try_send(2), ChannelStatus::would_block);
        int next = 0;
        for (std::size_t i = 0; i < 3; ++i) {
          EXPECT_EQ(got.at(i), i == leaver ? std::nullopt : std::optional<int>(next++));
        }
      }
    }
  });
}

// A peer that waits is seen by every kind of the other operation.
TEST(GoChanSelect7, EveryWayToSendMeetsEveryWayToReceiveWhicheverComesFirst) {
  using C = Channel<int>;
  const std::vector<std::function<void(const C&)>> sends = {
      [](const C& c) { c.send(1); },
      [](const C& c) { EXPECT_EQ(select(on_send(c, 1)), 0); },
      [](const C& c) { EXPECT_EQ(select(on_recv(C(0)), on_send(c, 1)), 1); },
      [](const C& c) { EXPECT_EQ(select(on_send(c, 1), on_send(c, 1)) / 2, 0); },
  };
  const auto one = [](std::optional<int> v) { EXPECT_EQ(v, 1); };
  const std::vector<std::function<void(const C&)>> receives = {
      [=](const C& c) { one(c.recv()); },
      [=](const C& c) { EXPECT_EQ(select(on_recv(c, one)), 0); },
      [=](const C& c) { EXPECT_EQ(select(on_send(C(0), 2), on_recv(c, one)), 1); },
      [=](const C& c) { EXPECT_EQ(select(on_recv(c, one), on_recv(c, one)) / 2, 0); },
  };
  // The later one may also be one that does not wait.
  auto late_sends = sends;
  late_sends.emplace_back([](const C& c) { EXPECT_EQ(select(on_send(c, 1), otherwise()), 0); });
  late_sends.emplace_back([](const C& c) { EXPECT_EQ(c.try_send(1), ChannelStatus::ok); });
  auto late_receives = receives;
  late_receives.emplace_back(
      [=](const C& c) { EXPECT_EQ(select(on_recv(c, one), otherwise()), 0); });
  late_receives.emplace_back([=](const C& c) {
    std::optional<int> v;
    EXPECT_EQ(c.try_recv(v), ChannelStatus::ok);
    one(v);
  });
  const auto meet = [](const auto& first, const auto& second) {
    for (const auto& early : first) {
      for (const auto& late : second) {
        const C c(0);
        TaskGroup group;
        group.go([&] { early(c); });
        until_idle();
        late(c);
        group.wait();
        EXPECT_EQ(select(on_recv(c), on_send(c, 1), otherwise()), 2);
      }
    }
  };
  run_each([&] {
    meet(receives, late_sends);
    meet(sends, late_receives);
  });
}

}  // namespace go_chan_select_test
}  // namespace leat
