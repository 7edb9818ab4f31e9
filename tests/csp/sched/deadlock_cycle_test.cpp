// The cycle in a deadlock's report: which fiber waits for which.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/deadlock_report.h"
#include "tests/support/run.h"

namespace leat {
namespace deadlock_cycle_test {

using namespace std::chrono_literals;
using support::expect_in;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::report_of;

void expect_no_cycle(const std::string& report) {
  expect_in(report, "nothing can wake");
  EXPECT_EQ(report.find("cycle"), std::string::npos) << report;
}

TEST(DeadlockCycle, OfTwoMutexes) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    const std::string report = report_of(
        [] {
          Mutex first;
          Mutex second;
          TaskGroup group;
          const auto take = [](Mutex& one, Mutex& other) {
            const std::scoped_lock held(one);
            sleep_for(1ms);
            const std::scoped_lock wanted(other);
          };
          group.go([&] { take(first, second); }, {.name = "a"});
          group.go([&] { take(second, first); }, {.name = "b"});
          group.go(
              [&] {
                sleep_for(2ms);
                take(first, second);
              },
              {.name = "in no cycle"});
          group.wait();
        },
        options);
    const std::size_t cycle = report.find("\nin a cycle:");
    ASSERT_NE(cycle, std::string::npos) << report;
    const std::string told = report.substr(cycle);
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 3) << told;
    for (const std::string name : {"\"a\"", "\"b\""}) {
      expect_in(told, name + " waits for a mutex, which is held by fiber ");
    }
  });
}

TEST(DeadlockCycle, OfAJoinAndAMutex) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    const std::string report = report_of(
        [] {
          Mutex mutex;
          const std::scoped_lock held(mutex);
          TaskGroup outer;
          outer.go(
              [&] {
                TaskGroup inner;
                inner.go([] {}, {.name = "ends"});
                inner.go([&] { const std::scoped_lock wanted(mutex); }, {.name = "wants it"});
                inner.wait();
              },
              {.name = "joins"});
          outer.wait();
        },
        options);
    expect_in(report, "\nin a cycle:");
    for (const char* const part :
         {"\"main\" waits for fiber ", "\"joins\" to end", "\"joins\" waits for fiber ",
          "\"wants it\" to end", "\"wants it\" waits for a mutex, which is held by fiber "}) {
      expect_in(report.substr(report.find("\nin a cycle:")), part);
    }
  });
}

TEST(DeadlockCycle, OfAFiberThatFillsTheGroupItLaunchesInto) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    const std::string report = report_of(
        [] {
          TaskGroup group;
          group.set_limit(1);
          group.go([&] { group.go([] {}); }, {.name = "greedy"});
          group.wait();
        },
        options);
    expect_in(report, "\"greedy\" waits for room in its group, which is taken by fiber ");
  });
}

TEST(DeadlockCycle, IsNotNamedWhereThereIsNone) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    expect_no_cycle(report_of(
        [] {
          Mutex mutex;
          TaskGroup group;
          group.go([&] {
            const std::scoped_lock held(mutex);
            static_cast<void>(Channel<int>(0).recv());
          });
          for (int i = 0; i < 3; ++i) {
            group.go([&] {
              sleep_for(1ms);
              const std::scoped_lock wanted(mutex);
            });
          }
          group.wait();
        },
        options));
    // Held by a fiber that is no more.
    expect_no_cycle(report_of(
        [] {
          Mutex mutex;
          TaskGroup group;
          group.go([&] { mutex.lock(); });
          group.wait();
          mutex.lock();
        },
        options));
  });
}

TEST(Deadlock, OfAFiberThatWaitsForItsOwnGroupIsToldAtOnce) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          TaskGroup group;
          group.go([&] { group.wait(); });
          EXPECT_THROW(group.wait(), std::logic_error);
        },
        options);
  });
}

}  // namespace deadlock_cycle_test
}  // namespace leat
