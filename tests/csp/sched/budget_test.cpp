// A fiber whose operations never have to wait gives way once in some hundred of them: to other
// fibers, timers, and cancellation.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "leat/csp/wait_group.h"
#include "tests/support/run.h"

namespace leat {
namespace budget_test {

using namespace std::chrono_literals;
using Operation = std::pair<std::string, std::function<void()>>;

/// Operations that never wait, each on objects of its own.
std::vector<Operation> operations() {
  const Channel<int> c(1);
  const Channel<int> both(1);
  const Channel<int> either(1);
  const Channel<int> tried(1);
  const Channel<int> silent(0);
  const Channel<int> closed(0);
  closed.close();
  auto selector = std::make_shared<Selector>();
  selector->add(on_recv(closed));
  auto mutex = std::make_shared<Mutex>();
  auto semaphore = std::make_shared<Semaphore>(1);
  auto done = std::make_shared<Notification>();
  done->notify();
  auto none = std::make_shared<WaitGroup>();
  return {
      {"send, recv",
       [=] {
         c.send(1);
         static_cast<void>(c.recv());
       }},
      {"select", [=] { select(on_send(both, 1), on_recv(both), on_recv(silent)); }},
      {"select of one",
       [=] {
         select(on_send(either, 1));
         select(on_recv(either));
       }},
      {"recv of a closed channel", [=] { static_cast<void>(closed.recv()); }},
      {"select of a closed channel", [=] { select(on_recv(closed), on_recv(silent)); }},
      {"Selector", [=] { selector->select(); }},
      {"Mutex", [=] { const std::scoped_lock lock(*mutex); }},
      {"Semaphore",
       [=] {
         semaphore->acquire();
         semaphore->release();
       }},
      {"Notification", [=] { done->wait(); }},
      {"WaitGroup", [=] { none->wait(); }},
      {"a group without fibers", [] { TaskGroup().wait(); }},
      {"a sleep that is over", [] { sleep_until(now()); }},
      {"send after a try",
       [=] {
         static_cast<void>(tried.try_send(1));
         static_cast<void>(tried.recv());
         tried.send(1);
         static_cast<void>(tried.recv());
       }},
  };
}

constexpr int kMany = 10'000;

TEST(Budget, AFiberThatNeverWaitsGivesWayToOthers) {
  for (const auto& [name, operation] : operations()) {
    VirtualClock clock;
    run(
        [&, &operation = operation] {
          std::atomic<bool> other_ran = false;  // giving way orders nothing
          int operations = 0;
          TaskGroup group;
          group.go([&] {
            while (!other_ran && operations < kMany) {
              operation();
              ++operations;
            }
          });
          group.go([&] { other_ran = true; });
          group.wait();
          EXPECT_LT(operations, kMany);
          EXPECT_GE(operations, 100);  // not too often
        },
        {.workers = 1, .clock = &clock});
    EXPECT_FALSE(testing::Test::HasFailure()) << name;
  }
}

TEST(Budget, AFiberThatNeverWaitsIsReachedByCancellation) {
  for (const auto& [name, operation] : operations()) {
    bool reached_the_end = false;
    VirtualClock clock;
    run(
        [&, &operation = operation] {
          TaskGroup group;
          group.go([&] {
            for (int i = 0; i < kMany; ++i) operation();
            reached_the_end = true;
          });
          group.stop();
          group.wait();
        },
        {.workers = 1, .clock = &clock});
    EXPECT_FALSE(reached_the_end) << name;
  }
}

// Go's playground program: a pair that feeds itself. A regression: the timer never fired.
TEST(Budget, TimersFireBesideFibersThatNeverWait) {
  constexpr int kVeryMany = support::rounds(20'000'000);
  for (const int workers : {1, 2}) {
    run(
        [] {
          const Channel<int> pair(1);
          std::atomic<bool> stop = false;
          std::atomic<int> stopped = 0;
          TaskGroup group;
          for (int fiber = 0; fiber < 2; ++fiber) {
            group.go([&] {
              for (int i = 0; i < kVeryMany && !stop; ++i) select(on_send(pair, 1), on_recv(pair));
              if (stop) ++stopped;
            });
          }
          sleep_for(1ms);
          stop = true;
          group.wait();
          EXPECT_EQ(stopped, 2);
        },
        {.workers = workers});
  }
}

TEST(Budget, ATryNeverGivesWay) {
  VirtualClock clock;
  run(
      [] {
        const Channel<int> c(1);
        std::atomic<bool> other_ran = false;
        TaskGroup group;
        group.go([&] {
          std::optional<int> value;
          for (int i = 0; i < kMany; ++i) {
            EXPECT_EQ(c.try_send(1), ChannelStatus::ok);
            EXPECT_EQ(c.try_recv(value), ChannelStatus::ok);
            EXPECT_EQ(select(on_send(c, 1), otherwise()), 0);
            EXPECT_EQ(select(on_recv(c), on_recv(Channel<int>()), otherwise()), 0);
          }
          EXPECT_FALSE(other_ran);
        });
        group.go([&] { other_ran = true; });
        group.wait();
      },
      {.workers = 1, .clock = &clock});
}

}  // namespace budget_test
}  // namespace leat
