// What a prefetcher says about itself: on a modelled device under virtual time, each number is
// known by arithmetic.
#include "leat/feeder/stats.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace stats_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::kPlaces;
using support::launch_check;
using support::place_title;

constexpr std::size_t kBatchSize = 4;
constexpr std::size_t kPatternBytes = 92;
constexpr double kTx = 400e-9;  // 4 samples of 100 bytes at a byte a nanosecond
const gpu::HostModel kByteANanosecond = {.h2d_bandwidth = 1e9};
const support::NumbersOptions k200Batches = {.size = 200 * kBatchSize,
                                             .pattern_bytes = kPatternBytes};

// For sums of numbers that no double is exactly.
constexpr double kRounding = 1e-12;

struct Modelled {
  Duration sample_read = 0ns;
  Duration tc = 0ns;
  Duration rest = 0ns;  // of the loop, after the batch was released
  std::size_t batches = 200;
  bool on_stream = true;  // or on the CPU
};

// `on_stream`: on the feed's stream, or on the CPU.
Epoch pass(NumbersFeed& feed, std::uint64_t epoch, bool on_stream) {
  return on_stream ? feed.epoch(epoch, feed.stream) : feed.epoch(epoch);
}
void use(NumbersFeed& feed, Lease& batch, Duration tc, bool on_stream) {
  if (on_stream) return feed.launch_check(batch, tc);
  feed.check(batch);
  sleep_for(tc);
}

Stats measure(const Modelled& model, PrefetcherOptions options) {
  options.batch_size = kBatchSize;
  Stats stats;
  in_virtual_time([&] {
    NumbersFeed feed({.size = kBatchSize * model.batches,
                      .pattern_bytes = kPatternBytes,
                      .read_time = model.sample_read},
                     options, kByteANanosecond);
    for (Lease& batch : pass(feed, 0, model.on_stream)) {
      use(feed, batch, model.tc, model.on_stream);
      batch.release();
      sleep_for(model.rest);
    }
    feed.stream.sync();
    stats = feed.stats();
  });
  return stats;
}

void expect_adds_up(const StageShares& shares) {
  EXPECT_DOUBLE_EQ(shares.busy + shares.starved + shares.blocked, 1);
  EXPECT_GE(shares.busy, 0);
  EXPECT_GE(shares.starved, 0);
  EXPECT_GE(shares.blocked, 0);
}

void expect_shares(const StageShares& shares, double busy, double starved, double blocked) {
  expect_adds_up(shares);
  EXPECT_NEAR(shares.busy, busy, kRounding);
  EXPECT_NEAR(shares.starved, starved, kRounding);
  EXPECT_NEAR(shares.blocked, blocked, kRounding);
}

TEST(FeederStats, OfAConsumerThatLimitsTheLoop) {
  const Stats stats = measure({.tc = 1000ns}, {.sample_every = 2});
  EXPECT_EQ(stats.batches, 200U);
  EXPECT_GE(stats.sampled_steps, 50U);
  EXPECT_NEAR(stats.t_read, 0, kRounding * 1e-9);
  EXPECT_NEAR(stats.t_x, kTx, kTx * kRounding);
  EXPECT_NEAR(stats.t_c, 1000e-9, 1000e-9 * kRounding);
  EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
  EXPECT_NEAR(stats.overlap_efficiency(), 1, kRounding);
  expect_shares(stats.consumer, 1, 0, 0);
  // The copier waits for a released slot, but not the first time that it is measured.
  const auto steps = static_cast<double>(stats.sampled_steps);
  const double blocked = 0.6 * (steps - 1) / steps;
  expect_shares(stats.copier, 0.4, 0.6 - blocked, blocked);
  expect_shares(stats.reader, 0, 0, 1);
  expect_begins(stats.bottleneck(), "The consumer limits the loop (Tc is 100.0 % of the step)");
}

TEST(FeederStats, OfALinkThatLimitsTheLoop) {
  const Stats stats = measure({.sample_read = 10ns, .tc = 100ns}, {.sample_every = 2});
  EXPECT_NEAR(stats.t_read, 40e-9, 40e-9 * kRounding);
  EXPECT_NEAR(stats.t_step, kTx, kTx * kRounding);
  EXPECT_NEAR(stats.overlap_efficiency(), 1, kRounding);
  expect_shares(stats.consumer, 0.25, 0.75, 0);
  expect_shares(stats.copier, 1, 0, 0);
  expect_shares(stats.reader, 0.1, 0, 0.9);
  expect_begins(stats.bottleneck(), "The link limits the loop (Tx is 100.0 % of the step)");
}

