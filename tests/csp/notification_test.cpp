// Notification: among fibers, and with plain threads.
#include "leat/csp/notification.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace notification_test {

using namespace std::chrono_literals;
using support::on_each_worker_count;
using support::run_each;
using support::until_idle;

TEST(Notification, WakesEverybodyOnceAndForAll) {
  run_each([] {
    Notification happened;
    std::atomic<int> woken = 0;
    TaskGroup group;
    for (int i = 0; i < 10; ++i) {
      group.go([&] {
        happened.wait();
        ++woken;
      });
    }
    until_idle();
    EXPECT_EQ(woken, 0);
    EXPECT_FALSE(happened.has_been_notified());
    EXPECT_FALSE(happened.wait_until(from_now(1ms)));
    happened.notify();
    EXPECT_TRUE(happened.has_been_notified());
    happened.notify();
    group.wait();
    EXPECT_EQ(woken, 10);
    happened.wait();
    EXPECT_TRUE(happened.has_been_notified());
  });
}

TEST(Notification, FromAPlainThreadPublishesWhatItWrote) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (int i = 0; i < 50; ++i) {
      Notification happened;
      int value = 0;
      std::jthread thread;
      run(
          [&] {
            const OutsideWork the_thread;
            thread = std::jthread([&] {
              value = 1;
              happened.notify();
            });
            happened.wait();
            EXPECT_EQ(value, 1);
          },
          options);
    }
  });
}

}  // namespace notification_test
}  // namespace leat
