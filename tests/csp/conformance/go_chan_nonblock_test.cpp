// Go's test/chan/{nonblock,select3}.go: what waits, and what does not.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace go_chan_nonblock_test {

using namespace std::chrono_literals;
using support::on_each_worker_count;
using support::run_each;
using support::until_idle;

/// The two ways to send or receive without waiting.
enum class Way { kSelectWithOtherwise, kTry };
constexpr std::array kWays = {Way::kSelectWithOtherwise, Way::kTry};

/// Returns the value that was received, if there was one.
template <class T>
std::optional<T> poll(const Channel<T>& c, Way way) {
  std::optional<T> got;
  if (way == Way::kTry) {
    got.emplace();  // must be overwritten
    const ChannelStatus status = c.try_recv(got);
    EXPECT_EQ(status, got ? ChannelStatus::ok : ChannelStatus::would_block);
    return got;
  }
  bool chosen = false;
  const int index = select(on_recv(c,
                                   [&](std::optional<T> value) {
                                     got = std::move(value);
                                     chosen = true;
                                   }),
                           otherwise());
  EXPECT_EQ(index == 0, chosen);
  EXPECT_EQ(got.has_value(), chosen);
  return got;
}

/// Returns true if `value` was sent.
template <class T>
bool offer(const Channel<T>& c, const T& value, Way way) {
  T copy = value;
  bool sent = false;
  if (way == Way::kTry) {
    const ChannelStatus status = c.try_send(std::move(copy));
    sent = status == ChannelStatus::ok;
    EXPECT_EQ(status, sent ? ChannelStatus::ok : ChannelStatus::would_block);
  } else {
    sent = select(on_send(c, std::move(copy)), otherwise()) == 0;
  }
  if (!sent) {
    EXPECT_EQ(copy, value);  // NOLINT(bugprone-use-after-move): that is the promise
  }
  return sent;
}

template <class T>
class GoChanNonBlock : public testing::Test {
 public:
  static T value() {
    if constexpr (std::is_same_v<T, std::string>) {
      return "a text that is too long to be kept inside of the string";
    } else {
      return static_cast<T>(123'456'789);
    }
  }
};
using Types = testing::Types<std::int32_t, std::int64_t, bool, std::string>;
TYPED_TEST_SUITE(GoChanNonBlock, Types);

TYPED_TEST(GoChanNonBlock, WithoutAPeerOnlyTheBufferTakesAndGives) {
  using T = TypeParam;
  run_each([] {
    const T value = GoChanNonBlock<T>::value();
    for (const Way way : kWays) {
      for (const int capacity : {0, 1, 3}) {
        const Channel<T> c(capacity);
        for (int round = 0; round < 3; ++round) {
          EXPECT_EQ(poll(c, way), std::nullopt);
          for (int i = 0; i < capacity; ++i) EXPECT_TRUE(offer(c, value, way));
          EXPECT_FALSE(offer(c, value, way));
          if (capacity > 0) {
            EXPECT_EQ(poll(c, way), value);
            EXPECT_TRUE(offer(c, value, way));
            EXPECT_FALSE(offer(c, value, way));
          }
          for (int i = 0; i < capacity; ++i) EXPECT_EQ(poll(c, way), value);
        }
        EXPECT_EQ(poll(c, way), std::nullopt);
      }
    }
  });
}

TYPED_TEST(GoChanNonBlock, AWaitingReceiverTakesOneOffer) {
  using T = TypeParam;
  run_each([] {
    const T value = GoChanNonBlock<T>::value();
    for (const Way way : kWays) {
      for (const int capacity : {0, 1}) {
        const Channel<T> c(capacity);
        std::optional<T> got;
        TaskGroup group;
        group.go([&] { got = c.recv(); });
        until_idle();
        EXPECT_TRUE(offer(c, value, way));
        EXPECT_EQ(offer(c, value, way), capacity == 1);  // the receiver is not there twice
        group.wait();
        EXPECT_EQ(got, value);
      }
    }
  });
}

TYPED_TEST(GoChanNonBlock, AWaitingSenderGivesItsValueOnce) {
  using T = TypeParam;
  run_each([] {
    const T value = GoChanNonBlock<T>::value();
    for (const Way way : kWays) {
      for (const int capacity : {0, 1}) {
        const Channel<T> c(capacity);
        if (capacity == 1) {
          EXPECT_TRUE(offer(c, value, way));
        }
        TaskGroup group;
        group.go([&] { c.send(value); });
        until_idle();
        for (int i = 0; i <= capacity; ++i) EXPECT_EQ(poll(c, way), value);
        EXPECT_EQ(poll(c, way), std::nullopt);
        group.wait();
      }
    }
  });
}

// select3: each operation alone in a run, which reports a deadlock if and only if it waits.

bool waits(const std::function<void()>& operation, const SchedulerOptions& options) {
  try {
    run(operation, options);
    return false;
  } catch (const Deadlock&) {
    return true;
  }
}

enum class Expected { kWaits, kReturns, kThrows };

