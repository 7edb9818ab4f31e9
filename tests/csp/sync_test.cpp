// What Mutex, Semaphore, WaitGroup and Notification have in common: deadlock reports and
// cancellation.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
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

}  // namespace sync_test
}  // namespace leat
