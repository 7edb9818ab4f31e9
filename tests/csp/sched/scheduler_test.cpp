// The embedded Scheduler, and what fibers may rely on: pinning and fairness.
#include "leat/csp/scheduler.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/base/sanitizers.h"
#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/task_group.h"
#include "tests/support/log.h"
#include "tests/support/run.h"
#include "tests/support/values.h"

namespace leat {
namespace scheduler_test {

using support::AtExit;
using support::on_each_worker_count;
using support::run_each;

TEST(Scheduler, RunsFibersWhileTheCallerKeepsItsThread) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    EXPECT_EQ(scheduler.workers(), options.workers);
    Channel<int> c(0);
    scheduler.go([c] {
      for (int i = 0; i < 100; ++i) c.send(i);
      c.close();
    });
    int expected = 0;
    for (const int value : c) EXPECT_EQ(value, expected++);
    EXPECT_EQ(expected, 100);
    scheduler.join();
    EXPECT_FALSE(on_fiber());
  });
}

TEST(Scheduler, JoinWaitsForAllAndMayBeRepeated) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    scheduler.join();
    std::atomic<int> count = 0;
    for (int round = 1; round <= 3; ++round) {
      for (int i = 0; i < 50; ++i) {
        scheduler.go([&] {
          yield();
          ++count;
        });
      }
      scheduler.join();
      EXPECT_EQ(count, 50 * round);
    }
  });
}

TEST(Scheduler, JoinRethrowsTheFirstError) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    std::atomic<int> unwound = 0;
    for (int i = 0; i < 10; ++i) {
      scheduler.go([&] {
        const AtExit one(unwound);
        static_cast<void>(Channel<int>().recv());
      });
    }
    scheduler.go([] { throw std::runtime_error("boom"); });
    EXPECT_THROW(scheduler.join(), std::runtime_error);
    EXPECT_EQ(unwound, 10);
  });
}

// A trainer that has handled the error goes on with the same scheduler.
TEST(Scheduler, JoinRethrowsAnErrorOnceAndItsFibersRunAgain) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    for (int round = 0; round < 3; ++round) {
      scheduler.go([] { throw std::runtime_error("boom"); });
      EXPECT_THROW(scheduler.join(), std::runtime_error);
      EXPECT_NO_THROW(scheduler.join());
      bool waited = false;
      scheduler.go([&waited] {
        sleep_for(std::chrono::microseconds(1));  // throws in a group that is stopped
        waited = true;
      });
      EXPECT_NO_THROW(scheduler.join());
      EXPECT_TRUE(waited);
    }
  });
}

TEST(Scheduler, JoinOnOneOfItsOwnFibersIsRefused) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    bool refused = false;
    scheduler.go([&] {
      try {
        scheduler.join();
      } catch (const std::logic_error&) {
        refused = true;
      }
    });
    scheduler.join();
    EXPECT_TRUE(refused);
  });
}

TEST(Scheduler, ItsDestructorCancelsAndJoinsParkedFibers) {
  on_each_worker_count([](const SchedulerOptions& options) {
    std::atomic<int> started = 0;
    std::atomic<int> unwound = 0;
    {
      Scheduler scheduler(options);
      for (int i = 0; i < 20; ++i) {
        scheduler.go([&] {
          const AtExit one(unwound);
          ++started;
          static_cast<void>(Channel<int>().recv());
        });
      }
    }
    EXPECT_EQ(started, 20);  // what was launched has run, at least to its first wait
    EXPECT_EQ(unwound, 20);
  });
}

TEST(Scheduler, MayBeMadeAndDestroyedWithoutAFiber) {
  on_each_worker_count([](const SchedulerOptions& options) {
    for (int i = 0; i < 20; ++i) const Scheduler scheduler(options);
  });
}

TEST(Scheduler, SeveralThreadsMayLaunch) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    std::atomic<int> count = 0;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
          for (int i = 0; i < 100; ++i) scheduler.go([&] { ++count; });
        });
      }
    }
    scheduler.join();
    EXPECT_EQ(count, 400);
  });
}

TEST(Scheduler, FibersLaunchTheirSiblingsIntoTheirOwnScheduler) {
  on_each_worker_count([](const SchedulerOptions& options) {
    Scheduler scheduler(options);
    std::atomic<int> count = 0;
    scheduler.go([&] {
      for (int i = 0; i < 10; ++i) {
        go([&] {
          ++count;
          EXPECT_EQ(&current_scheduler("test"), scheduler.core().get());
        });
      }
    });
    scheduler.join();
    EXPECT_EQ(count, 10);
  });
}

// A regression: the workers that had been started were left behind, and the process ended.
TEST(SchedulerDeathTest, WithoutRoomForItsThreadsIsAnErrorThatLeavesNothingBehind) {
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
  GTEST_SKIP() << "a sanitizer needs more address space than this test leaves";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fails = [](const auto& start) {
    try {
      start(SchedulerOptions{.workers = 200});  // 8 MiB of stack each
      return false;
    } catch (const Error& error) {
      return std::string(error.what()).find("cannot start worker") != std::string::npos;
    }
  };
  EXPECT_EXIT(
      {
        rlimit half_a_gibibyte{};
        half_a_gibibyte.rlim_cur = half_a_gibibyte.rlim_max = std::size_t{512} << 20;
        if (setrlimit(RLIMIT_AS, &half_a_gibibyte) != 0) std::exit(2);
        if (!fails([](const SchedulerOptions& options) { Scheduler{options}; })) std::exit(3);
        if (!fails([](const SchedulerOptions& options) { run([] {}, options); })) std::exit(4);
        std::exit(run([] { return 0; }, {.workers = 2}));
      },
      testing::ExitedWithCode(0), "");
}

