// Quantiles of steps, and what a reset forgets: in virtual time, to the nanosecond.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/stats/latest.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace latest_steps_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::Numbers;

constexpr std::size_t kBatchSize = 4;  // of 100 bytes: Tx is 400 ns
constexpr double kRounding = 1e-12;

// One step in ten takes three times as long, which the mean hides.
TEST(StepQuantiles, AreOfSingleSteps) {
  Stats stats;
  in_virtual_time([&] {
    const Numbers data({.size = kBatchSize * 2000, .pattern_bytes = 92});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, {.batch_size = kBatchSize, .sample_every = 2});
    for (Lease& batch : feed.epoch(0, stream)) {
      stream.launch_host([] {}, batch.index() % 10 == 0 ? 3000ns : 1000ns);
    }
    stream.sync();
    stats = feed.stats();
  });
  EXPECT_DOUBLE_EQ(stats.step.p50, 1000e-9);
  EXPECT_DOUBLE_EQ(stats.step.p99, 3000e-9);
  EXPECT_NEAR(stats.t_step, 1200e-9, 60e-9);
  EXPECT_DOUBLE_EQ(stats.bubble.p99, 0);
}

TEST(StepQuantiles, ForgetTheOldestSteps) {
  LatestSteps latest;
  Stats stats{.timed_copies = 1, .t_x = 2, .t_step = 50};
  latest.add_to(stats);
  EXPECT_EQ(stats.step.p50, 0);
  for (std::size_t i = 0; i < 10; ++i) latest.add(100, 3, 40);
  latest.add_to(stats);
  EXPECT_EQ(stats.bubble.p50, 60);
  for (std::size_t i = 1; i <= kLatestSteps; ++i) latest.add(static_cast<double>(i), 5000, 1);
  latest.add_to(stats);
  EXPECT_EQ(stats.step.p50, kLatestSteps / 2);
  EXPECT_EQ(stats.step.p99, 4056);  // the 0.99 x 4096th, rounded up
  EXPECT_EQ(stats.bubble.p99, 0) << "no less";
  latest.clear();
  latest.add(7, 3, std::nullopt);
  latest.add_to(stats);
  EXPECT_EQ(stats.step.p99, 7);
  EXPECT_EQ(stats.bubble.p99, 4);
  stats.t_x = 5;  // that of a step whose copy was not timed
  latest.add_to(stats);
  EXPECT_EQ(stats.bubble.p99, 2);
}

TEST(StepQuantiles, AfterAResetOnlyWhatComesThenCounts) {
  Stats before;
  Stats after;
  in_virtual_time([&] {
    const Numbers data({.size = kBatchSize * 400, .pattern_bytes = 92});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, {.batch_size = kBatchSize, .sample_every = 2});
    for (Lease& batch : feed.epoch(0, stream)) {
      stream.launch_host([] {}, batch.index() < 200 ? 5000ns : 1000ns);
      const bool warm = batch.index() == 199;
      batch.release();
      if (!warm) continue;
      stream.sync();
      before = feed.stats();
      feed.reset_stats();
    }
    stream.sync();
    after = feed.stats();
  });
  EXPECT_EQ(before.batches, 200U);
  EXPECT_NEAR(before.t_step, 5000e-9, 5000e-9 * kRounding);
  EXPECT_EQ(after.batches, 200U);
  EXPECT_NEAR(after.t_step, 1000e-9, 1000e-9 * kRounding);
  EXPECT_DOUBLE_EQ(after.step.p99, 1000e-9);
}

}  // namespace latest_steps_test
}  // namespace leat::feeder
