// When a step ends, whatever the loop does with its batches: on a modelled device in virtual time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/host_model.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace step_ends_test {

using namespace std::chrono_literals;
using support::in_virtual_time;

constexpr std::size_t kBatchSize = 4;
constexpr std::size_t kPatternBytes = 92;
const gpu::HostModel kByteANanosecond = {.h2d_bandwidth = 1e9};
const support::NumbersOptions k200Batches = {.size = 200 * kBatchSize,
                                             .pattern_bytes = kPatternBytes};

// For sums of numbers that no double is exactly.
constexpr double kRounding = 1e-12;

// A loop whose variable holds a batch until the next one is assigned to it: that it waits for a
// batch is no work on the one before.
TEST(StepEnds, OfALoopThatHoldsABatchWhileItAsksForTheNext) {
  for (const bool on_stream : {true, false}) {
    in_virtual_time([&] {
      NumbersFeed feed(
          {.size = 200 * kBatchSize, .pattern_bytes = kPatternBytes, .read_time = 300ns},
          {.batch_size = kBatchSize, .max_leases = 2, .sample_every = 2}, kByteANanosecond);
      std::optional<Lease> held;
      while (std::optional<Lease> batch = feed.next()) {
        held = std::move(batch);  // releases the one before
        if (on_stream) {
          feed.launch_check(*held, 250ns);
        } else {
          feed.check(*held);
          sleep_for(250ns);
        }
        if (held->index() == 199) break;
      }
      held.reset();
      feed.stream.sync();
      const Stats stats = feed.stats();
      EXPECT_GE(stats.sampled_steps, 50U);
      EXPECT_NEAR(stats.t_c, 250e-9, 250e-9 * 0.01) << on_stream;
      EXPECT_NEAR(stats.t_step, 1200e-9, 1200e-9 * 0.02);
      EXPECT_NEAR(stats.consumer.busy, 250.0 / 1200, 0.01);
      EXPECT_NEAR(stats.consumer.starved, 950.0 / 1200, 0.02);
      expect_begins(stats.bottleneck(), "The readers limit the loop");
    });
  }
}

// What the host does before it asks cannot be told from work, but that the device idles can.
TEST(StepEnds, OfALoopWhoseDeviceIsIdleWhenItAsks) {
  for (const std::size_t leases : {1U, 2U}) {
    for (const Duration rest : {0ns, 3000ns}) {
      in_virtual_time([&] {
        NumbersFeed feed(k200Batches,
                         {.batch_size = kBatchSize, .max_leases = leases, .sample_every = 2},
                         kByteANanosecond);
        std::optional<Lease> held;
        for (int i = 0; i < 200; ++i) {
          if (leases == 1) held.reset();
          std::optional<Lease> batch = feed.next();
          feed.launch_check(*batch, 1000ns);
          held = std::move(batch);
          sleep_for(rest);
        }
        held.reset();
        feed.stream.sync();
        const Stats stats = feed.stats();
        const bool is_idle = rest > 0ns;
        EXPECT_NEAR(stats.idle_ends, is_idle ? 1 : 0, 0.05);
        EXPECT_EQ(stats.t_c_is_upper_bound(), is_idle);
        if (is_idle) {  // Tx is 400 ns
          expect_begins(stats.bottleneck(), "The consumer limits the loop (Tc is at most ");
          expect_contains(stats.table(),
                          {"  consumer   Tc    <= 3.00 us  works at most 100.0 %\n",
                           "Tstep = 0.133 to 1.000   bubble >= 0.00 ns   hidden <= 100.0 % of Tx"});
        } else {
          expect_begins(stats.bottleneck(), "The consumer limits the loop (Tc is 100.0 % of");
          EXPECT_EQ(stats.table().find("<="), std::string::npos) << stats.table();
        }
      });
    }
  }
}

