// What Mutex, Semaphore, WaitGroup and Notification have in common: deadlock reports and
// cancellation.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/selector.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait_group.h"
#include "tests/support/deadlock_report.h"
#include "tests/support/run.h"

namespace leat {
namespace sync_test {

using namespace std::chrono_literals;
using support::on_each_worker_count;
using support::run_each;
using support::until_idle;

TEST(Sync, AWaitThatNobodyCanEndIsADeadlockThatNamesIt) {
  const auto expect_names = [&](const char* what, const std::function<void()>& body) {
    support::expect_in(support::report_of(body, {.deadlock_after = 0s}),
                       std::string("waits for ") + what);
  };
  expect_names("a mutex", [] {
    Mutex mutex;
    mutex.lock();
    mutex.lock();
  });
  expect_names("a semaphore", [] { Semaphore(2).acquire(3); });
  expect_names("a wait group", [] {
    WaitGroup group;
    group.add();
    group.wait();
  });
  expect_names("a notification", [] { Notification().wait(); });
}

TEST(Sync, AWaitThatAPlainThreadMayEndIsNoDeadlock) {
  on_each_worker_count([](const SchedulerOptions& given) {
    VirtualClock clock;
    SchedulerOptions options = given;
    options.clock = &clock;
    Mutex mutex;
    mutex.lock();  // this thread is a plain one
    const TimePoint parked = clock.now() + 1ms;
    std::jthread thread([&] {
      while (clock.now() < parked) std::this_thread::yield();
      mutex.unlock();
    });
    run(
        [&] {
          go([] { sleep_for(1ms); });
          mutex.lock();
        },
        options);
  });
}

TEST(Sync, WaitsEndByCancellation) {
  run_each([] {
    Mutex mutex;
    mutex.lock();
    Semaphore none(0);
    WaitGroup busy;
    busy.add();
    Notification never;
    std::atomic<int> unwound = 0;
    const std::vector<std::function<void()>> waits = {[&] { mutex.lock(); },
                                                      [&] { none.acquire(); }, [&] { busy.wait(); },
                                                      [&] { never.wait(); }};
    TaskGroup group;
    for (const auto& wait : waits) {
      group.go([&] {
        try {
          wait();
        } catch (const Cancelled&) {
          ++unwound;
          throw;
        }
      });
    }
    until_idle();
    group.stop();
    group.wait();
    EXPECT_EQ(unwound, 4);
  });
}

// As users write it, though it is undefined: now() + Duration::max().
__attribute__((no_sanitize("signed-integer-overflow"))) inline TimePoint overflowed() {
  return TimePoint(Duration(now().time_since_epoch().count() + Duration::max().count()));
}

// A regression: a wait as long as possible was over at once.
TEST(Deadlines, TheLongestWaitEndsByItsPeerAlone) {
  run_each([] {
    sleep_for(1ms);  // at time 0 nothing overflows
    EXPECT_EQ(from_now(Duration::max()), TimePoint::max());
    EXPECT_EQ(from_now(1ms), now() + 1ms);
    EXPECT_EQ(from_now(Duration::min()), now());
    for (const bool overflows : {false, true}) {
      const auto longest = [&] { return overflows ? overflowed() : from_now(Duration::max()); };
      Channel<int> c(0);
      Mutex mutex;
      Semaphore none(0);
      WaitGroup group;
      Notification told;
      group.add(1);
      mutex.lock();
      TaskGroup waiters;
      waiters.go([&] { EXPECT_EQ(c.send_until(1, longest()), ChannelStatus::ok); });
      waiters.go([&] { EXPECT_TRUE(mutex.try_lock_until(longest())); });
      waiters.go([&] { EXPECT_TRUE(none.acquire_until(1, longest())); });
      waiters.go([&] { EXPECT_TRUE(group.wait_until(longest())); });
      waiters.go([&] { EXPECT_TRUE(told.wait_until(longest())); });
      TaskGroup sleeper;
      sleeper.go([&] { sleep_until(longest()); });
      sleep_for(1ms);
      EXPECT_EQ(c.recv(), 1);
      mutex.unlock();
      none.release(1);
      group.done();
      told.notify();
      waiters.wait();
      waiters.go([&] {
        std::optional<int> value;
        EXPECT_EQ(c.recv_until(value, longest()), ChannelStatus::ok);
        Selector selector;
        selector.add(on_recv(c));
        EXPECT_EQ(selector.select_until(longest()), 0U);
      });
      c.send(1);
      c.send(1);
      waiters.wait();
      EXPECT_EQ(sleeper.fibers().size(), 1U);
      sleeper.stop();
      EXPECT_EQ(support::elapsed(), overflows ? 3ms : 2ms);
    }
  });
}

}  // namespace sync_test
}  // namespace leat
