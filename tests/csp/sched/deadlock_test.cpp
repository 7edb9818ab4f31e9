#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/mutex.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "tests/support/child.h"
#include "tests/support/deadlock_report.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace deadlock_test {

using namespace std::chrono_literals;
using support::AtExit;
using support::expect_in;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::report_of;

TEST(Deadlock, IsReportedAsTheReadmeShows) {
  std::string report;
  try {
    // [deadlock]
    leat::run([] {
      leat::Channel<int> weights(0, "weights");
      leat::Channel<int> gradients(0, "gradients");
      leat::go([=] { gradients.send(1 + weights.recv().value()); }, {.name = "worker"});
      const int gradient = gradients.recv().value();  // each waits for the other to begin
      weights.send(2 * gradient);
    });
    // [/deadlock]
  } catch (const Deadlock& deadlock) {
    report = deadlock.what();
  }
  expect_in(report, "leat: deadlock: all 2 fibers wait and nothing can wake them:\n");
  expect_in(report, "\n  fiber 1 \"main\" waits for recv on channel \"gradients\"");
  expect_in(report, "\n  fiber 2 \"worker\" waits for recv on channel \"weights\"");
}

TEST(Deadlock, IsReportedAfterAWaitThatEndedBeforeItsDeadline) {
  VirtualClock clock;
  const std::string report = report_of(
      [] {
        const Channel<int> values(0, "values");
        go([=] { values.send(1); });
        std::optional<int> value;
        EXPECT_EQ(values.recv_until(value, from_now(1h)), ChannelStatus::ok);
        static_cast<void>(values.recv());
      },
      {.clock = &clock});
  expect_in(report, "the only fiber waits and nothing can wake it");
}

TEST(Deadlock, NamesTheFibersTheChannelsAndWhyTheyWait) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    const std::string report = report_of(
        [] {
          Channel<int> full(1, "full");
          Channel<int> empty(0, "empty");
          full.send(1);
          go([=] { full.send(2); }, {.name = "producer"});
          go([=] { select(on_recv(empty), on_send(full, 3)); }, {.name = "chooser"});
          go([] { static_cast<void>(Channel<int>().recv()); }, {.name = "lost"});
          go([] { sleep_until(TimePoint::max()); }, {.name = "sleeper"});
          TaskGroup group;
          group.go([=] { static_cast<void>(empty.recv()); }, {.name = "consumer"});
          group.wait();
        },
        options);
    expect_in(report, "all 6 fibers");
    expect_in(report, "\"main\" waits for join");
    expect_in(report, "\"producer\" waits for send on channel \"full\"");
    expect_in(report, "\"consumer\" waits for recv on channel \"empty\"");
    expect_in(report, "\"chooser\" waits for select on channel \"empty\", channel \"full\"");
    expect_in(report, "\"lost\" waits for recv on the nil channel");
    expect_in(report, "\"sleeper\" waits for sleep");
  });
}

TEST(Deadlock, IsReportedWhereTheMainFiberAloneWaits) {
  on_each_worker_count([](const SchedulerOptions& options) {
    expect_in(report_of([] { static_cast<void>(Channel<int>(0, "x").recv()); }, options), "\"x\"");
    expect_in(report_of([] { select(); }, options), "waits for select");
    expect_in(report_of([] { Channel<int>().send(1); }, options), "nil");
  });
}

TEST(Deadlock, IsReportedAfterWorkAndAfterTimersHavePassed) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    const std::string report = report_of(
        [] {
          Channel<int> c(0, "c");
          go([c] {
            for (int i = 0; i < 100; ++i) c.send(i);
            sleep_for(1h);
          });
          for ([[maybe_unused]] const int value : c) {
          }
        },
        options);
    expect_in(report, "leat: deadlock: the only fiber waits and nothing can wake it:\n");
    EXPECT_EQ(clock.elapsed(), 1h);
  });
}

