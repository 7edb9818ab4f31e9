// The sizes of stacks: the main fiber's, the default, the options', and impossible ones.
#include <gtest/gtest.h>

#include <cstddef>
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

// More sizes and stacks than are kept, some too large to keep, twice.
TEST(Stack, OfAnySizeHasThatSizeWhenItIsUsedAgain) {
  run_each([] {
    for (int round = 0; round < 2; ++round) {
      TaskGroup group;
      for (std::size_t i = 0; i < 50; ++i) {
        const std::size_t size = (128 + 24 * i) << 10;
        group.go(
            [size] {
              const int depth = static_cast<int>(size / 2048);
              EXPECT_EQ(recurse(depth), depth);
            },
            {.stack_size = size});
      }
      group.wait();
    }
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