// What counts is how much of the time is in such steps: here a fifth of the steps, most of the
// time.
TEST(StepEnds, OfALoopThatRestsNowAndThen) {
  in_virtual_time([&] {
    NumbersFeed feed(k200Batches, {.batch_size = kBatchSize, .max_leases = 2, .sample_every = 1},
                     kByteANanosecond);
    std::optional<Lease> held;
    for (int i = 0; i < 200; ++i) {
      std::optional<Lease> batch = feed.next();
      feed.launch_check(*batch, 1000ns);
      held = std::move(batch);
      if (i % 5 == 0) sleep_for(20'000ns);
    }
    held.reset();
    feed.stream.sync();
    const Stats stats = feed.stats();
    EXPECT_GT(stats.idle_ends, 0.7);
    EXPECT_TRUE(stats.t_c_is_upper_bound());
    expect_begins(stats.bottleneck(), "The consumer limits the loop (Tc is at most ");
  });
}

// When a receiver is asked for a batch is not seen: the wait counts as work on the batch that is
// held, but the stage that is certainly busy is named.
TEST(StepEnds, OfALoopThatHoldsABatchWhileItWaitsForAReceiver) {
  in_virtual_time([&] {
    NumbersFeed feed({.size = 200 * kBatchSize, .pattern_bytes = kPatternBytes, .read_time = 300ns},
                     {.batch_size = kBatchSize, .max_leases = 2, .sample_every = 2},
                     kByteANanosecond);
    const Receiver<Lease> batches = feed.receiver(0, feed.stream);
    std::optional<Lease> held;
    while (std::optional<Lease> batch = batches.recv()) {
      feed.launch_check(*batch, 250ns);
      held = std::move(batch);
    }
    held.reset();
    feed.stream.sync();
    const Stats stats = feed.stats();
    EXPECT_NEAR(stats.t_step, 1200e-9, 1200e-9 * 0.02);
    EXPECT_TRUE(stats.t_c_is_upper_bound());
    EXPECT_GE(stats.t_c, 250e-9);
    expect_begins(stats.bottleneck(), "The readers limit the loop");
    expect_contains(stats.bottleneck(), {"How much is not known"});
  });
}

// Everybody's first benchmark of a reader.
TEST(StepEnds, OfALoopThatTakesNoTensor) {
  for (const bool awaits : {true, false}) {
    in_virtual_time([&] {
      NumbersFeed feed(k200Batches, {.batch_size = kBatchSize}, kByteANanosecond);
      std::size_t samples = 0;
      for (Lease& batch : feed.epoch(0)) {
        samples += batch.size();
        if (awaits) batch.await();
        if (awaits) batch.await();  // which has no effect
        sleep_for(1000ns);
      }
      EXPECT_EQ(samples, 200 * kBatchSize);
      const Stats stats = feed.stats();
      EXPECT_EQ(stats.sampled_steps, 199U);
      EXPECT_NEAR(stats.t_c, 1000e-9, 1000e-9 * kRounding);
      EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
      EXPECT_NEAR(stats.samples_per_second, kBatchSize / 1000e-9, 1);
      EXPECT_NEAR(stats.consumer.busy, 1, kRounding);
      expect_begins(stats.bottleneck(), "The consumer limits the loop (Tc is 100.0 % of the step)");
    });
  }
}

TEST(StepEnds, OfStepsThatDifferGiveAnUncertainMean) {
  for (const bool are_even : {true, false}) {
    in_virtual_time([&] {
      NumbersFeed feed(k200Batches, {.batch_size = kBatchSize, .sample_every = 4},
                       kByteANanosecond);
      for (Lease& batch : feed.epoch(0, feed.stream)) {
        feed.launch_check(batch, are_even || batch.index() % 2 == 0 ? 1000ns : 2000ns);
      }
      feed.stream.sync();
      const Stats stats = feed.stats();
      if (are_even) {
        EXPECT_LT(stats.t_step_error, 1e-6 * stats.t_step);
      } else {  // 500 ns is how far a step is from their mean
        const auto steps = static_cast<double>(stats.sampled_steps);
        EXPECT_NEAR(stats.t_step_error, 500e-9 / std::sqrt(steps), 0.1 * stats.t_step_error);
      }
      const bool is_told = stats.table().find("(standard error)") != std::string::npos;
      EXPECT_NE(is_told, are_even) << stats.table();
    });
  }
}

}  // namespace step_ends_test
}  // namespace leat::feeder
