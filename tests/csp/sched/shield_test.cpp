// Waits that no cancellation ends: in the destructors of a fiber that unwinds, and under a Shield.
// In a deadlock they give way, because nothing else could end it. (Shield itself:
// cancellation_test.cpp.)
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/semaphore.h"
#include "leat/csp/task_group.h"
#include "tests/support/deadlock_report.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace shield_test {

using namespace std::chrono_literals;
using support::AtExit;
using support::expect_in;
using support::on_each_worker_count;
using support::report_of;
using support::run_each;
using support::until_idle;

/// Waits in its destructor.
class WaitsAtExit {
 public:
  explicit WaitsAtExit(const std::function<void()>& wait) : wait_(wait) {}
  WaitsAtExit(const WaitsAtExit&) = delete;
  WaitsAtExit& operator=(const WaitsAtExit&) = delete;
  ~WaitsAtExit() { wait_(); }

 private:
  const std::function<void()>& wait_;
};

// Go's `defer func() { c <- 1 }()`. A regression: the wait threw Cancelled out of the destructor,
// which ended the program.
TEST(Cancellation, ADestructorMayWaitWhileTheFiberUnwinds) {
  run_each([] {
    const Channel<int> c(0);
    Mutex mutex;
    Semaphore semaphore(0);
    Notification notification;
    struct Wait {
      std::function<void()> wait;
      std::function<void()> end;
    };
    const std::vector<Wait> waits = {
        {[&] { c.send(1); }, [&] { EXPECT_EQ(c.recv(), 1); }},
        {[&] { EXPECT_EQ(c.recv(), 2); }, [&] { c.send(2); }},
        {[&] { select(on_recv(c), on_timeout(1h)); }, [&] { c.send(3); }},
        {[&] { const std::scoped_lock lock(mutex); }, [&] { mutex.unlock(); }},
        {[&] { semaphore.acquire(); }, [&] { semaphore.release(); }},
        {[&] { notification.wait(); }, [&] { notification.notify(); }},
        {[] { sleep_for(1ms); }, [] { sleep_for(1ms); }},
    };
    mutex.lock();
    for (const auto& [wait, end] : waits) {
      std::atomic<int> unwound = 0;
      TaskGroup group;
      group.go([&] {
        const AtExit done(unwound);
        const WaitsAtExit waits_here(wait);
        sleep_for(1h);
      });
      until_idle();
      group.stop();
      until_idle();
      EXPECT_EQ(unwound, 0);
      end();
      until_idle();
      EXPECT_EQ(unwound, 1);
    }
  });
}

TEST(Cancellation, ADestructorThatAnotherErrorRunsWaitsOnThroughIt) {
  run_each([] {
    const Channel<int> c(0);
    const std::function<void()> wait = [&] { c.send(1); };
    TaskGroup group;
    group.go([&] {
      const WaitsAtExit waits_here(wait);
      throw std::runtime_error("another");
    });
    until_idle();
    group.stop();  // it waits already
    until_idle();
    EXPECT_EQ(c.recv(), 1);
    EXPECT_THROW(group.wait(), std::runtime_error);
  });
}

void wait_for_nobody() { static_cast<void>(Channel<int>(0, "nobody").recv()); }

TEST(Deadlock, OfTheShieldedMainFiberEnds) {
  on_each_worker_count([](const SchedulerOptions& options) {
    const std::string report = report_of(
        [] {
          const Shield shield;
          wait_for_nobody();
        },
        options);
    expect_in(report, "\"main\" waits for recv on channel \"nobody\"");
  });
}

TEST(Deadlock, OfShieldedFibersAtTheEndOfRunEnds) {
  on_each_worker_count([](const SchedulerOptions& options) {
    std::atomic<int> unwound = 0;
    const std::string report = report_of(
        [&] {
          for (int i = 0; i < 5; ++i) {
            go(
                [&unwound] {
                  const AtExit one(unwound);
                  const Shield shield;
                  wait_for_nobody();
                },
                {.name = "shielded"});
          }
          yield();
        },
        options);
    expect_in(report, "\"shielded\" waits for recv on channel \"nobody\"");
    EXPECT_EQ(unwound, 5);
  });
}