/// Checks every way to communicate on a channel in the situation that `make` makes.
void check(const char* situation, const std::function<Channel<int>()>& make, Expected receive,
           Expected send, const SchedulerOptions& options) {
  const auto checked = [&](const char* how, Expected expected, const auto& operation) {
    SCOPED_TRACE(testing::Message() << how << ", " << situation);
    const auto body = [&] { operation(make()); };
    if (expected == Expected::kThrows) {
      EXPECT_THROW(run(body, options), ChannelClosed);
    } else {
      EXPECT_EQ(waits(body, options), expected == Expected::kWaits);
    }
  };
  // What would wait takes otherwise() instead.
  const auto or_returns = [](Expected e) { return e == Expected::kWaits ? Expected::kReturns : e; };
  using C = Channel<int>;

  checked("recv", receive, [](const C& c) { static_cast<void>(c.recv()); });
  checked("select recv", receive, [](const C& c) { select(on_recv(c)); });
  checked("select recv and nil", receive,
          [](const C& c) { select(on_recv(C()), on_recv(c), on_send(C(), 1)); });
  checked("select recv twice", receive, [](const C& c) { select(on_recv(c), on_recv(c)); });
  checked("select recv or default", or_returns(receive), [&](const C& c) {
    EXPECT_EQ(select(on_recv(c), otherwise()), receive == Expected::kWaits ? 1 : 0);
  });
  checked("select recv or timeout", or_returns(receive), [&](const C& c) {
    EXPECT_EQ(select(on_recv(c), on_timeout(1ns)), receive == Expected::kWaits ? 1 : 0);
  });
  checked("try_recv", or_returns(receive), [&](const C& c) {
    std::optional<int> value;
    EXPECT_EQ(c.try_recv(value) == ChannelStatus::would_block, receive == Expected::kWaits);
  });
  checked("Selector recv", receive, [](const C& c) {
    Selector any;
    any.add(on_recv(c));
    any.select();
  });

  checked("send", send, [](const C& c) { c.send(7); });
  checked("select send", send, [](const C& c) { select(on_send(c, 7)); });
  checked("select send and nil", send,
          [](const C& c) { select(on_recv(C()), on_send(C(), 1), on_send(c, 7)); });
  checked("select send twice", send, [](const C& c) { select(on_send(c, 7), on_send(c, 8)); });
  checked("select send or default", or_returns(send), [&](const C& c) {
    EXPECT_EQ(select(on_send(c, 7), otherwise()), send == Expected::kWaits ? 1 : 0);
  });
  checked("select send or timeout", or_returns(send), [&](const C& c) {
    EXPECT_EQ(select(on_send(c, 7), on_timeout(1ns)), send == Expected::kWaits ? 1 : 0);
  });
  checked("try_send", Expected::kReturns, [&](const C& c) {
    const ChannelStatus status = c.try_send(7);
    EXPECT_EQ(status == ChannelStatus::would_block, send == Expected::kWaits);
    EXPECT_EQ(status == ChannelStatus::closed, send == Expected::kThrows);
  });
  checked("Selector send", send, [](const C& c) {
    Selector any;
    any.add(on_send(c, 7));
    any.select();
  });

  const bool both_wait = receive == Expected::kWaits && send == Expected::kWaits;
  if (send == Expected::kThrows) return;  // whether it does then depends on chance
  checked("select both ways", both_wait ? Expected::kWaits : Expected::kReturns,
          [](const C& c) { select(on_recv(c), on_send(c, 7)); });
  checked("select both ways or default", Expected::kReturns, [&](const C& c) {
    EXPECT_EQ(select(on_recv(c), on_send(c, 7), otherwise()) == 2, both_wait);
  });
  checked("select both ways or timeout", Expected::kReturns, [&](const C& c) {
    EXPECT_EQ(select(on_recv(c), on_send(c, 7), on_timeout(1ns)) == 2, both_wait);
  });
}

Channel<int> filled(int capacity, int values) {
  Channel<int> c(capacity);
  for (int i = 0; i < values; ++i) c.send(i);
  return c;
}
Channel<int> closed(Channel<int> c) {
  c.close();
  return c;
}

TEST(GoChanSelect3, TheNilChannelAlwaysWaits) {
  on_each_worker_count([](const SchedulerOptions& options) {
    check(
        "nil", [] { return Channel<int>(); }, Expected::kWaits, Expected::kWaits, options);
  });
}

TEST(GoChanSelect3, WithoutABufferAndAPeerItWaits) {
  on_each_worker_count([](const SchedulerOptions& options) {
    check(
        "capacity 0", [] { return Channel<int>(0); }, Expected::kWaits, Expected::kWaits, options);
  });
}

TEST(GoChanSelect3, WithABufferItWaitsOnlyWhereThatIsEmptyOrFull) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (const int capacity : {1, 2, 10}) {
      check(
          "empty", [&] { return filled(capacity, 0); }, Expected::kWaits, Expected::kReturns,
          options);
      check(
          "full", [&] { return filled(capacity, capacity); }, Expected::kReturns, Expected::kWaits,
          options);
    }
    check(
        "half full", [] { return filled(2, 1); }, Expected::kReturns, Expected::kReturns, options);
  });
}

TEST(GoChanSelect3, AClosedChannelNeverWaits) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (const int capacity : {0, 1, 10}) {
      check(
          "closed", [&] { return closed(filled(capacity, 0)); }, Expected::kReturns,
          Expected::kThrows, options);
      check(
          "closed and full", [&] { return closed(filled(capacity, capacity)); }, Expected::kReturns,
          Expected::kThrows, options);
    }
  });
}

TEST(GoChanSelect3, WithoutACommunicationItWaitsForEverOrNotAtAll) {
  on_each_worker_count([](const SchedulerOptions& options) {
    EXPECT_TRUE(waits([] { select(); }, options));
    EXPECT_FALSE(waits([] { EXPECT_EQ(select(otherwise()), 0); }, options));
    EXPECT_TRUE(waits([] { Selector().select(); }, options));
    EXPECT_FALSE(waits([] { EXPECT_EQ(Selector().try_select(), std::nullopt); }, options));
  });
}

}  // namespace go_chan_nonblock_test
}  // namespace leat
