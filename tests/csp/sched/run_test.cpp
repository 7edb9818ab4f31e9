// run() and go(): results, errors, and what they refuse.
#include "tests/support/run.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "tests/support/values.h"

namespace leat {
namespace run_test {

using support::AtExit;
using support::on_each_worker_count;
using support::on_each_worker_count_with_clock;
using support::until_idle;

TEST(Run, ReturnsTheResult) {
  on_each_worker_count([](const SchedulerOptions& options) {
    EXPECT_EQ(run([] { return 42; }, options), 42);
    EXPECT_EQ(*run([] { return std::make_unique<int>(7); }, options), 7);
    EXPECT_EQ(run([] { return support::OnlyMoveConstructible::make(3); }, options).number(), 3);
    bool ran = false;
    run([&] { ran = true; }, options);
    EXPECT_TRUE(ran);
  });
}

TEST(Run, ReturnsAReference) {
  int variable = 1;
  int& same = run([&]() -> int& { return variable; });
  EXPECT_EQ(&same, &variable);
}

TEST(Run, RethrowsWhatTheBodyThrows) {
  on_each_worker_count([](const SchedulerOptions& options) {
    EXPECT_THROW(run([] { throw std::runtime_error("x"); }, options), std::runtime_error);
    EXPECT_THROW(run([]() -> int { throw std::out_of_range("x"); }, options), std::out_of_range);
    EXPECT_THROW(run([] { throw 5; }, options), int);
  });
}

TEST(Run, RunsTheBodyOnTheCallingThread) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    const auto caller = gettid();
    run(
        [&] {
          for (int i = 0; i < 100; ++i) {
            EXPECT_EQ(gettid(), caller);
            go([] { yield(); });
            until_idle();
          }
        },
        options);
    EXPECT_FALSE(on_fiber());
  });
}

TEST(Run, InsideRunIsRefused) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [&] {
          EXPECT_TRUE(on_fiber());
          EXPECT_THROW(run([] {}, options), std::logic_error);
        },
        options);
  });
}

TEST(Run, OnAnotherThreadInsideRunIsARunOfItsOwn) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [&] {
          int result = 0;
          std::thread([&] { result = run([] { return 3; }, options); }).join();
          EXPECT_EQ(result, 3);
        },
        options);
  });
}

TEST(Run, OfACallerInsideACatchBlockKeepsTheCallersException) {
  try {
    throw std::runtime_error("outer");
  } catch (...) {
    EXPECT_THROW(run([] { throw std::out_of_range("inner"); }), std::out_of_range);
    try {
      throw;
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "outer");
    }
  }
}

TEST(Run, RefusesANegativeNumberOfWorkers) {
  EXPECT_THROW(run([] {}, {.workers = -1}), std::invalid_argument);
}

TEST(Run, ByDefaultHasAWorkerForEachUsableCpu) {
  const Scheduler scheduler;
  EXPECT_GE(scheduler.workers(), 1);
  EXPECT_LE(scheduler.workers(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(Go, OutsideASchedulerIsRefused) {
  EXPECT_THROW(go([] {}), std::logic_error);
  EXPECT_THROW(static_cast<void>(current_scheduler("test")), std::logic_error);
}

TEST(Go, RunsConcurrentlyWithItsLauncher) {
  on_each_worker_count([](const SchedulerOptions& options) {
    EXPECT_EQ(run(
                  [] {
                    Channel<int> c(0);
                    go([c] { c.send(c.recv().value() + 1); });
                    c.send(1);
                    return c.recv().value();
                  },
                  options),
              2);
  });
}

TEST(Go, AcceptsMoveOnlyClosuresAndOptions) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [] {
          Channel<int> c(0);
          go([c, p = std::make_unique<int>(9)] { c.send(int{*p}); },
             {.name = "nine", .pinned = true, .stack_size = 1 << 20});
          EXPECT_EQ(c.recv(), 9);
        },
        options);
  });
}

TEST(Go, DestroysTheClosureWhenTheFiberEnds) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    run(
        [] {
          // At least 1: the launcher's own copy, moved from, may still be there.
          go([c = support::Counted(1)] { EXPECT_GE(support::Counted::live(), 1); });
          until_idle();
          EXPECT_EQ(support::Counted::live(), 0);
        },
        options);
  });
}

TEST(Go, WhatEscapesCancelsTheOthersAndIsRethrownByRun) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    std::atomic<int> unwound = 0;
    const auto body = [&] {
      const AtExit main_unwound(unwound);
      Channel<int> c(0);
      for (int i = 0; i < 10; ++i) {
        go([&unwound, c] {
          const AtExit one(unwound);
          static_cast<void>(c.recv());
        });
      }
      go([] {
        until_idle();
        throw std::runtime_error("boom");
      });
      c.send(1);
      static_cast<void>(Channel<int>().recv());
    };
    try {
      run(body, options);
      ADD_FAILURE() << "the error was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "boom");
    }
    EXPECT_EQ(unwound, 11);
  });
}

TEST(Go, TheFirstErrorWins) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    const auto body = [] {
      go([] {
        try {
          sleep_for(std::chrono::hours(1));
        } catch (const Cancelled&) {
          throw std::runtime_error("second");
        }
      });
      until_idle();
      go([] { throw std::runtime_error("first"); });
      try {
        static_cast<void>(Channel<int>().recv());
      } catch (...) {
        throw std::runtime_error("third");
      }
    };
    try {
      run(body, options);
      ADD_FAILURE() << "the error was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "first");
    }
  });
}

TEST(Run, CancelsAndJoinsWhatItLaunchedWhenTheBodyReturns) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    std::atomic<int> unwound = 0;
    const int result = run(
        [&] {
          for (int i = 0; i < 20; ++i) {
            go([&] {
              const AtExit one(unwound);
              static_cast<void>(Channel<int>().recv());
            });
          }
          until_idle();
          return 5;
        },
        options);
    EXPECT_EQ(result, 5);
    EXPECT_EQ(unwound, 20);
  });
}

TEST(Run, FibersLaunchedWhileItEndsAreJoinedToo) {
  on_each_worker_count_with_clock([](const SchedulerOptions& options, const VirtualClock&) {
    std::atomic<int> ran = 0;
    run(
        [&] {
          for (int i = 0; i < 10; ++i) {
            go([&] {
              try {
                static_cast<void>(Channel<int>().recv());
              } catch (const Cancelled&) {
                go([&] {
                  const AtExit one(ran);
                  sleep_for(std::chrono::hours(1));  // cancelled at once: time does not pass
                });
                throw;
              }
            });
          }
          until_idle();
        },
        options);
    EXPECT_EQ(ran, 10);
    EXPECT_LT(options.clock->elapsed(), std::chrono::hours(1));
  });
}

// A regression: run of a body without a result swallowed it.
TEST(Run, DoesNotSwallowACancelledThatNobodyAskedFor) {
  on_each_worker_count([](const SchedulerOptions& options) {
    // A stage closed its channel with the Cancelled that unwound it as the cause.
    const auto body = [] {
      Channel<int> c(0);
      c.close(std::make_exception_ptr(Cancelled{}));
      static_cast<void>(c.recv());
    };
    EXPECT_THROW(run(body, options), Cancelled);
    EXPECT_THROW(run([&]() -> int { return body(), 1; }, options), Cancelled);
  });
}

TEST(Run, MayFollowRun) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(run([&] { return i; }, options), i);
  });
}

}  // namespace run_test
}  // namespace leat
