// That a stack which overflows harms nobody, and that all come back; sizes are tested with the
// scheduler.
#include "leat/csp/fiber/stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "leat/csp/base/tuning.h"
#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "tests/support/memory.h"
#include "tests/support/run.h"

namespace leat {
namespace stack_test {

constexpr std::size_t kGuard = std::size_t{64} << 10;

class StackDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void write(std::byte* address) { *static_cast<volatile std::byte*>(address) = std::byte{1}; }

// Stacks are mapped next to each other: without a guard these writes would land in the next one.
TEST_F(StackDeathTest, FaultsAnywhereWithin64KiBBelowItsLowEnd) {
  StackPool pool(std::size_t{64} << 10);
  std::vector<StackSpan> stacks;
  for (int i = 0; i < 4; ++i) stacks.push_back(pool.allocate(0));
  for (const StackSpan stack : stacks) {
    for (std::size_t at = 0; at < stack.size; at += 4096) write(stack.low + at);
    write(stack.low + stack.size - 1);
  }
  EXPECT_DEATH(write(stacks[1].low - 1), "");
  EXPECT_DEATH(write(stacks[1].low - kGuard / 2), "");
  EXPECT_DEATH(write(stacks[1].low - kGuard), "");
  for (const StackSpan stack : stacks) pool.release(stack);
}

TEST(StackPool, GetsBackWhatACacheHoldsAtItsEnd) {
  StackPool pool(std::size_t{64} << 10);
  std::set<std::byte*> cached;
  {
    StackPool::Cache cache(pool);
    for (int i = 0; i < 100; ++i) {  // more than it keeps
      const StackSpan stack = pool.allocate(0);
      cached.insert(stack.low);
    }
    for (std::byte* const low : cached) cache.put({low, pool.default_size()});
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(cached.erase(pool.allocate(0).low), 1U);
}

TEST(StackPool, KeepsTheLatestOfOtherSizes) {
  constexpr std::size_t kSize = std::size_t{512} << 10;
  StackPool pool(std::size_t{64} << 10);
  const StackSpan first = pool.allocate(kSize);
  pool.release(first);
  const StackSpan half = pool.allocate(kSize / 2);
  EXPECT_LT(half.size, first.size);
  EXPECT_EQ(pool.allocate(kSize).low, first.low);
  std::vector<StackSpan> stacks = {first};
  for (int i = 1; i < 2 * tuning::kMostOtherStacks; ++i) stacks.push_back(pool.allocate(kSize));
  std::set<std::byte*> latest;
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    EXPECT_TRUE(i == 0 || stacks[i].low != first.low) << "one stack for two";
    pool.release(stacks[i]);
    if (i >= stacks.size() / 2) latest.insert(stacks[i].low);
  }
  pool.release(half);  // takes the place of one of them
  for (int i = 1; i < tuning::kMostOtherStacks; ++i) {
    const StackSpan stack = pool.allocate(kSize);
    EXPECT_EQ(latest.erase(stack.low), 1U);
    write(stack.low);
    write(stack.low + stack.size - 1);
  }
  EXPECT_EQ(pool.allocate(kSize / 2).low, half.low);
}

// Stacks are no allocations: only resident memory tells that they stay.
TEST(StackPool, GoesWithItsScheduler) {
  const auto run_some = [](const SchedulerOptions& options) {
    for (int i = 0; i < std::max(support::rounds(200), 40); ++i) {
      run(
          [] {
            TaskGroup group;
            for (int k = 0; k < 30; ++k) group.go([] { yield(); });
            group.wait();
          },
          options);
    }
  };
  support::on_each_worker_count([&](const SchedulerOptions& options) {
    run_some(options);
    const std::size_t before = support::memory_in_use();
    run_some(options);
    EXPECT_LT(support::memory_in_use(), before + (std::size_t{4} << 20));  // of 24, or 4.8
  });
}

template <std::size_t bytes>
__attribute__((noinline)) int use_frame() {
  volatile std::byte frame[bytes];
  frame[0] = std::byte{1};
  return static_cast<int>(frame[0]);
}

// The frame is larger than stack, guard and the neighbour's stack together.
TEST_F(StackDeathTest, FaultsUnderAFrameThatWouldStepOverTheGuard) {
#ifdef __clang__
  GTEST_SKIP() << "clang does not probe frames on all its targets";
#endif
  EXPECT_DEATH(run(
                   [] {
                     const Channel<int> never(0);
                     for (int i = 0; i < 8; ++i) {
                       go([never] { static_cast<void>(never.recv()); });
                     }
                     yield();
                     go([] { static_cast<void>(use_frame<1'000'000>()); });
                     yield();
                   },
                   {.workers = 1}),
               "");
}

}  // namespace stack_test
}  // namespace leat
