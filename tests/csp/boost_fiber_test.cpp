// Boost.Fiber's fibers as guests. Where a wait blocked the thread under them, most of these would
// hang.
#include "leat/csp/boost_fiber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/fiber/algo/shared_work.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/guest.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/park.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait_group.h"
#include "leat/tests/support/run.h"
#include "leat/tests/support/values.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using boost::fibers::fiber;
using support::Counted;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;

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

/// Sum of 0 .. count - 1.
constexpr long sum_below(long count) { return count * (count - 1) / 2; }

/// Boost fibers of the thread that makes it; all are joined at the end.
class Guests {
 public:
  template <class F>
  void go(F body) {
    fibers_.emplace_back(std::move(body));
  }
  void join() {
    for (fiber& one : std::exchange(fibers_, {})) one.join();
  }
  Guests() = default;
  Guests(const Guests&) = delete;
  Guests& operator=(const Guests&) = delete;
  ~Guests() { join(); }

 private:
  const BoostFiberGuests known_;
  std::vector<fiber> fibers_;
};

void send_all(const Sender<int>& out, int from, int to) {
  for (int i = from; i < to; ++i) out.send(i);
}

long receive_all(const Receiver<int>& in) {
  long sum = 0;
  for (const int value : in) sum += value;
  return sum;
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

TEST(BoostFiber, TheMainContextWaitsAsTheOthersDo) {
  Guests guests;
  const Channel<int> c(0);
  guests.go([&] {
    send_all(c, 0, 100);
    c.close();
  });
  EXPECT_EQ(receive_all(c), sum_below(100));
  guests.join();
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
    EXPECT_EQ(c.recv_until(received, now() + 1us), ChannelStatus::timed_out);
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
      EXPECT_EQ(c.recv_until(received, now() + 24h), ChannelStatus::ok);
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
    EXPECT_EQ(c.recv_until(received, now() + 24h), ChannelStatus::ok);
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
          const ChannelStatus status = c.recv_until(value, now() + 2us);
          if (status == ChannelStatus::closed) return;
          received += status == ChannelStatus::ok ? 1 : 0;
        }
      });
    }
  });
  int sent = 0;
  for (int i = 0; i < kItems; ++i) {
    sent += c.send_until(int(i), now() + 2us) == ChannelStatus::ok ? 1 : 0;
  }
  c.close();
  receiver.join();
  EXPECT_EQ(received, sent);
}

TEST(BoostFiber, ReceivesFromFibersOfAScheduler) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (const int capacity : {0, 4}) {
      Guests guests;
      Scheduler scheduler(options);
      const Channel<int> c(capacity);
      long sum = 0;
      for (int r = 0; r < 3; ++r) guests.go([&] { sum += receive_all(c); });
      for (int s = 0; s < 3; ++s) {
        scheduler.go([=] { send_all(c, s * kItems, (s + 1) * kItems); });
      }
      scheduler.join();  // the guests run meanwhile
      c.close();
      guests.join();
      EXPECT_EQ(sum, sum_below(3 * kItems));
    }
  });
}

TEST(BoostFiber, SendsToFibersOfAScheduler) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (const int capacity : {0, 4}) {
      Guests guests;
      Scheduler scheduler(options);
      const Channel<int> c(capacity);
      std::atomic<long> sum = 0;
      for (int r = 0; r < 3; ++r) {
        scheduler.go([&sum, c] { sum += receive_all(c); });
      }
      for (int s = 0; s < 3; ++s) {
        guests.go([=] { send_all(c, s * kItems, (s + 1) * kItems); });
      }
      guests.join();
      c.close();
      scheduler.join();
      EXPECT_EQ(sum, sum_below(3 * kItems));
    }
  });
}

TEST(BoostFiber, RacesFibersOfASchedulerThroughSelect) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Guests guests;
    Scheduler scheduler(options);
    const Channel<int> a(0);
    const Channel<int> b(1);
    const auto choose = [a, b](int count) {
      long received = 0;
      for (int i = 0; i < count; ++i) {
        select(on_recv(a, [&](std::optional<int> value) { received += value.value(); }),
               on_recv(b, [&](std::optional<int> value) { received += value.value(); }));
      }
      return received;
    };
    long by_guests = 0;
    std::atomic<long> by_fibers = 0;
    for (int i = 0; i < 2; ++i) {
      guests.go([&] { by_guests += choose(kItems / 2); });
      scheduler.go([&] { by_fibers += choose(kItems / 2); });
      guests.go([=] { send_all(a, 0, kItems / 2); });
      scheduler.go([=] { send_all(b, 0, kItems / 2); });
    }
    scheduler.join();
    guests.join();
    EXPECT_EQ(by_guests + by_fibers, 4 * sum_below(kItems / 2));
  });
}

TEST(BoostFiber, ExchangesValuesWithPlainThreads) {
  for (const int capacity : {0, 4}) {
    Guests guests;
    const Channel<int> there(capacity);
    const Channel<int> back(capacity);
    std::thread thread([=] {
      for (const int value : there) back.send(value);
      back.close();
    });
    long sum = 0;
    guests.go([&] {
      send_all(there, 0, kItems);
      there.close();
    });
    guests.go([&] { sum = receive_all(back); });
    guests.join();
    thread.join();
    EXPECT_EQ(sum, sum_below(kItems));
  }
}