TEST(FeederStats, OfOneReaderThatLimitsTheLoop) {
  const Stats stats = measure({.sample_read = 300ns, .tc = 300ns}, {.sample_every = 2});
  EXPECT_NEAR(stats.t_read, 1200e-9, 1200e-9 * kRounding);
  EXPECT_NEAR(stats.t_step, 1200e-9, 1200e-9 * kRounding);
  EXPECT_NEAR(stats.overlap_efficiency(), 400.0 / 1200, kRounding);
  EXPECT_NEAR(stats.feed_efficiency(), 1, kRounding);
  EXPECT_NEAR(stats.hidden_fraction(), 0, kRounding);
  EXPECT_NEAR(stats.bubble.p50, 800e-9, 800e-9 * kRounding);
  expect_shares(stats.consumer, 0.25, 0.75, 0);
  expect_shares(stats.copier, 400.0 / 1200, 800.0 / 1200, 0);
  expect_shares(stats.reader, 1, 0, 0);
  EXPECT_EQ(stats.bottleneck(),
            "The readers limit the loop (Tread / workers is 100.0 % of the step): 3 workers "
            "instead of 1 and 5 pinned slots instead of 3: +200 %, then limited by the link, at "
            "400 ns a step; or a faster dataset.");
}

TEST(FeederStats, OfCopiesAndComputeThatTakeTurns) {
  const Stats stats = measure({.tc = 600ns}, {.prefetch_depth = 1, .sample_every = 2});
  EXPECT_EQ(stats.prefetch_depth, 1U);
  EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
  EXPECT_NEAR(stats.overlap_efficiency(), 0.6, kRounding);
  EXPECT_NEAR(stats.feed_efficiency(), 0.6, kRounding);
  EXPECT_NEAR(stats.hidden_fraction(), 0, kRounding);
  EXPECT_NEAR(stats.bubble.p50, 400e-9, 400e-9 * kRounding);
  EXPECT_NEAR(stats.step.p99, 1000e-9, 1000e-9 * kRounding);
  expect_shares(stats.consumer, 0.6, 0.4, 0);
  expect_shares(stats.copier, 0.4, 0, 0.6);
  EXPECT_EQ(
      stats.bottleneck(),
      "Copies and compute take turns, because prefetch_depth is 1: with 2 they overlap, and a "
      "step takes max(Tc, Tx) = 600 ns instead of 1.00 us.");
}

TEST(FeederStats, OfTooFewSlotsSayThatNoStageIsSaturated) {
  const Stats stats = measure({.sample_read = 250ns, .tc = 100ns, .batches = 2000},
                              {.workers = 2, .pinned_slots = 2, .sample_every = 2});
  EXPECT_NEAR(stats.t_step, 700e-9, 70e-9);  // (Tread + Tx) / P, in bursts of two
  expect_adds_up(stats.consumer);
  expect_adds_up(stats.copier);
  expect_adds_up(stats.reader);
  expect_begins(stats.bottleneck(), "No stage is saturated");
}

// Readers that begin together end together: the batches come in bursts of as many as there are
// readers. Steps that are measured at a fixed distance would all be the short ones.
TEST(FeederStats, BurstsOfSeveralReadersAreNotMistakenForFastSteps) {
  for (const std::size_t workers : {2U, 3U, 4U}) {
    for (const std::size_t sample_every : {2U, 6U, 16U}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, every " << sample_every);
      const Duration sample_read = static_cast<std::int64_t>(workers) * 500ns;  // Tread / W: 2 us
      const Stats stats =
          measure({.sample_read = sample_read, .tc = 300ns, .batches = 150 * sample_every},
                  {.workers = workers, .sample_every = sample_every});
      EXPECT_EQ(stats.workers, workers);
      // The mean of at least 100 steps of 400 ns, and of some that are up to W * 2 us long.
      EXPECT_NEAR(stats.t_step, 2000e-9, 600e-9);
      EXPECT_NEAR(stats.overlap_efficiency(), 0.2, 0.1);
      expect_adds_up(stats.consumer);
      expect_adds_up(stats.copier);
      expect_adds_up(stats.reader);
    }
  }
}

