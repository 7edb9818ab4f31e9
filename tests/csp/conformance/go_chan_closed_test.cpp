// Go's test/closedchan.go, test/chancap.go and the part of test/chanlinear.go that no clock is
// needed for.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace go_chan_closed_test {

using namespace std::chrono_literals;
using support::rounds;
using support::run_each;
using support::until_idle;

constexpr std::size_t kSelects = rounds(3000);
constexpr std::size_t kThird = rounds(330);
constexpr std::size_t kPairSelects = 3 * kThird;

/// A way to receive that must not wait: what it got; fails the test if it took the default.
struct Receive {
  const char* name;
  std::function<std::optional<int>(const Channel<int>&)> get;
};

const std::vector<Receive>& receives() {
  static const std::vector<Receive> kAll = {
      {"recv", [](const Channel<int>& c) { return c.recv(); }},
      {"recv of a Receiver", [](const Channel<int>& c) { return Receiver<int>(c).recv(); }},
      {"try_recv",
       [](const Channel<int>& c) {
         std::optional<int> got = -1;  // must be overwritten
         const ChannelStatus status = c.try_recv(got);
         EXPECT_EQ(status, got ? ChannelStatus::ok : ChannelStatus::closed);
         return got;
       }},
      {"recv_until a time that has passed",
       [](const Channel<int>& c) {
         std::optional<int> got = -1;
         const ChannelStatus status = c.recv_until(got, now());
         EXPECT_EQ(status, got ? ChannelStatus::ok : ChannelStatus::closed);
         return got;
       }},
      {"recv_until a time to come",
       [](const Channel<int>& c) {
         std::optional<int> got = -1;
         const ChannelStatus status = c.recv_until(got, from_now(1h));
         EXPECT_EQ(status, got ? ChannelStatus::ok : ChannelStatus::closed);
         return got;
       }},
      {"select",
       [](const Channel<int>& c) {
         std::optional<int> got = -1;
         EXPECT_EQ(select(on_recv(c, [&](std::optional<int> v) { got = v; })), 0);
         return got;
       }},
      {"select beside channels that are never ready",
       [](const Channel<int>& c) {
         std::optional<int> got = -1;
         const Channel<int> idle(0);
         EXPECT_EQ(select(on_recv(idle), on_recv(c, [&](std::optional<int> v) { got = v; }),
                          on_recv(Channel<int>()), on_send(idle, 1)),
                   1);
         return got;
       }},
      {"select with otherwise",
       [](const Channel<int>& c) {
         std::optional<int> got = -1;
         EXPECT_EQ(select(on_recv(c, [&](std::optional<int> v) { got = v; }), otherwise()), 0);
         return got;
       }},
      {"Selector",
       [](const Channel<int>& c) {
         std::optional<int> got = -1;
         Selector any;
         any.add(on_recv(c, [&](std::optional<int> v) { got = v; }));
         EXPECT_EQ(any.try_select(), 0U);
         return got;
       }},
      {"range for",
       [](const Channel<int>& c) {
         for (const int value : c) return std::optional<int>(value);
         return std::optional<int>();
       }},
  };
  return kAll;
}

TEST(GoClosedChan, EveryReceiveDrainsItAndThenFindsItClosed) {
  run_each([] {
    for (const int capacity : {0, 1, 2, 5, 17}) {
      for (int buffered = 0; buffered <= capacity; ++buffered) {
        for (const Receive& receive : receives()) {
          SCOPED_TRACE(testing::Message() << receive.name << ", " << buffered << " buffered");
          const Channel<int> c(capacity);
          for (int i = 0; i < buffered; ++i) c.send(1 + i);
          c.close();
          EXPECT_EQ(c.size(), static_cast<std::size_t>(buffered));
          for (int i = 0; i < buffered; ++i) EXPECT_EQ(receive.get(c), 1 + i);
          for (int i = 0; i < 3; ++i) EXPECT_EQ(receive.get(c), std::nullopt);
        }
      }
    }
    EXPECT_EQ(support::elapsed(), 0ns);  // none of them waits
  });
}

