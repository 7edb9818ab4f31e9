// after() and tick() under every schedule: that alarms ring, and end with their last handles.
#include <gtest/gtest.h>

#include <optional>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/explore.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/task_group.h"
#include "leat/csp/ticker.h"
#include "tests/csp/explore/holds.h"
#include "tests/csp/explore/scenarios.h"

namespace leat {
namespace explore_test {

using namespace scenarios;
using namespace std::chrono_literals;

void alarms() {
  const Receiver<TimePoint> late = after(2ms);
  const TimePoint start = now();
  Ticker every_ms = tick(1ms);
  require(*every_ms.ticks().recv() >= start + 1ms, "a tick, in time");
  every_ms.stop();
  const TimePoint rung = *late.recv();
  require(rung <= now(), "an alarm, not early");
}

TEST(ExploreEvery, AlarmsRing) {
  expect_holds(alarms, every(1));
  expect_holds(alarms, some(2));
}

// Each alarm owns a share of its scheduler.
auto shares() { return Fiber::current()->core().weak_from_this().use_count(); }

// The last handles go on another thread while a worker rings: of an alarm that a fiber waits for,
// and of one that nobody does.
template <bool kTheLast>
void dropped_alarms() {
  const OutsideWork threads;
  TaskGroup group;
  const auto before = shares();
  Receiver<TimePoint> awaited = after(1ms);
  Receiver<TimePoint> unwanted = after(1ms);
  const Receiver<TimePoint> kept = kTheLast ? Receiver<TimePoint>() : awaited;
  group.go([&] { require((kTheLast ? awaited : kept).recv().has_value(), "what is awaited"); });
  yield();  // it waits, if there is one worker
  SimulatedThread thread([&] {
    awaited = {};
    unwanted = {};
  });
  group.wait();
  thread.join();
  require(!kTheLast || shares() == before, "both alarms are gone");
}

// The last to wait is a thread, which gives up while a worker rings.
void an_alarm_that_is_given_up() {
  const OutsideWork threads;
  const auto before = shares();
  Receiver<TimePoint> awaited = after(1ms);
  SimulatedThread thread([&] {
    std::optional<TimePoint> time;
    static_cast<void>(awaited.recv_until(time, from_now(1ms)));
  });
  thread.wait_until_it_waits();
  awaited = {};
  sleep_for(2ms);
  thread.join();
  require(shares() == before, "the alarm is gone");
}

TEST(ExploreEvery, AlarmsEndWithTheirLastHandles) {
  expect_holds(dropped_alarms<true>, every(1));
  expect_holds(dropped_alarms<false>, some(2));
  expect_holds(an_alarm_that_is_given_up, every(1));
}

// A thread outside takes the last timer away from fibers that all wait.
void alarm_of_a_deadlock() {
  const TimePoint start = now();
  std::optional<SimulatedThread> thread;
  bool reported = false;
  try {
    run(
        [&] {
          thread.emplace([alarm = after(1h)]() mutable { alarm = {}; });
          static_cast<void>(Channel<int>(0).recv());
        },
        {.workers = 1, .deadlock_after = Duration::zero()});
  } catch (const Deadlock&) {
    reported = true;
  }
  require(reported, "a deadlock");
  require(now() - start < 1h, "before the alarm would have rung");
}

TEST(ExploreEvery, AnAlarmThatIsDroppedHidesNoDeadlock) {
  expect_holds(alarm_of_a_deadlock, every(0, 0));
}

}  // namespace explore_test
}  // namespace leat
