// Boost.Fiber's guests and those at the other end: fibers of a scheduler, threads, guests of
// another thread; and what they wait for that is no channel.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/fiber/algo/shared_work.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "leat/csp/boost_fiber.h"
#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait/guest.h"
#include "leat/csp/wait_group.h"
#include "tests/csp/boost_fiber/guests.h"
#include "tests/support/run.h"

namespace leat {
namespace peers_test {

using namespace std::chrono_literals;
using boost::fibers::fiber;
using support::Guests;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::receive_all;
using support::send_all;
using support::sum_below;

constexpr int kItems = 2000;
constexpr TimePoint kLongAgo{1ns};  // later than Deadline::now(): a wait that begins, and ends

TEST(BoostFiberPeers, ReceivesFromFibersOfAScheduler) {
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

TEST(BoostFiberPeers, SendsToFibersOfAScheduler) {
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

TEST(BoostFiberPeers, RacesFibersOfASchedulerThroughSelect) {
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

TEST(BoostFiberPeers, ExchangesValuesWithPlainThreads) {
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

TEST(BoostFiberPeers, ExchangesValuesWithThoseOfAnotherThread) {
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

TEST(BoostFiberPeers, MayBeMovedBetweenThreadsByItsAlgorithm) {
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
TEST(BoostFiberPeers, AThreadThatEndsWhenItIsWokenDoesNotTakeItsSchedulerFromTheWaker) {
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

TEST(BoostFiberPeers, WaitsForWhatIsNoChannel) {
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

TEST(BoostFiberPeers, JoinsAGroupOfASchedulersFibers) {
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
TEST(BoostFiberPeers, IsAPlainThreadToAReportOfADeadlock) {
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

TEST(BoostFiberPeers, IsRefusedOnALeatFiber) {
  run([] { EXPECT_THROW(const BoostFiberGuests guests, std::logic_error); });
  EXPECT_EQ(guest_wait(), nullptr);
}

TEST(BoostFiberPeers, GuestsNestAndLeaveTheThreadAsItWas) {
  {
    const BoostFiberGuests outer;
    { const BoostFiberGuests inner; }
    EXPECT_NE(guest_wait(), nullptr);
  }
  EXPECT_EQ(guest_wait(), nullptr);
}

TEST(BoostFiberPeers, ARunOnTheirThreadParksItsOwnFibersAsEver) {
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

}  // namespace peers_test
}  // namespace leat