TEST(BoostFiber, ExchangesValuesWithThoseOfAnotherThread) {
  for (const int capacity : {0, 4}) {
    const Channel<int> there(capacity);
    const Channel<int> back(capacity);
    std::thread thread([=] {
      Guests guests;
      for (int i = 0; i < 3; ++i) {
        guests.go([=] {
          for (const int value : there) back.send(value);
        });
      }
      guests.join();
      back.close();
    });
    Guests guests;
    WaitGroup sending;
    sending.add(3);
    for (int s = 0; s < 3; ++s) {
      guests.go([&, s] {
        send_all(there, s * kItems, (s + 1) * kItems);
        sending.done();
      });
    }
    guests.go([&] {
      sending.wait();
      there.close();
    });
    EXPECT_EQ(receive_all(back), sum_below(3 * kItems));
    guests.join();
    thread.join();
  }
}

TEST(BoostFiber, MayBeMovedBetweenThreadsByItsAlgorithm) {
  const Channel<int> c(0);
  const Channel<int> ended(0);
  std::atomic<long> sum = 0;
  constexpr int kEach = 500;
  std::atomic<int> left = 16;
  const auto share = [&](auto&& start) {
    boost::fibers::use_scheduling_algorithm<boost::fibers::algo::shared_work>();
    const BoostFiberGuests guests;
    start();
    static_cast<void>(ended.recv());
  };
  std::thread helper([&] { share([] {}); });
  std::thread owner([&] {
    share([&] {
      for (int i = 0; i < 8; ++i) {
        fiber([&] {
          send_all(c, 0, kEach);
          if (--left == 0) ended.close();
        }).detach();
        fiber([&] {
          for (int k = 0; k < kEach; ++k) sum += c.recv().value();
          if (--left == 0) ended.close();
        }).detach();
      }
    });
  });
  owner.join();
  helper.join();
  EXPECT_EQ(sum, 8 * sum_below(kEach));
}

// Whoever wakes the last fiber of a thread may still be at it when the thread could end.
TEST(BoostFiber, AThreadThatEndsWhenItIsWokenDoesNotTakeItsSchedulerFromTheWaker) {
  Scheduler scheduler({.workers = 1});
  for (int i = 0; i < 300; ++i) {
    const Channel<int> c(0);
    std::thread thread([c] {
      const BoostFiberGuests guests;
      EXPECT_EQ(c.recv(), 1);
    });
    scheduler.go([c] { c.send(1); });
    thread.join();
  }
  scheduler.join();
}

TEST(BoostFiber, WaitsForWhatIsNoChannel) {
  Guests guests;
  Mutex mutex;
  Semaphore credit(0);
  Notification begun;
  WaitGroup done;
  done.add(10);
  int inside = 0;
  for (int i = 0; i < 10; ++i) {
    guests.go([&] {
      begun.wait();
      credit.acquire();
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(++inside, 1);
      boost::this_fiber::yield();
      sleep_for(1ns);
      --inside;
      done.done();
    });
  }
  boost::this_fiber::yield();
  begun.notify();
  boost::this_fiber::yield();
  EXPECT_FALSE(done.wait_until(kLongAgo));
  credit.release(10);
  done.wait();
  guests.join();
}

TEST(BoostFiber, JoinsAGroupOfASchedulersFibers) {
  Guests guests;
  Scheduler scheduler({.workers = 1});
  const Channel<int> c(0);
  guests.go([&] {
    TaskGroup group(scheduler);
    group.go([&] { EXPECT_EQ(c.recv(), 1); });
    group.wait();  // the other guest runs meanwhile
  });
  guests.go([&] { c.send(1); });
  guests.join();
}

// It acts when virtual time has reached 1 ms: every fiber was parked then, and after the sleeper
// has ended all are parked for good.
TEST(BoostFiber, IsAPlainThreadToAReportOfADeadlock) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    const TimePoint parked = clock.now() + 1ms;
    const Channel<int> c(0);
    std::promise<void> touched;
    std::thread thread([&] {
      Guests guests;
      guests.go([&] {
        EXPECT_EQ(select(on_recv(c), on_timeout(1us)), 1);
        touched.set_value();
        while (clock.now() < parked) boost::this_fiber::yield();
        c.send(2);
      });
      guests.join();
    });
    touched.get_future().wait();
    EXPECT_EQ(run(
                  [&] {
                    go([] { sleep_for(1ms); });
                    return c.recv();
                  },
                  options),
              2);
    thread.join();
  });
}

TEST(BoostFiber, IsRefusedOnALeatFiber) {
  run([] { EXPECT_THROW(const BoostFiberGuests guests, std::logic_error); });
  EXPECT_EQ(guest_wait(), nullptr);
}

TEST(BoostFiber, GuestsNestAndLeaveTheThreadAsItWas) {
  {
    const BoostFiberGuests outer;
    { const BoostFiberGuests inner; }
    EXPECT_NE(guest_wait(), nullptr);
  }
  EXPECT_EQ(guest_wait(), nullptr);
}

TEST(BoostFiber, ARunOnTheirThreadParksItsOwnFibersAsEver) {
  Guests guests;
  const Channel<int> c(0);
  guests.go([&] {
    EXPECT_EQ(run([] {
                const Channel<int> inner(0);
                go([=] { inner.send(3); });
                return inner.recv();
              }),
              3);
    c.send(4);
  });
  EXPECT_EQ(c.recv(), 4);
  guests.join();
}

}  // namespace
}  // namespace leat