// Each fails at once, whether there would be room or not, and leaves what is buffered alone.
TEST(GoClosedChan, EverySendFailsAtOnceAndKeepsItsValue) {
  using C = Channel<std::string>;
  const std::string text = "a text that is too long to be kept inside of the string";
  const std::vector<std::function<void(const C&, std::string&)>> sends = {
      [](const C& c, std::string& v) { c.send(std::move(v)); },
      [](const C& c, std::string& v) { Sender<std::string>(c).send(std::move(v)); },
      [](const C& c, std::string& v) { select(on_send(c, v)); },
      [](const C& c, std::string& v) { select(on_send(c, v), otherwise()); },
      [](const C& c, std::string& v) { select(on_recv(C(0)), on_send(c, v), on_send(C(), v)); },
      [](const C& c, std::string& v) {
        Selector any;
        any.add(on_send(c, v));
        any.select();
      },
      [](const C& c, std::string& v) {
        Selector any;
        any.add(on_send(c, v));
        any.try_select();
      },
  };
  run_each([&] {
    for (const int capacity : {0, 1, 3}) {
      for (int buffered = 0; buffered <= capacity; ++buffered) {
        const C c(capacity, "pipe");
        for (int i = 0; i < buffered; ++i) c.send(std::to_string(i));
        c.close();
        std::string value = text;
        for (const auto& send : sends) {
          try {
            send(c, value);
            ADD_FAILURE() << "sent on a closed channel";
          } catch (const ChannelClosed& error) {
            EXPECT_NE(std::string(error.what()).find("pipe"), std::string::npos) << error.what();
          }
          EXPECT_EQ(value, text);
        }
        EXPECT_EQ(c.try_send(std::move(value)), ChannelStatus::closed);
        EXPECT_EQ(value, text);  // NOLINT(bugprone-use-after-move): that is the promise
        for (const TimePoint deadline : {now(), now() + 1h, TimePoint::max()}) {
          EXPECT_EQ(c.send_until(std::move(value), deadline), ChannelStatus::closed);
          EXPECT_EQ(value, text);  // NOLINT(bugprone-use-after-move)
        }
        EXPECT_THROW(c.close(), ChannelClosed);
        EXPECT_THROW(Sender<std::string>(c).close(), ChannelClosed);
        EXPECT_FALSE(c.try_close());
        for (int i = 0; i < buffered; ++i) EXPECT_EQ(c.recv(), std::to_string(i));
        EXPECT_EQ(c.recv(), std::nullopt);
      }
    }
    EXPECT_EQ(support::elapsed(), 0ns);
  });
}

// Among ready cases a closed channel's is one like the others.
TEST(GoClosedChan, ASelectGetsTheValueOfTheOneAndTheEndOfTheOther) {
  run_each([] {
    const Channel<int> closed(0);
    closed.close();
    const Channel<int> ready(1);
    std::array<int, 2> chosen{};
    for (int i = 0; i < 1000; ++i) {
      static_cast<void>(ready.try_send(int{i}));
      select(on_recv(closed,
                     [&](std::optional<int> v) {
                       EXPECT_EQ(v, std::nullopt);
                       ++chosen[0];
                     }),
             on_recv(ready, [&](std::optional<int> v) {
               EXPECT_TRUE(v.has_value());
               ++chosen[1];
             }));
    }
    EXPECT_GT(chosen[0], 300);
    EXPECT_GT(chosen[1], 300);
  });
}

TEST(GoChanCap, LenAndCapAreExactAtEveryStep) {
  run_each([] {
    EXPECT_EQ(Channel<int>().size(), 0U);
    EXPECT_EQ(Channel<int>().capacity(), 0U);
    for (const std::size_t capacity : {0U, 1U, 2U, 7U, 10U, 100U, 1000U}) {
      const Channel<int> c(static_cast<std::int64_t>(capacity));
      for (std::size_t lap = 0; lap < 3; ++lap) {
        for (std::size_t i = 0; i < capacity; ++i) {
          EXPECT_EQ(c.size(), i);
          c.send(1);
        }
        EXPECT_EQ(c.size(), capacity);
        EXPECT_EQ(c.capacity(), capacity);
        for (std::size_t i = capacity; i-- > lap;) {
          static_cast<void>(c.recv());
          EXPECT_EQ(c.size(), i);
        }
        while (c.size() > 0) static_cast<void>(c.recv());
      }
      c.close();
      EXPECT_EQ(c.capacity(), capacity);
      EXPECT_EQ(Sender<int>(c).capacity(), capacity);
    }
  });
}

// Who waits is not counted: neither a sender's value nor a receiver.
TEST(GoChanCap, LenDoesNotCountWhoWaits) {
  run_each([] {
    for (const int capacity : {0, 2}) {
      const Channel<int> c(capacity);
      TaskGroup group;
      group.go([&] { EXPECT_TRUE(c.recv().has_value()); });
      until_idle();
      EXPECT_EQ(c.size(), 0U);
      for (int i = 0; i < capacity + 4; ++i) group.go([c, i] { c.send(int{i}); });
      until_idle();
      EXPECT_EQ(c.size(), static_cast<std::size_t>(capacity));
      for (int i = 1; i < capacity + 4; ++i) EXPECT_TRUE(c.recv().has_value());
      group.wait();
      EXPECT_EQ(c.size(), 0U);
    }
  });
}

