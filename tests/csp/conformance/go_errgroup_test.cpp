// Go's golang.org/x/sync/errgroup, as TaskGroup has it: what task_group_test does not show yet.
// There is no TryGo.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <stop_token>
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

using Errors = std::vector<std::string>;
const std::vector<Errors>& tables() {
  static const std::vector<Errors> kTables = {{},        {""},      {"", ""},   {"1"},
                                              {"1", ""}, {"", "2"}, {"1", "2"}, {"", "2", "", "4"}};
  return kTables;
}
std::string first_of(const Errors& errors) {
  for (const std::string& error : errors) {
    if (!error.empty()) return error;
  }
  return "";
}

// TestZeroGroup: a group is waited for after each launch, and remembers the first error only.
TEST(GoErrGroup, EveryWaitRethrowsTheFirstErrorThereHasBeen) {
  run_each([] {
    for (const Errors& errors : tables()) {
      TaskGroup group;
      std::string first;
      for (const std::string& error : errors) {
        group.go([&] { end_with(error); });
        if (first.empty()) first = error;
        EXPECT_EQ(wait_for(group), first);
      }
      EXPECT_EQ(wait_for(group), first);
    }
  });
}

// TestWithContext: unlike in Go, the end of wait() stops nothing.
TEST(GoErrGroup, IsStoppedByTheFirstErrorAndOnlyByThat) {
  run_each([] {
    for (const Errors& errors : tables()) {
      TaskGroup group;
      const std::stop_token token = group.stop_token();
      for (std::size_t i = 0; i < errors.size(); ++i) {
        group.go([&, i] {
          try {
            sleep_for(static_cast<int>(i + 1) * 1ms);
          } catch (const Cancelled&) {  // too late for an error of its own to be the first
          }
          end_with(errors[i]);
        });
      }
      EXPECT_EQ(wait_for(group), first_of(errors));
      EXPECT_EQ(token.stop_requested(), !first_of(errors).empty());
    }
  });
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

// Who takes long to unwind, shielded, is waited for.
TEST(GoErrGroup, WaitReturnsAfterTheLastHasEndedNotAfterTheFirstError) {
  run_each([] {
    std::atomic<int> ended = 0;
    TaskGroup group;
    for (int i = 1; i <= 5; ++i) {
      group.go([&, i] {
        try {
          sleep_for(1h);
        } catch (const Cancelled&) {
          const Shield clean_up;
          sleep_for(i * 1s);
          ++ended;
          throw;
        }
      });
    }
    group.go([] { throw std::runtime_error("first"); });
    EXPECT_EQ(wait_for(group), "first");
    EXPECT_EQ(ended, 5);
    EXPECT_EQ(elapsed(), 5s);
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

/// Example Pipeline (MD5All): paths -> digests -> a map, in which any stage may fail.
std::string pipeline(int files, int broken_file, std::vector<int>& digests) {
  const Channel<int> paths(0);
  const Channel<int> results(0);
  TaskGroup group;
  group.go([=] {
    for (int i = 0; i < files; ++i) paths.send(int{i});
    paths.close();
  });
  group.go([=] {
    TaskGroup workers;
    for (int w = 0; w < 20; ++w) {
      workers.go([=] {
        for (const int path : paths) {
          if (path == broken_file) throw std::runtime_error("cannot read " + std::to_string(path));
          results.send(path * path);
        }
      });
    }
    workers.wait();
    results.close();
  });
  group.go([&] {
    for (const int digest : results) digests.push_back(digest);
  });
  return wait_for(group);
}

TEST(GoErrGroup, APipelineDeliversAllOrFailsAsAWhole) {
  run_each([] {
    constexpr int kFiles = 100;
    std::vector<int> digests;
    EXPECT_EQ(pipeline(kFiles, -1, digests), "");
    std::sort(digests.begin(), digests.end());
    ASSERT_EQ(digests.size(), std::size_t{kFiles});
    for (int i = 0; i < kFiles; ++i) EXPECT_EQ(digests[static_cast<std::size_t>(i)], i * i);
    for (const int broken : {0, 50, kFiles - 1}) {
      digests.clear();
      EXPECT_EQ(pipeline(kFiles, broken, digests), "cannot read " + std::to_string(broken));
      EXPECT_LT(digests.size(), std::size_t{kFiles});
    }
  });
}

}  // namespace go_errgroup_test
}  // namespace leat