TEST(Pinned, FibersStayOnOneThread) {
  run_each([] {
    Channel<int> c(0);
    TaskGroup group;
    for (int i = 0; i < 8; ++i) {
      group.go(
          [&] {
            // gettid and not std::this_thread::get_id, which compilers may call once and keep.
            const auto home = gettid();
            for (int k = 0; k < 100; ++k) {
              if (k % 2 == 0) {
                yield();
              } else {
                static_cast<void>(c.recv());
              }
              ASSERT_EQ(gettid(), home);
            }
          },
          {.pinned = true});
    }
    for (int i = 0; i < 8 * 50; ++i) c.send(i);
    group.wait();
  });
}

TEST(Pinned, FibersAreSpreadOverTheWorkers) {
  VirtualClock clock;
  run(
      [] {
        std::vector<pid_t> homes(4);
        TaskGroup group;
        for (pid_t& home : homes) group.go([&] { home = gettid(); }, {.pinned = true});
        group.wait();
        std::sort(homes.begin(), homes.end());
        EXPECT_EQ(std::unique(homes.begin(), homes.end()), homes.end());
      },
      {.workers = 4, .clock = &clock});
}

TEST(Yield, LetsTheOtherReadyFibersRunFirst) {
  VirtualClock clock;
  run(
      [] {
        support::Log<char> turns;
        TaskGroup group;
        for (const char name : {'a', 'b', 'c'}) {
          group.go([&, name] {
            for (int i = 0; i < 3; ++i) {
              turns.add(name);
              yield();
            }
          });
        }
        group.wait();
        EXPECT_EQ(turns.entries(),
                  (std::vector<char>{'a', 'b', 'c', 'a', 'b', 'c', 'a', 'b', 'c'}));
      },
      {.workers = 1, .clock = &clock});
}

// A regression: a worker ran its pinned fibers first, and run's main fiber is pinned.
TEST(Yield, OfThePinnedMainFiberLetsOthersRun) {
  run_each([] {
    std::atomic<bool> done = false;
    go([&] { done = true; });
    while (!done) yield();

    TaskGroup spinning;  // and the other way round
    spinning.go([poll = spinning.stop_token()] {
      while (!poll.stop_requested()) yield();
    });
    for (int i = 0; i < 10; ++i) yield();
    spinning.stop();
    spinning.wait();
  });
}

TEST(Yield, OnAPlainThreadReturns) {
  std::atomic<int> returns = 0;
  std::atomic<bool> done = false;
  std::jthread plain([&] {
    while (!done) {
      yield();
      EXPECT_FALSE(on_fiber());
      ++returns;
    }
  });
  run(
      [&] {
        while (returns < 10) yield();
        done = true;
      },
      {.workers = 1});
}

// A regression: pairs whose slices are long, and that wake each other, kept all others waiting for
// ever.
TEST(Fairness, FibersThatWakeEachOtherLetOthersRun) {
  on_each_worker_count([](const SchedulerOptions& options) {
    run(
        [&] {
          std::atomic<bool> others_ran = false;
          std::atomic<int> rounds_without = 0;
          const auto work = [] {
            const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(5);
            while (std::chrono::steady_clock::now() < end) {
            }
          };
          TaskGroup pairs;
          for (int i = 0; i < options.workers; ++i) {
            const Channel<int> there(0);
            const Channel<int> back(0);
            pairs.go([=] {
              for (int token : there) {
                work();
                back.send(token);
              }
              back.close();
            });
            pairs.go([=, &others_ran, &rounds_without] {
              for (int round = 0; round < 20'000 && !others_ran; ++round) {
                there.send(round);
                work();
                static_cast<void>(back.recv());
                if (!others_ran) ++rounds_without;
              }
              there.close();
            });
          }
          pairs.go([&] {
            // Some turns later, when the pairs' slices are known to be long.
            for (int i = 0; i < 10; ++i) yield();
            others_ran = true;
          });
          pairs.wait();
          EXPECT_LT(rounds_without, 20'000);
        },
        options);
  });
}

TEST(Random, TwoFibersAndTwoSeedsHaveTheirOwnSequences) {
  const auto first_numbers = [](std::uint64_t seed) {
    VirtualClock clock;
    return run(
        [] {
          std::vector<std::uint64_t> numbers(2);
          TaskGroup group;
          for (auto& number : numbers) group.go([&] { number = Fiber::current()->random(); });
          group.wait();
          return numbers;
        },
        {.workers = 1, .clock = &clock, .seed = seed});
  };
  const auto a = first_numbers(1);
  const auto b = first_numbers(2);
  EXPECT_EQ(a, first_numbers(1));
  EXPECT_NE(a[0], a[1]);
  EXPECT_NE(a[0], b[0]);
  EXPECT_NE(a[1], b[0]);  // (seed 1, second fiber) is not (seed 2, first fiber)
}

}  // namespace scheduler_test
}  // namespace leat