TEST(Deadlock, CancelsAndJoinsTheFibersFirst) {
  on_each_worker_count([](const SchedulerOptions& options) {
    std::atomic<int> unwound = 0;
    const std::string report = report_of(
        [&] {
          const AtExit main_unwound(unwound);
          Channel<int> c(0);
          for (int i = 0; i < 20; ++i) {
            go([&unwound, c] {
              const AtExit one(unwound);
              c.send(1);
            });
          }
          static_cast<void>(Channel<int>().recv());
        },
        options);
    EXPECT_NE(report, "");
    EXPECT_EQ(unwound, 21);
  });
}

TEST(Deadlock, IsReportedEvenIfTheBodyCatchesTheCancellation) {
  on_each_worker_count([](const SchedulerOptions& options) {
    EXPECT_THROW(run(
                     [] {
                       try {
                         select();
                       } catch (const Cancelled&) {
                       }
                       return 1;
                     },
                     options),
                 Deadlock);
  });
}

TEST(Deadlock, IsNotReportedWhileATimerIsPending) {
  on_each_worker_count([](const SchedulerOptions& options) {
    const int got = run(
        [] {
          Channel<int> c(0);
          go([c] {
            sleep_for(3ms);
            c.send(1);
          });
          return c.recv().value();
        },
        options);
    EXPECT_EQ(got, 1);
  });
}

// A plain thread need not be in time: it uses the channel for the first time when the main fiber
// has waited for long, and the workers sleep.
TEST(Deadlock, IsNotReportedWhereAPlainThreadIsLate) {
  for (const int workers : {1, 2, 4}) {
    const Channel<int> c(1);
    std::jthread late;
    const auto body = [&] {
      late = std::jthread([c] {
        std::this_thread::sleep_for(5ms);
        c.send(1);
      });
      return c.recv();
    };
    EXPECT_EQ(run(body, {.workers = workers, .deadlock_after = 1min}), 1);
  }
}

// The plain thread is stopped with the process, so that time says nothing about it. It needs 0.3 s
// of the time in which it is not.
TEST(Deadlock, IsNotReportedForTheTimeInWhichTheProcessIsStopped) {
  EXPECT_EQ(support::in_child([]() -> std::string {
              const pid_t stopped = getpid();
              const pid_t stopper = fork();
              if (stopper == 0) {
                std::this_thread::sleep_for(100ms);
                kill(stopped, SIGSTOP);
                std::this_thread::sleep_for(1500ms);
                kill(stopped, SIGCONT);
                _exit(0);
              }
              const Channel<int> c(1);
              std::jthread late;
              const int got = run(
                  [&] {
                    late = std::jthread([c] {
                      for (int i = 0; i < 30; ++i) std::this_thread::sleep_for(10ms);
                      c.send(1);
                    });
                    return c.recv().value();
                  },
                  {.workers = 2, .deadlock_after = 1s});
              waitpid(stopper, nullptr, 0);
              return got == 1 ? "" : "the wrong value";
            }),
            "");
}

TEST(Deadlock, IsReportedAfterTheGivenTimeWithoutProgress) {
  for (const auto& [workers, after] :
       {std::pair<int, Duration>{1, 20ms}, {2, 20ms}, {4, 20ms}, {1, 1ns}, {2, 7ns}}) {
    std::optional<TimePoint> stuck;
    const std::string report = report_of(
        [&] {
          sleep_for(1ms);
          stuck = now();
          static_cast<void>(Channel<int>(0, "c").recv());
        },
        {.workers = workers, .deadlock_after = after});
    expect_in(report, "\"c\"");
    EXPECT_GE(now() - stuck.value(), after);
  }
}

TEST(Deadlock, IsReportedAtOnceInVirtualTime) {
  VirtualClock clock;
  const std::string report = report_of([] { static_cast<void>(Channel<int>(0, "c").recv()); },
                                       {.clock = &clock, .deadlock_after = Duration::max()});
  expect_in(report, "\"c\"");
}