TEST(Deadlock, OfAShieldedFiberThatAGroupsDestructorJoinsEnds) {
  on_each_worker_count([](const SchedulerOptions& options) {
    std::atomic<int> unwound = 0;
    const std::string report = report_of(
        [&] {
          const AtExit main_unwound(unwound);
          TaskGroup group;
          group.go([&] {
            const AtExit one(unwound);
            const Shield shield;
            wait_for_nobody();
          });
          sleep_for(1us);
        },
        options);
    expect_in(report, "\"main\" waits for join");
    EXPECT_EQ(unwound, 2);
  });
}

// One shielded fiber ends another's wait while it unwinds: the other one's next wait has nothing to
// do with the deadlock, and must not be broken.
TEST(Deadlock, WaitsThatBeginWhileItEndsAreLeftAlone) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> slept = 0;
      constexpr int kPairs = 20;
      const std::string report = report_of(
          [&] {
            for (int i = 0; i < kPairs; ++i) {
              const Channel<int> freed(0);
              go([freed, &slept] {
                const Shield shield;
                try {
                  static_cast<void>(freed.recv());
                } catch (const Cancelled&) {  // it was broken itself
                }
                sleep_for(1us);
                ++slept;
              });
              go([freed] {
                const Shield shield;
                try {
                  wait_for_nobody();
                } catch (const Cancelled&) {
                  freed.close();
                  throw;
                }
              });
            }
            yield();
          },
          options);
      EXPECT_NE(report, "");
      EXPECT_EQ(slept, kPairs);
    }
  });
}

// Each time the fiber goes on waiting, it is sent on again.
TEST(Deadlock, OfAFiberThatWaitsAgainAndAgainEnds) {
  on_each_worker_count([](const SchedulerOptions& options) {
    int waits = 0;
    const std::string report = report_of(
        [&] {
          const Shield shield;
          while (waits < 10) {
            try {
              wait_for_nobody();
            } catch (const Cancelled&) {
              ++waits;
            }
          }
        },
        options);
    expect_in(report, "\"nobody\"");
    EXPECT_EQ(waits, 10);
  });
}

// The wait of a destructor that an exception runs is shielded likewise. It is the last to give way,
// because what it throws ends the program: then that has been explained.
TEST(DeadlockDeathTest, OfADestructorEndsTheProgramWithAReport) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  struct WaitsForNobody {
    ~WaitsForNobody() { wait_for_nobody(); }
  };
  EXPECT_DEATH(run(
                   [] {
                     go([] {
                       const WaitsForNobody in_its_destructor;
                       throw std::runtime_error("an error");
                     });
                     wait_for_nobody();
                   },
                   {.workers = 1, .deadlock_after = 0s}),
               "leat: deadlock, shielded from cancellation.*\n.*\"nobody\"");
}

TEST(Deadlock, OfADestructorIsFreedByAFiberThatGivesWayFirst) {
  on_each_worker_count([](const SchedulerOptions& options) {
    const Channel<int> freed(0);
    struct Waits {
      const Channel<int>& freed;
      ~Waits() { EXPECT_EQ(freed.recv(), std::nullopt); }
    };
    const std::string report = report_of(
        [&] {
          go([&] {
            const Shield shield;
            try {
              wait_for_nobody();
            } catch (const Cancelled&) {
              freed.close();
              throw;
            }
          });
          go([&] {
            const Waits in_its_destructor{freed};
            wait_for_nobody();
          });
          wait_for_nobody();
        },
        options);
    expect_in(report, "\"nobody\"");
  });
}

}  // namespace shield_test
}  // namespace leat