template <class T>
void refuses_impossible_capacities() {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  for (const std::int64_t capacity : {-kMax - 1, std::int64_t{-1}, kMax / kSize + 1, kMax}) {
    EXPECT_THROW(Channel<T>{capacity}, std::invalid_argument) << capacity;
  }
}

TEST(GoChanCap, ANegativeCapacityAndOneWhoseBytesOverflowAreRefused) {
  refuses_impossible_capacities<int>();
  refuses_impossible_capacities<std::array<char, 10>>();
  refuses_impossible_capacities<std::array<char, 128 << 10>>();
  try {
    const Channel<int> c(-3, "pipe");
    ADD_FAILURE() << "accepted a negative capacity";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("pipe"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("-3"), std::string::npos) << error.what();
  }
}

// chanlinear: many selects wait on one channel, and leave its queue from anywhere. A queue whose
// links break loses those who stand behind, or wakes who has left.
TEST(GoChanLinear, SelectsThatLeaveTheMiddleOfALongQueueKeepTheOthersInOrder) {
  run_each([] {
    const Channel<int> common(0);
    std::vector<Channel<int>> own;
    std::vector<int> got(kSelects, -1);
    TaskGroup group;
    for (std::size_t i = 0; i < kSelects; ++i) {
      own.emplace_back(0);
      group.go([&, i, mine = own.back()] {
        const auto keep = [&, i](std::optional<int> v) { got[i] = v.value(); };
        select(on_recv(common, keep), on_recv(mine, keep));
      });
      until_idle();  // it stands in the queue
    }
    for (std::size_t i = 0; i < kSelects; i += 3) own[i].send(-2);
    for (std::size_t i = kSelects; i-- > 0;) {
      if (i % 3 == 1) own[i].send(-3);
    }
    int sent = 0;
    while (common.try_send(int{sent}) == ChannelStatus::ok) ++sent;
    group.wait();
    int next = 0;
    for (std::size_t i = 0; i < kSelects; ++i) {
      ASSERT_EQ(got[i], i % 3 == 0 ? -2 : i % 3 == 1 ? -3 : next++) << i;
    }
    EXPECT_EQ(sent, next);
  });
}

// The same on a pair of channels that all of them share, left by cancellation and by timeouts.
TEST(GoChanLinear, SelectsThatGiveUpInTheMiddleLeaveBothQueuesRight) {
  run_each([] {
    const Channel<int> a(0);
    const Channel<int> b(0);
    std::vector<int> got(kPairSelects, -1);
    TaskGroup stays;
    TaskGroup leaves;
    std::atomic<std::size_t> cancelled = 0;
    std::atomic<std::size_t> timed_out = 0;
    for (std::size_t i = 0; i < kPairSelects; ++i) {
      const auto keep = [&got, i](std::optional<int> v) { got[i] = v.value(); };
      if (i % 3 == 0) {
        stays.go([=] { select(on_recv(a, keep), on_recv(b, keep)); });
      } else if (i % 3 == 1) {
        leaves.go([=, &cancelled] {
          try {
            select(on_recv(a, keep), on_recv(b, keep));
          } catch (const Cancelled&) {
            ++cancelled;
          }
        });
      } else {
        stays.go([=, &timed_out] {
          select(on_recv(a, keep), on_recv(b, keep), on_timeout(1h, [&] { ++timed_out; }));
        });
      }
      until_idle();  // it stands in both queues
    }
    EXPECT_EQ(a.stats().receivers, kPairSelects);
    EXPECT_EQ(b.stats().receivers, kPairSelects);
    leaves.stop();
    until_idle();
    EXPECT_EQ(cancelled, kThird);
    EXPECT_EQ(a.stats().receivers, 2 * kThird);
    EXPECT_EQ(b.stats().receivers, 2 * kThird);
    sleep_for(2h);
    EXPECT_EQ(timed_out, kThird);
    EXPECT_EQ(a.stats().receivers, kThird);
    EXPECT_EQ(b.stats().receivers, kThird);
    int sent = 0;
    while ((sent % 2 == 0 ? a : b).try_send(int{sent}) == ChannelStatus::ok) ++sent;
    stays.wait();
    EXPECT_EQ(sent, static_cast<int>(kThird));
    for (std::size_t i = 0; i < kPairSelects; ++i) {
      ASSERT_EQ(got[i], i % 3 == 0 ? static_cast<int>(i / 3) : -1) << i;
    }
    EXPECT_EQ(a.stats().receivers + b.stats().receivers, 0U);
  });
}

}  // namespace go_chan_closed_test
}  // namespace leat
