// Channels, select and deadlines as Boost.Fiber's guests use them. Where a wait blocked the thread
// under them, most of these would hang.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/fiber/operations.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/boost_fiber.h"
#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/io.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/wait/park.h"
#include "tests/csp/boost_fiber/guests.h"
#include "tests/csp/io/ends.h"
#include "tests/support/values.h"

namespace leat {
namespace operations_test {

using namespace std::chrono_literals;
using support::Counted;
using support::Guests;
using support::send_all;
using support::sum_below;

constexpr int kItems = 2000;
constexpr TimePoint kLongAgo{1ns};  // later than Deadline::now(): a wait that begins, and ends

// The distributions' Boost.Fiber does not tell AddressSanitizer when it switches either. That only
// matters where an exception unwinds a guest's stack: the tool does not know where that stack is,
// and goes on to take what is unwound for frames in use.
#if defined(LEAT_ASAN)
constexpr bool kGuestsMayThrow = false;
#else
constexpr bool kGuestsMayThrow = true;
#endif
constexpr const char* kWhyNot = "AddressSanitizer does not follow exceptions on a Boost fiber";

TEST(BoostFiber, GuestsWaitForDescriptors) {
  const support::Ends ends = support::Ends::sockets();
  Guests guests;
  std::atomic<int> turns = 0;
  for (int i = 0; i < 2; ++i) {
    guests.go([&, i] {
      const auto end = static_cast<std::size_t>(i);
      for (int turn = 0; turn < 10; ++turn) {
        if (i == 0) support::put(ends[0], "ball");
        await_readable(ends[end]);
        EXPECT_EQ(support::take(ends[end]), "ball");
        if (i == 1) support::put(ends[1], "ball");
        ++turns;
      }
    });
  }
  guests.join();
  EXPECT_EQ(turns, 20);
}

TEST(BoostFiber, TheExampleOfTheReadme) {
  // [boost_fiber]
  const leat::BoostFiberGuests guests;  // on each thread whose Boost fibers use Leat
  const leat::Channel<int> numbers(0, "numbers");
  boost::fibers::fiber sender([&] {
    for (int i = 1; i <= 3; ++i) numbers.send(i);  // suspends this Boost fiber, not its thread
    numbers.close();
  });
  int sum = 0;
  for (const int number : numbers) sum += number;
  sender.join();
  // [/boost_fiber]
  EXPECT_EQ(sum, 6);
}

TEST(BoostFiber, TwoOnOneThreadMeetInARendezvous) {
  Guests guests;
  const Channel<int> there(0);
  const Channel<int> back(0);
  int last = 0;
  guests.go([&] {
    for (const int value : there) back.send(value + 1);
  });
  guests.go([&] {
    for (int i = 0; i < kItems; ++i) {
      there.send(i);
      last = back.recv().value();
      ASSERT_EQ(last, i + 1);
    }
    there.close();
  });
  guests.join();
  EXPECT_EQ(last, kItems);
}

TEST(BoostFiber, ReceivesInOrderWhatIsBuffered) {
  for (const int capacity : {1, 16}) {
    Guests guests;
    const Channel<int> c(capacity);
    int expected = 0;
    guests.go([&] {
      send_all(c, 0, kItems);
      c.close();
    });
    guests.go([&] {
      for (const int value : c) ASSERT_EQ(value, expected++);
    });
    guests.join();
    EXPECT_EQ(expected, kItems);
  }
}

TEST(BoostFiber, TheOthersOfTheThreadGoOnWhileOneWaits) {
  Guests guests;
  const Channel<int> c(0);
  int passed = 0;
  std::optional<int> received;
  guests.go([&] { received = c.recv(); });
  boost::this_fiber::yield();  // it waits
  for (int i = 0; i < 10; ++i) {
    guests.go([&] {
      for (int step = 0; step < 10; ++step) boost::this_fiber::yield();
      if (++passed == 10) c.send(passed);  // the last of them ends the wait
    });
  }
  guests.join();
  EXPECT_EQ(received, 10);
}

TEST(BoostFiber, ManyWaitAtOnceAndAreServedInTurn) {
  Guests guests;
  const Channel<int> c(0);
  std::vector<std::pair<int, int>> got;  // who, what
  for (int who = 0; who < 200; ++who) {
    guests.go([&, who] { got.emplace_back(who, c.recv().value()); });
  }
  boost::this_fiber::yield();
  send_all(c, 0, 200);
  guests.join();
  ASSERT_EQ(got.size(), 200U);
  for (const auto& [who, what] : got) EXPECT_EQ(who, what);
}

TEST(BoostFiber, CloseWakesReceiversAndSendersWhoKeepTheirValues) {
  if (!kGuestsMayThrow) GTEST_SKIP() << kWhyNot;
  Guests guests;
  const Channel<Counted> empty(0);
  const Channel<Counted> full(0);
  int receivers = 0;
  int senders = 0;
  for (int i = 0; i < 5; ++i) {
    guests.go([&] { receivers += empty.recv().has_value() ? 0 : 1; });
    guests.go([&, i] {
      Counted value(i);
      EXPECT_THROW(full.send(std::move(value)), ChannelClosed);
      senders += value.number() == i ? 1 : 0;  // NOLINT(bugprone-use-after-move): it is kept
    });
  }
  boost::this_fiber::yield();
  EXPECT_EQ(empty.stats().receivers, 5U);
  EXPECT_EQ(full.stats().senders, 5U);
  empty.close();
  full.close();
  guests.join();
  EXPECT_EQ(receivers, 5);
  EXPECT_EQ(senders, 5);
}

TEST(BoostFiber, TheCauseOfACloseReachesAGuest) {
  if (!kGuestsMayThrow) GTEST_SKIP() << kWhyNot;
  Guests guests;
  const Channel<int> c(0);
  guests.go([&] { EXPECT_THROW(static_cast<void>(c.recv()), std::domain_error); });
  boost::this_fiber::yield();
  c.close(std::make_exception_ptr(std::domain_error("worn out")));
  guests.join();
}

TEST(BoostFiber, SelectTakesWhatComesFirstAndLeavesNoTrace) {
  Guests guests;
  const Channel<int> a(0);
  const Channel<int> b(0);
  const Channel<int> results(0);
  long sum = 0;
  int sent = 0;
  guests.go([&] {
    for (int i = 0; i < 2 * kItems; ++i) {
      select(on_recv(a, [&](std::optional<int> value) { sum += value.value(); }),
             on_recv(b, [&](std::optional<int> value) { sum += value.value(); }),
             on_send(results, i, [&] { ++sent; }));
    }
  });
  guests.go([&] { send_all(a, 0, kItems / 2); });
  guests.go([&] { send_all(b, 0, kItems / 2); });
  guests.go([&] {
    for (int i = 0; i < kItems; ++i) static_cast<void>(results.recv());
  });
  guests.join();
  EXPECT_EQ(sum, 2 * sum_below(kItems / 2));
  EXPECT_EQ(sent, kItems);
  EXPECT_EQ(a.stats().receivers + b.stats().receivers + results.stats().senders, 0U);
}

TEST(BoostFiber, ASelectorsListIsWaitedOn) {
  Guests guests;
  std::vector<Channel<int>> channels;
  for (int i = 0; i < 10; ++i) channels.emplace_back(0);
  long sum = 0;
  guests.go([&] {
    Selector selector;
    for (const Channel<int>& c : channels) {
      selector.add(on_recv(c, [&](std::optional<int> value) { sum += value.value(); }));
    }
    for (int i = 0; i < 100; ++i) selector.select();
  });
  guests.go([&] {
    for (int i = 0; i < 100; ++i) channels[static_cast<std::size_t>(i % 10)].send(i);
  });
  guests.join();
  EXPECT_EQ(sum, sum_below(100));
}

TEST(BoostFiber, TimedOperationsGiveUpAtTheirDeadline) {
  Guests guests;
  const Channel<Counted> c(0);
  guests.go([&] {
    Counted value(7);
    EXPECT_EQ(c.send_until(std::move(value), kLongAgo), ChannelStatus::timed_out);
    EXPECT_EQ(value.number(), 7);  // NOLINT(bugprone-use-after-move): it was not sent
    std::optional<Counted> received;
    EXPECT_EQ(c.recv_until(received, from_now(1us)), ChannelStatus::timed_out);
    int timeouts = 0;
    EXPECT_EQ(select(on_recv(c), on_timeout(1us, [&] { ++timeouts; })), 1);
    EXPECT_EQ(timeouts, 1);
  });
  guests.join();
  const ChannelStats stats = c.stats();
  EXPECT_EQ(stats.senders + stats.receivers, 0U);
}

TEST(BoostFiber, ATimedOperationIsEndedByAPeerBeforeItsDeadline) {
  Guests guests;
  const Channel<int> c(0);
  guests.go([&] {
    std::optional<int> received;
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(c.recv_until(received, from_now(24h)), ChannelStatus::ok);
      EXPECT_EQ(received, i);
    }
    EXPECT_EQ(select(on_recv(c), on_timeout(24h)), 0);
  });
  guests.go([&] { send_all(c, 0, 101); });
  guests.join();
}

// Whoever has decided the operation writes its result before it calls ready().
TEST(BoostFiber, AWaitThatAPeerDecidedBeforeTheDeadlineEndsWhenThePeerIsDone) {
  Guests guests;
  Waiter* waiting = nullptr;
  bool done = false;
  guests.go([&] {
    const auto decided_at_once = [&](Waiter& waiter) {
      EXPECT_TRUE(waiter.claim(5));
      waiting = &waiter;
      return HeldLocks{};
    };
    EXPECT_EQ(park_current({}, Deadline(kLongAgo), decided_at_once, [](int) {}), 5);
    EXPECT_TRUE(done);
  });
  guests.go([&] {
    for (int i = 0; i < 10; ++i) boost::this_fiber::yield();
    done = true;
    waiting->ready();
  });
  guests.join();
}

TEST(BoostFiber, AFiberWhoseTimedWaitWasEndedCanStillSleep) {
  Guests guests;
  const Channel<int> c(0);
  bool slept = false;
  guests.go([&] {
    std::optional<int> received;
    EXPECT_EQ(c.recv_until(received, from_now(24h)), ChannelStatus::ok);
    boost::this_fiber::sleep_until(kLongAgo);
    slept = true;
  });
  boost::this_fiber::yield();
  c.send(1);
  guests.join();
  EXPECT_TRUE(slept);
}

TEST(BoostFiber, DeadlinesAndPeersThatComeAtOnceAgreeOnOneOutcome) {
  const Channel<int> c(0);
  std::atomic<int> received = 0;
  std::thread receiver([&] {
    Guests guests;
    for (int r = 0; r < 4; ++r) {
      guests.go([&] {
        std::optional<int> value;
        for (;;) {
          const ChannelStatus status = c.recv_until(value, from_now(2us));
          if (status == ChannelStatus::closed) return;
          received += status == ChannelStatus::ok ? 1 : 0;
        }
      });
    }
  });
  int sent = 0;
  for (int i = 0; i < kItems; ++i) {
    sent += c.send_until(int(i), from_now(2us)) == ChannelStatus::ok ? 1 : 0;
  }
  c.close();
  receiver.join();
  EXPECT_EQ(received, sent);
}

}  // namespace operations_test
}  // namespace leat