TEST(Deadlock, ANegativeTimeIsRefused) {
  EXPECT_THROW(run([] {}, {.deadlock_after = -1ns}), std::invalid_argument);
}

// In the following tests a plain thread acts when virtual time has reached 1 ms: every fiber was
// parked then, and after the sleeper has ended all are parked for good.

TEST(Deadlock, IsNotReportedWhileOutsideWorkLives) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    for (int i = 0; i < 30; ++i) {
      const TimePoint parked = clock.now() + 1ms;
      Channel<int> c(0);
      std::thread thread;
      const auto body = [&] {
        const OutsideWork the_thread;
        go([] { sleep_for(1ms); });
        thread = std::thread([&] {
          while (clock.now() < parked) std::this_thread::yield();
          c.send(1);  // the first time that it touches the channel
        });
        return c.recv();
      };
      EXPECT_EQ(run(body, options), 1);
      thread.join();
    }
  });
}

TEST(Deadlock, IsNotReportedWhereAPlainThreadHasTouchedAChannelThatIsWaitedOn) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    for (int i = 0; i < 30; ++i) {
      const TimePoint parked = clock.now() + 1ms;
      Channel<int> c(0);
      std::optional<int> value;
      ASSERT_EQ(c.try_recv(value), ChannelStatus::would_block);  // this thread is a plain one
      std::thread thread([&] {
        while (clock.now() < parked) std::this_thread::yield();
        c.send(1);
      });
      const auto body = [&] {
        go([] { sleep_for(1ms); });
        go([] { static_cast<void>(Channel<int>().recv()); });  // stuck, but not all are
        return c.recv();
      };
      EXPECT_EQ(run(body, options), 1);
      thread.join();
    }
  });
}

TEST(Deadlock, IsReportedWhenTheLastOutsideWorkEnds) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock& clock) {
    const TimePoint parked = clock.now() + 1ms;
    std::thread thread;
    const auto body = [&] {
      auto work = std::make_unique<OutsideWork>();
      auto more = std::make_unique<OutsideWork>();
      go([] { sleep_for(1ms); });
      thread =
          std::thread([&clock, parked, work = std::move(work), more = std::move(more)]() mutable {
            while (clock.now() < parked) std::this_thread::yield();
            work.reset();
            more.reset();
          });
      static_cast<void>(Channel<int>(0, "c").recv());
    };
    expect_in(report_of(body, options), "\"c\"");
    thread.join();
  });
}

TEST(Deadlock, IsReportedThoughAPlainThreadHasTouchedOtherChannels) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Channel<int> touched(1);
    touched.send(1);
    const std::string report = report_of(
        [&] {
          static_cast<void>(touched.recv());
          static_cast<void>(Channel<int>(0, "c").recv());
        },
        options);
    expect_in(report, "\"c\"");
  });
}

TEST(Deadlock, IsNotReportedByAnEmbeddedScheduler) {
  on_each_worker_count_with_clock([](SchedulerOptions options, const VirtualClock& clock) {
    Scheduler scheduler(options);
    Channel<int> c(0);
    scheduler.go([c] {
      go([] { sleep_for(1ms); });
      EXPECT_EQ(c.recv(), 1);
    });
    while (clock.elapsed() < 1ms) std::this_thread::yield();
    c.send(1);
    scheduler.join();
  });
}

TEST(Deadlock, OfFibersThatAnotherSchedulerWakesIsNone) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [&] {
          Channel<int> there(0);
          Channel<int> back(0);
          Scheduler other(options);
          const OutsideWork until_the_other_has_touched_them;
          other.go([=] {
            for (const int v : there) {
              sleep_for(100us);
              back.send(v + 1);
            }
          });
          for (int i = 0; i < 10; ++i) {
            there.send(i);
            EXPECT_EQ(back.recv(), i + 1);
          }
          there.close();
          other.join();
        },
        options);
  });
}

}  // namespace deadlock_test
}  // namespace leat