// The CPU's wait for the copy is no work of the consumer.
TEST(FeederStats, OfAConsumerWithoutStreamInTurnsWithTheLink) {
  const Stats stats =
      measure({.tc = 600ns, .on_stream = false}, {.prefetch_depth = 1, .sample_every = 2});
  EXPECT_EQ(stats.sampled_steps, 199U);  // on the host each is measured but an epoch's first
  EXPECT_NEAR(stats.t_c, 600e-9, 600e-9 * kRounding);
  EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
  EXPECT_NEAR(stats.t_x, kTx, kTx * kRounding);
  EXPECT_NEAR(stats.overlap_efficiency(), 0.6, kRounding);
  expect_shares(stats.consumer, 0.6, 0.4, 0);
  expect_shares(stats.copier, 0.4, 0, 0.6);
}

TEST(FeederStats, OfALoopThatDoesOtherThingsBetweenBatches) {
  for (const bool on_stream : {true, false}) {
    const Stats stats = measure({.tc = 1000ns, .rest = 3000ns, .on_stream = on_stream}, {});
    // On a stream the rest of the loop goes on beside the kernels.
    const double step = on_stream ? 3000 : 4000;
    EXPECT_NEAR(stats.t_step, step * 1e-9, step * 1e-9 * kRounding);
    EXPECT_NEAR(stats.t_c, 1000e-9, 1000e-9 * kRounding);
    expect_shares(stats.consumer, 1000 / step, 0, 1 - 1000 / step);
    EXPECT_EQ(stats.bottleneck(),
              on_stream ? "The rest of the loop limits it: 66.7 % of the step pass between the "
                          "release of a batch and the request of the next, Tc is 33.3 %."
                        : "The rest of the loop limits it: 75.0 % of the step pass between the "
                          "release of a batch and the request of the next, Tc is 25.0 %.");
  }
}

// The host runs ahead and waits for a slot, but the stream works on without the batch: nothing is
// starved.
TEST(FeederStats, OfALoopThatDoesOtherThingsOnItsStream) {
  in_virtual_time([] {
    NumbersFeed feed(k200Batches, {.batch_size = kBatchSize, .sample_every = 2}, kByteANanosecond);
    for (Lease& batch : feed.epoch(0, feed.stream)) {
      feed.launch_check(batch, 2000ns);
      batch.release();
      feed.stream.launch_host([] {}, 3000ns);
    }
    feed.stream.sync();
    const Stats stats = feed.stats();
    EXPECT_NEAR(stats.t_step, 5000e-9, 5000e-9 * kRounding);
    expect_shares(stats.consumer, 0.4, 0, 0.6);
    expect_begins(stats.bottleneck(), "The rest of the loop limits it: 60.0 %");
  });
}

// Of two batches that are held at a time one is worked on.
TEST(FeederStats, OfSeveralLeasesAtATimeCountNoWorkTwice) {
  for (const bool on_stream : {true, false}) {
    in_virtual_time([&] {
      NumbersFeed feed(k200Batches, {.batch_size = kBatchSize, .max_leases = 2, .sample_every = 2},
                       kByteANanosecond);
      std::optional<Lease> before;
      while (std::optional<Lease> batch = feed.next()) {
        use(feed, *batch, 2000ns, on_stream);
        before = std::move(batch);  // releases the one before
      }
      before.reset();
      feed.stream.sync();
      const Stats stats = feed.stats();
      EXPECT_GE(stats.sampled_steps, 50U);
      EXPECT_NEAR(stats.t_step, 2000e-9, 2000e-9 * 0.02);
      EXPECT_LE(stats.overlap_efficiency(), 1 + kRounding);
      EXPECT_GE(stats.overlap_efficiency(), 0.97);
      expect_adds_up(stats.consumer);
    });
  }
}

TEST(FeederStats, OfSeveralReadersThatShareTheirWork) {
  const Stats stats =
      measure({.sample_read = 300ns, .tc = 1000ns}, {.workers = 2, .sample_every = 2});
  EXPECT_NEAR(stats.t_read, 1200e-9, 1200e-9 * kRounding);
  EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
  expect_shares(stats.reader, 0.6, 0, 0.4);
}

// What a program does between epochs (a test of the model, a checkpoint) belongs to no step.
TEST(FeederStats, TheTimeBetweenEpochsIsNotMeasured) {
  for (const bool on_stream : {true, false}) {
    in_virtual_time([&] {
      NumbersFeed feed({.size = 5 * kBatchSize, .pattern_bytes = kPatternBytes},
                       {.batch_size = kBatchSize, .sample_every = 1}, kByteANanosecond);
      for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
        for (Lease& batch : pass(feed, epoch, on_stream)) use(feed, batch, 1000ns, on_stream);
        feed.stream.sync();
        sleep_for(1h);
      }
      const Stats stats = feed.stats();
      EXPECT_GE(stats.sampled_steps, 50U);
      EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
      expect_shares(stats.consumer, 1, 0, 0);
    });
  }
}

