// Go's golang.org/x/sync/errgroup, as TaskGroup has it: what task_group_test does not show yet.
// There is no TryGo.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/task_group.h"
#include "tests/support/log.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace go_errgroup_test {

using namespace std::chrono_literals;
using support::AtExit;
using support::elapsed;
using support::on_each_worker_count;
using support::rounds;
using support::run_each;
using support::until_idle;

/// The message of what wait() throws; empty if nothing.
std::string wait_for(TaskGroup& group) {
  try {
    group.wait();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

/// Empty: ends well.
void end_with(const std::string& error) {
  if (!error.empty()) throw std::runtime_error(error);
}

// TestGoLimit
TEST(GoErrGroup, ItsLimitIsReachedAndNeverExceeded) {
  run_each([] {
    for (const int limit : {1, 2, 7}) {
      std::atomic<int> inside = 0;
      std::atomic<int> most = 0;
      const TimePoint start = now();
      TaskGroup group;
      group.set_limit(static_cast<std::size_t>(limit));
      for (int i = 0; i < 7 * 4; ++i) {
        group.go([&] {
          const int count = ++inside;
          int seen = most.load();
          while (seen < count && !most.compare_exchange_weak(seen, count)) {
          }
          sleep_for(1ms);
          --inside;
        });
      }
      group.wait();
      EXPECT_EQ(most, limit);
      EXPECT_EQ(now() - start, 28 / limit * 1ms);
    }
  });
}

TEST(GoErrGroup, LaunchersThatWaitAtTheLimitAreLetInFirstComeFirstServed) {
  run_each([] {
    TaskGroup group;
    group.set_limit(1);
    group.go([] { sleep_for(1s); });
    support::Log<int> launched;
    TaskGroup launchers;
    for (int i = 0; i < 10; ++i) {
      launchers.go([&, i] {
        group.go([&, i] {
          launched.add(i);
          sleep_for(1ms);
        });
      });
      until_idle();
    }
    EXPECT_TRUE(launched.entries().empty());
    launchers.wait();
    group.wait();
    EXPECT_EQ(launched.entries(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(elapsed(), 1s + 10ms);
  });
}

// A place at the limit that is given to a launcher who has gone would be lost for the others.
TEST(GoErrGroup, ACancelledLauncherLaunchesNothingAndTakesNoPlace) {
  run_each([] {
    TaskGroup group;
    group.set_limit(1);
    group.go([] { sleep_for(1s); });
    std::atomic<int> started = 0;
    TaskGroup cancelled;
    cancelled.go([&] { group.go([&] { started += 100; }); });
    until_idle();
    TaskGroup patient;
    patient.go([&] { group.go([&] { ++started; }); });
    until_idle();
    cancelled.stop();
    cancelled.wait();
    patient.wait();
    group.wait();
    EXPECT_EQ(started, 1);
    EXPECT_EQ(elapsed(), 1s);
  });
}

TEST(GoErrGroup, ALoweredLimitHoldsForThoseWhoComeLater) {
  run_each([] {
    TaskGroup group;
    group.set_limit(4);
    for (int i = 1; i <= 4; ++i) group.go([i] { sleep_for(i * 1s); });
    group.set_limit(2);
    group.go([] { EXPECT_GE(elapsed(), 3s); });  // two of the four have to end, and one more
    EXPECT_EQ(elapsed(), 3s);
    group.wait();
    EXPECT_EQ(elapsed(), 4s);
  });
}

TEST(GoErrGroup, AnErrorMakesRoomForALauncherThatWaits) {
  run_each([] {
    std::atomic<int> cancelled = 0;
    TaskGroup group;
    group.set_limit(2);
    group.go([&] {
      const AtExit one(cancelled);
      sleep_for(1h);
    });
    group.go([] {
      sleep_for(1ms);
      throw std::runtime_error("first");
    });
    bool reached = false;
    group.go([&] {  // waits for the error; starts cancelled, as the group is stopped
      const AtExit one(cancelled);
      sleep_for(1h);
      reached = true;
    });
    EXPECT_EQ(wait_for(group), "first");
    EXPECT_EQ(cancelled, 2);
    EXPECT_FALSE(reached);
    EXPECT_EQ(elapsed(), 1ms);
  });
}

// All fail at one instant, on all workers.
TEST(GoErrGroup, OfErrorsAtTheSameInstantOneWinsForGood) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          for (int round = 0; round < rounds(200); ++round) {
            TaskGroup group;
            std::atomic<bool> go_on = false;
            for (int i = 0; i < 8; ++i) {
              group.go([&, i] {
                while (!go_on) yield();
                end_with(std::to_string(i));
              });
            }
            go_on = true;
            const std::string error = wait_for(group);
            EXPECT_EQ(error.size(), 1U);
            EXPECT_EQ(wait_for(group), error);
          }
        },
        options);
  });
}

// The errors are those thrown: their types, also such as are no std::exception, and their contents.
TEST(GoErrGroup, AnErrorKeepsItsType) {
  struct Custom {
    int code;
  };
  run_each([] {
    TaskGroup custom;
    custom.go([] { throw Custom{17}; });
    try {
      custom.wait();
      ADD_FAILURE() << "the error was lost";
    } catch (const Custom& error) {
      EXPECT_EQ(error.code, 17);
    }
    TaskGroup plain;
    plain.go([] { throw 3; });
    EXPECT_THROW(plain.wait(), int);
    TaskGroup closed;
    closed.go([] {
      const Channel<int> c(0);
      c.close();
      c.send(1);
    });
    EXPECT_THROW(closed.wait(), ChannelClosed);
  });
}

}  // namespace go_errgroup_test
}  // namespace leat
