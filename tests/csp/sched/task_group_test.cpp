#include "leat/csp/task_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>

#include "leat/csp/channel.h"
#include "tests/support/run.h"
#include "tests/support/texts.h"
#include "tests/support/values.h"

namespace leat {
namespace task_group_test {

using namespace std::chrono_literals;
using support::AtExit;
using support::elapsed;
using support::on_each_worker_count;
using support::run_each;
using support::until_idle;

TEST(TaskGroup, WaitReturnsWhenAllHaveEnded) {
  run_each([] {
    std::atomic<int> ended = 0;
    TaskGroup group;
    for (int i = 1; i <= 10; ++i) {
      group.go([&, i] {
        sleep_for(i * 1ms);
        ++ended;
      });
    }
    group.wait();
    EXPECT_EQ(ended, 10);
    EXPECT_EQ(elapsed(), 10ms);
  });
}

TEST(TaskGroup, WaitOfAnEmptyGroupReturnsAtOnceAndAGroupMayBeUsedAgain) {
  run_each([] {
    TaskGroup group;
    group.wait();
    int runs = 0;
    for (int i = 0; i < 3; ++i) {
      group.go([&] { ++runs; });
      group.wait();
    }
    EXPECT_EQ(runs, 3);
  });
}

TEST(TaskGroup, TheFirstErrorCancelsTheOthersAndWaitRethrowsIt) {
  run_each([] {
    std::atomic<int> unwound = 0;
    TaskGroup group;
    for (int i = 0; i < 10; ++i) {
      group.go([&] {
        const AtExit one(unwound);
        static_cast<void>(Channel<int>().recv());
      });
    }
    group.go([] {
      try {
        sleep_for(1h);
      } catch (const Cancelled&) {
        throw std::runtime_error("second");
      }
    });
    group.go([] {
      sleep_for(1ms);
      throw std::runtime_error("first");
    });
    for (int time = 0; time < 2; ++time) {  // it is kept
      EXPECT_EQ(support::text_of<std::runtime_error>([&] { group.wait(); }), "first");
    }
    EXPECT_EQ(unwound, 10);
    EXPECT_EQ(elapsed(), 1ms);
  });
}

TEST(TaskGroup, TheDestructorCancelsAndJoins) {
  run_each([] {
    std::atomic<int> unwound = 0;
    {
      TaskGroup group;
      for (int i = 0; i < 10; ++i) {
        group.go([&] {
          const AtExit one(unwound);
          sleep_for(1h);
        });
      }
      until_idle();
      EXPECT_EQ(unwound, 0);
    }
    EXPECT_EQ(unwound, 10);
    EXPECT_LT(elapsed(), 1h);
  });
}

TEST(TaskGroup, TheDestructorJoinsWhileAnExceptionUnwinds) {
  run_each([] {
    std::atomic<int> unwound = 0;
    try {
      TaskGroup group;
      group.go([&] {
        const AtExit one(unwound);
        sleep_for(1h);
      });
      until_idle();
      throw std::runtime_error("outer");
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "outer");
    }
    EXPECT_EQ(unwound, 1);
  });
}

TEST(TaskGroup, AFiberLaunchedIntoAStoppedGroupStartsCancelled) {
  run_each([] {
    bool started = false;
    bool cancelled = false;
    TaskGroup group;
    group.stop();
    group.go([&] {
      started = true;
      try {
        sleep_for(1h);
      } catch (const Cancelled&) {
        cancelled = true;
      }
    });
    group.wait();
    EXPECT_TRUE(started);
    EXPECT_TRUE(cancelled);
  });
}

TEST(TaskGroup, AnErrorInANestedGroupReachesTheOutermostWait) {
  run_each([] {
    TaskGroup outer;
    outer.go([] {
      TaskGroup middle;
      middle.go([] {
        TaskGroup inner;
        inner.go([] { throw std::runtime_error("deep"); });
        inner.wait();
      });
      middle.wait();
    });
    try {
      outer.wait();
      ADD_FAILURE() << "the error was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "deep");
    }
  });
}

TEST(TaskGroup, FibersMayLaunchIntoTheirOwnGroup) {
  run_each([] {
    std::atomic<int> count = 0;
    TaskGroup group;
    std::function<void(int)> spread = [&](int depth) {
      ++count;
      for (int i = 0; i < 2 && depth > 0; ++i) group.go([&, depth] { spread(depth - 1); });
    };
    group.go([&] { spread(6); });
    group.wait();
    EXPECT_EQ(count, 127);
  });
}

TEST(TaskGroup, RaisingTheLimitLetsWaitingLaunchersIn) {
  run_each([] {
    std::atomic<int> launched = 0;
    TaskGroup group;
    group.set_limit(1);
    TaskGroup launcher;
    launcher.go([&] {
      for (int i = 0; i < 3; ++i) {
        group.go([] { sleep_for(1h); });
        ++launched;
      }
    });
    until_idle();
    EXPECT_EQ(launched, 1);
    group.set_limit(2);
    until_idle();
    EXPECT_EQ(launched, 2);
    group.set_limit(10);
    until_idle();
    EXPECT_EQ(launched, 3);
    launcher.wait();
  });
}

TEST(TaskGroup, ALimitOfZeroIsRefused) {
  run_each([] {
    TaskGroup group;
    EXPECT_THROW(group.set_limit(0), std::invalid_argument);
  });
}

TEST(TaskGroup, ItsStopTokenFollowsStopAndFirstError) {
  run_each([] {
    TaskGroup stopped;
    EXPECT_FALSE(stopped.stop_token().stop_requested());
    bool called = false;
    const std::stop_callback callback(stopped.stop_token(), [&] { called = true; });
    stopped.stop();
    EXPECT_TRUE(stopped.stop_token().stop_requested());
    EXPECT_TRUE(called);

    TaskGroup failed;
    const std::stop_token token = failed.stop_token();
    failed.go([] { throw std::runtime_error("x"); });
    EXPECT_THROW(failed.wait(), std::runtime_error);
    EXPECT_TRUE(token.stop_requested());

    TaskGroup polling;  // for code that never waits
    polling.go([&, poll = polling.stop_token()] {
      while (!poll.stop_requested()) yield();
    });
    yield();
    polling.stop();
    polling.wait();
  });
}

TEST(TaskGroup, DestroysClosuresBeforeWaitReturns) {
  run_each([] {
    for (int i = 0; i < 50; ++i) {
      const auto shared = std::make_shared<int>(1);
      TaskGroup group;
      group.go([shared] { yield(); });
      group.go([shared] { sleep_for(1ms); });
      group.wait();
      EXPECT_EQ(shared.use_count(), 1);
    }
  });
}

TEST(TaskGroup, OnAPlainThreadNeedsAScheduler) { EXPECT_THROW(TaskGroup(), std::logic_error); }

TEST(TaskGroup, OnAPlainThreadWaitsStopsAndLimits) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    std::atomic<int> count = 0;
    TaskGroup group(scheduler);
    group.set_limit(3);
    for (int i = 0; i < 100; ++i) {
      group.go([&] {
        yield();
        ++count;
      });
    }
    group.wait();
    EXPECT_EQ(count, 100);
    group.go([] { throw std::runtime_error("x"); });
    EXPECT_THROW(group.wait(), std::runtime_error);
    {
      TaskGroup endless(scheduler);
      endless.go([] { static_cast<void>(Channel<int>().recv()); });
    }
    EXPECT_NO_THROW(scheduler.join());
  });
}

TEST(TaskGroup, MayOutliveItsScheduler) {
  on_each_worker_count([](const SchedulerOptions& options) {
    std::atomic<int> unwound = 0;
    auto scheduler = std::make_unique<Scheduler>(options);
    TaskGroup group(*scheduler);
    group.go([&] {
      const AtExit one(unwound);
      static_cast<void>(Channel<int>().recv());
    });
    scheduler.reset();
    EXPECT_EQ(unwound, 1);
    EXPECT_THROW(group.go([] {}), std::logic_error);
    group.wait();
  });
}

// A regression: run saw all of its own fibers parked and reported a deadlock.
TEST(TaskGroup, OfAnotherSchedulerMayBeWaitedForByAFiber) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [&] {
          Scheduler other(options);
          TaskGroup group(other);
          int slept = 0;
          group.go([&] {
            sleep_for(2ms);
            slept = 1;
          });
          group.wait();
          EXPECT_EQ(slept, 1);
          other.go([&] {
            sleep_for(2ms);
            slept = 2;
          });
          other.join();
          EXPECT_EQ(slept, 2);
        },
        options);
  });
}

}  // namespace task_group_test
}  // namespace leat