TEST(FeederStats, SampleEverySaysHowManyStepsAreMeasuredAndChangesNoResult) {
  const auto sampled = [](std::size_t every) {
    const Stats stats = measure({.tc = 1000ns, .batches = 480}, {.sample_every = every});
    EXPECT_EQ(stats.batches, 480U);
    EXPECT_DOUBLE_EQ(stats.batch_bytes, 400);
    if (stats.sampled_steps > 0) {
      EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
      EXPECT_NEAR(stats.t_x, kTx, kTx * kRounding);
    }
    return stats.sampled_steps;
  };
  EXPECT_EQ(sampled(0), 0U);
  EXPECT_EQ(sampled(1), sampled(2));
  EXPECT_GE(sampled(2), 480U / 3);
  EXPECT_LE(sampled(2), 480U / 2);
  EXPECT_GE(sampled(16), 480U / 30);
  EXPECT_LE(sampled(16), 480U / 8);
  EXPECT_EQ(sampled(1000), 0U);
}

TEST(FeederStats, WithoutSamplesAreStillCountedAndSaySo) {
  const Stats stats = measure({.sample_read = 10ns, .tc = 1000ns}, {.sample_every = 0});
  EXPECT_EQ(stats.batches, 200U);
  EXPECT_EQ(stats.sampled_steps, 0U);
  EXPECT_NEAR(stats.t_read, 40e-9, 40e-9 * kRounding);
  EXPECT_EQ(stats.t_x, 0);
  EXPECT_EQ(stats.t_c, 0);
  EXPECT_EQ(stats.t_step, 0);
  EXPECT_EQ(stats.overlap_efficiency(), 0);
  expect_begins(stats.bottleneck(), "No step was sampled");
}

TEST(FeederStats, SurviveLeasesReleasedOutOfOrder) {
  in_virtual_time([] {
    NumbersFeed feed({.size = 400}, {.batch_size = 4, .max_leases = 2, .sample_every = 1},
                     kByteANanosecond);
    const gpu::Stream other(feed.device);
    for (int i = 0; i < 50; ++i) {
      Lease first = *feed.next();
      Lease second = *feed.next();
      feed.launch_check(first, 500ns);
      launch_check(other, second, feed.want(second), 100ns);
      second.release();
      first.release();
      const Stats stats = feed.stats();
      if (stats.t_step <= 0) continue;
      expect_adds_up(stats.consumer);
      expect_adds_up(stats.copier);
      expect_adds_up(stats.reader);
      EXPECT_FALSE(stats.table().empty());
    }
    EXPECT_EQ(feed.stats().batches, 100U);
  });
}

class FeederStatsPlace : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, FeederStatsPlace, testing::ValuesIn(kPlaces), place_title);

TEST_P(FeederStatsPlace, BeforeAnyStepAreZeroAndSaySo) {
  in_place([] {
    NumbersFeed feed({.size = 64}, {.batch_size = 4, .workers = 3});
    const Stats stats = feed.stats();
    EXPECT_EQ(stats.batches, 0U);
    EXPECT_EQ(stats.sampled_steps, 0U);
    EXPECT_EQ(stats.workers, 3U);
    EXPECT_EQ(stats.prefetch_depth, 2U);
    EXPECT_EQ(stats.t_step, 0);
    EXPECT_EQ(stats.overlap_efficiency(), 0);
    expect_begins(stats.bottleneck(), "No step was sampled");
    EXPECT_NE(stats.table().find("No step was sampled"), std::string::npos);
  });
}

TEST_P(FeederStatsPlace, MayBeReadWhileTheLoopRuns) {
  in_place([] {
    NumbersFeed feed({.size = 400}, {.batch_size = 4, .sample_every = 2});
    std::uint64_t before = 0;
    for (Lease& batch : feed.epoch(0, feed.stream)) {
      feed.launch_check(batch);
      const Stats stats = feed.stats();
      EXPECT_EQ(stats.batches, batch.index());
      EXPECT_GE(stats.sampled_steps, before);
      before = stats.sampled_steps;
    }
    feed.stream.sync();
  });
}

}  // namespace stats_test
}  // namespace leat::feeder
