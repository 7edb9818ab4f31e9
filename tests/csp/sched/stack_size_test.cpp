// The sizes of stacks: the main fiber's, the default, the options', and impossible ones.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/run.h"

namespace leat {
namespace stack_size_test {

using support::on_each_worker_count;
using support::run_each;
using support::until_idle;

__attribute__((noinline)) int recurse(int depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  frame[1023] = frame[0];
  return depth == 0 ? frame[1023] : recurse(depth - 1) + (frame[0] - frame[1023]) + 1;
}

TEST(Stack, OfTheMainFiberTakesSeveralMebibytes) {
  run_each([] { EXPECT_EQ(recurse(6 * 1024), 6 * 1024); });
}

TEST(Stack, HasTheSizeAskedFor) {
  run_each([] {
    TaskGroup group;
    for (int i = 0; i < 4; ++i) {
      group.go([] { EXPECT_EQ(recurse(3 * 1024), 3 * 1024); }, {.stack_size = 4 << 20});
    }
    group.go([] { EXPECT_EQ(recurse(40), 40); });  // the default
    group.wait();
  });
}

// Fibers in turns, more sizes and stacks at a time than are kept, and one too large to keep.
TEST(Stack, OfAnotherSizeIsUsedAgainAndHasItsSize) {
  run_each([] {
    const auto place_of_stack = [](std::size_t size) {
      std::uintptr_t place = 0;
      TaskGroup group;
      group.go(
          [&place, size] {
            const volatile char here = 0;
            place = reinterpret_cast<std::uintptr_t>(&here);
            const int depth = static_cast<int>(size / 2048);
            EXPECT_EQ(recurse(depth), depth);
          },
          {.stack_size = size});
      group.wait();
      return place;
    };
    const std::uintptr_t first = place_of_stack(512 << 10);
    EXPECT_EQ(place_of_stack(512 << 10), first);
    EXPECT_NE(place_of_stack(256 << 10), first);
    EXPECT_EQ(place_of_stack(512 << 10), first);
    for (int round = 0; round < 2; ++round) {
      TaskGroup group;
      for (std::size_t i = 0; i < 50; ++i) {
        const std::size_t size = (128 + 4 * i) << 10;
        group.go(
            [size] {
              const int depth = static_cast<int>(size / 2048);
              EXPECT_EQ(recurse(depth), depth);
            },
            {.stack_size = size});
      }
      group.wait();
    }
    static_cast<void>(place_of_stack(8 << 20));
  });
}

TEST(Stack, OfTheSchedulersFibersHasTheSizeInItsOptions) {
  on_each_worker_count([](SchedulerOptions options) {
    options.stack_size = 2 << 20;
    run(
        [] {
          TaskGroup group;
          group.go([] { EXPECT_EQ(recurse(1536), 1536); });
          group.wait();
        },
        options);
  });
}

TEST(Stack, TheSmallestIsEnoughForAnException) {
  run_each([] {
    TaskGroup group;
    group.go([] { static_cast<void>(Channel<int>().recv()); }, {.stack_size = 1});
    until_idle();
    group.stop();
    group.wait();
  });
}

constexpr std::size_t kImpossibleSizes[] = {std::size_t{1} << 55, std::size_t{1} << 62,
                                            std::numeric_limits<std::size_t>::max()};

TEST(Stack, OfAnImpossibleDefaultSizeIsAnError) {
  for (const std::size_t size : kImpossibleSizes) {
    EXPECT_THROW(run([] {}, {.workers = 1, .stack_size = size}), Error);
  }
}

TEST(Stack, ThatCannotBeMappedIsAnErrorAndLeavesTheGroupAsItWas) {
  run_each([] {
    TaskGroup group;
    for (const std::size_t size : kImpossibleSizes) {
      EXPECT_THROW(group.go([] {}, {.stack_size = size}), Error);
    }
    group.wait();
    int ran = 0;
    group.go([&] { ran = 1; });
    group.wait();
    EXPECT_EQ(ran, 1);
  });
}

}  // namespace stack_size_test
}  // namespace leat
