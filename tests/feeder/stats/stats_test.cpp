// What a prefetcher says about itself: on a modelled device under virtual time, each number is
// known by arithmetic.
#include "leat/feeder/stats.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/places.h"

namespace leat::feeder {
namespace stats_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersView;
using support::place_title;

constexpr std::size_t kBatchSize = 4;
constexpr std::size_t kPatternBytes = 92;
constexpr double kTx = 400e-9;  // 4 samples of 100 bytes at a byte a nanosecond

// For sums of numbers that no double is exactly.
constexpr double kRounding = 1e-12;

struct Modelled {
  Duration sample_read = 0ns;
  Duration tc = 0ns;
  Duration rest = 0ns;  // of the loop, after the batch was released
  std::size_t batches = 200;
  bool on_stream = true;  // or on the CPU
};

Stats measure(const Modelled& model, PrefetcherOptions options) {
  Stats stats;
  VirtualClock clock;
  options.batch_size = kBatchSize;
  const auto body = [&] {
    const Numbers data({.size = kBatchSize * model.batches,
                        .pattern_bytes = kPatternBytes,
                        .read_time = model.sample_read});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, options);
    if (model.on_stream) {
      for (Lease& batch : feed.epoch(0, stream)) {
        launch_check(stream, batch, expected_samples(data, options, batch), model.tc);
        batch.release();
        sleep_for(model.rest);
      }
    } else {
      for (Lease& batch : feed.epoch(0)) {
        EXPECT_EQ(NumbersView(batch).samples(), expected_samples(data, options, batch));
        sleep_for(model.tc);
        batch.release();
        sleep_for(model.rest);
      }
    }
    stream.sync();
    stats = feed.stats();
  };
  run(body, {.workers = 1, .clock = &clock});
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

void expect_begins(const std::string& text, const std::string& beginning) {
  EXPECT_EQ(text.substr(0, beginning.size()), beginning);
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

// Tc alone is 91 % of the step, and yet it is not the consumer that could be faster.
TEST(FeederStats, OfShortCopiesThatTakeTurnsWithCompute) {
  Stats stats;
  stats.batches = 100;
  stats.sampled_steps = stats.timed_copies = 50;
  stats.workers = 1;
  stats.prefetch_depth = stats.device_slots = 1;
  stats.pinned_slots = 2;
  stats.t_x = 0.5e-3;
  stats.t_c = 5e-3;
  stats.t_step = 5.5e-3;
  stats.consumer = {.busy = 5 / 5.5, .starved = 0.5 / 5.5, .blocked = 0};
  expect_begins(stats.bottleneck(),
                "Copies and compute take turns, because prefetch_depth is 1: with 2 they overlap, "
                "and a step takes max(Tc, Tx) = 5.00 ms instead of 5.50 ms.");
  // With 2 the readers would limit it.
  stats.t_read = 5.3e-3;
  expect_begins(stats.bottleneck(),
                "Copies and compute take turns, because prefetch_depth is 1: with 2 they overlap, "
                "and a step takes 5.30 ms instead of 5.50 ms.");
  // There is nothing to gain.
  stats.t_read = 5.5e-3;
  expect_begins(stats.bottleneck(), "The readers limit the loop");
  stats.t_read = 0;
  stats.t_x = 0.05e-3;
  stats.t_step = 5.05e-3;
  expect_begins(stats.bottleneck(), "The consumer limits the loop");
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
    for (const std::size_t sample_every : {1U, 2U, 4U, 6U, 16U}) {
      SCOPED_TRACE(testing::Message() << workers << " workers, every " << sample_every);
      const Duration sample_read = static_cast<std::int64_t>(workers) * 500ns;  // Tread / W: 2 us
      const Stats stats = measure({.sample_read = sample_read, .tc = 300ns, .batches = 2400},
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

TEST(FeederStats, OfAConsumerWithoutStreamThatLimitsTheLoop) {
  const Stats stats = measure({.tc = 1000ns, .on_stream = false}, {});
  EXPECT_NEAR(stats.t_c, 1000e-9, 1000e-9 * kRounding);
  EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
  expect_shares(stats.consumer, 1, 0, 0);
  expect_begins(stats.bottleneck(), "The consumer limits the loop (Tc is 100.0 % of the step)");
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
  VirtualClock clock;
  const auto body = [] {
    const Numbers data({.size = 200 * kBatchSize, .pattern_bytes = kPatternBytes});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    const PrefetcherOptions options = {.batch_size = kBatchSize, .sample_every = 2};
    Prefetcher feed(data, device, options);
    for (Lease& batch : feed.epoch(0, stream)) {
      launch_check(stream, batch, expected_samples(data, options, batch), 2000ns);
      batch.release();
      stream.launch_host([] {}, 3000ns);
    }
    stream.sync();
    const Stats stats = feed.stats();
    EXPECT_NEAR(stats.t_step, 5000e-9, 5000e-9 * kRounding);
    expect_shares(stats.consumer, 0.4, 0, 0.6);
    expect_begins(stats.bottleneck(), "The rest of the loop limits it: 60.0 %");
  };
  run(body, {.workers = 1, .clock = &clock});
}

// Of two batches that are held at a time one is worked on.
TEST(FeederStats, OfSeveralLeasesAtATimeCountNoWorkTwice) {
  for (const bool on_stream : {true, false}) {
    VirtualClock clock;
    const auto body = [&] {
      const Numbers data({.size = 200 * kBatchSize, .pattern_bytes = kPatternBytes});
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      const gpu::Stream stream(device);
      const PrefetcherOptions options = {
          .batch_size = kBatchSize, .max_leases = 2, .sample_every = 2};
      Prefetcher feed(data, device, options);
      std::optional<Lease> before;
      while (std::optional<Lease> batch = feed.next()) {
        const auto want = expected_samples(data, options, *batch);
        if (on_stream) {
          launch_check(stream, *batch, want, 2000ns);
        } else {
          EXPECT_EQ(NumbersView(*batch).samples(), want);
          sleep_for(2000ns);
        }
        before = std::move(batch);  // releases the one before
      }
      before.reset();
      stream.sync();
      const Stats stats = feed.stats();
      EXPECT_GE(stats.sampled_steps, 50U);
      EXPECT_NEAR(stats.t_step, 2000e-9, 2000e-9 * 0.02);
      EXPECT_LE(stats.overlap_efficiency(), 1 + kRounding);
      EXPECT_GE(stats.overlap_efficiency(), 0.97);
      expect_adds_up(stats.consumer);
    };
    run(body, {.workers = 1, .clock = &clock});
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
    VirtualClock clock;
    const auto body = [&] {
      const Numbers data({.size = 5 * kBatchSize, .pattern_bytes = kPatternBytes});
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      const gpu::Stream stream(device);
      const PrefetcherOptions options = {.batch_size = kBatchSize, .sample_every = 1};
      Prefetcher feed(data, device, options);
      for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
        if (on_stream) {
          for (Lease& batch : feed.epoch(epoch, stream)) {
            launch_check(stream, batch, expected_samples(data, options, batch), 1000ns);
          }
        } else {
          for (Lease& batch : feed.epoch(epoch)) {
            EXPECT_EQ(NumbersView(batch).samples(), expected_samples(data, options, batch));
            sleep_for(1000ns);
          }
        }
        stream.sync();
        sleep_for(1h);
      }
      const Stats stats = feed.stats();
      EXPECT_GE(stats.sampled_steps, 50U);
      EXPECT_NEAR(stats.t_step, 1000e-9, 1000e-9 * kRounding);
      expect_shares(stats.consumer, 1, 0, 0);
    };
    run(body, {.workers = 1, .clock = &clock});
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
  VirtualClock clock;
  const auto body = [] {
    const Numbers data({.size = 400});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream streams[] = {gpu::Stream(device), gpu::Stream(device)};
    const PrefetcherOptions options = {.batch_size = 4, .max_leases = 2, .sample_every = 1};
    Prefetcher feed(data, device, options);
    for (int i = 0; i < 50; ++i) {
      Lease first = *feed.next();
      Lease second = *feed.next();
      launch_check(streams[0], first, expected_samples(data, options, first), 500ns);
      launch_check(streams[1], second, expected_samples(data, options, second), 100ns);
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
  };
  run(body, {.workers = 1, .clock = &clock});
}

class FeederStatsPlace : public support::PlaceTest {};
INSTANTIATE_TEST_SUITE_P(Places, FeederStatsPlace, testing::ValuesIn(kPlaces), place_title);

TEST_P(FeederStatsPlace, BeforeAnyStepAreZeroAndSaySo) {
  in_place([] {
    const Numbers data({.size = 64});
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 4, .workers = 3});
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
    const Numbers data({.size = 400});
    const PrefetcherOptions options = {.batch_size = 4, .sample_every = 2};
    const gpu::Device device = gpu::open("host");
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, options);
    std::uint64_t before = 0;
    for (Lease& batch : feed.epoch(0, stream)) {
      launch_check(stream, batch, expected_samples(data, options, batch));
      const Stats stats = feed.stats();
      EXPECT_EQ(stats.batches, batch.index());
      EXPECT_GE(stats.sampled_steps, before);
      before = stats.sampled_steps;
    }
    stream.sync();
  });
}

// The texts, from numbers made up.

TEST(FeederStats, TheTableShowsSharesTimesAndTheBottleneck) {
  const Stats stats = {.batches = 320,
                       .sampled_steps = 20,
                       .workers = 2,
                       .prefetch_depth = 2,
                       .batch_bytes = 400,
                       .t_read = 12.3e-6,
                       .t_x = 2.5e-3,
                       .t_c = 99.96e-3,
                       .t_step = 0.1,
                       .step = {.p50 = 99.9e-3, .p99 = 0.12},
                       .bubble = {.p50 = 1.5e-6, .p99 = 20e-3},
                       .reader = {.busy = 0.1, .starved = 0, .blocked = 0.9},
                       .copier = {.busy = 0.025, .starved = 0.005, .blocked = 0.97},
                       .consumer = {.busy = 1, .starved = 0, .blocked = 0}};
  EXPECT_EQ(stats.table(),
            "  stage           busy   starved   blocked\n"
            "  reader        10.0 %     0.0 %    90.0 %\n"
            "  copier         2.5 %     0.5 %    97.0 %\n"
            "  consumer     100.0 %     0.0 %     0.0 %\n"
            "  Tread 12.3 us / 2 workers   Tx 2.50 ms   Tc 100 ms   Tstep 100 ms\n"
            "  OE = max(Tc, Tx) / Tstep = 1.000   (20 steps sampled of 320)\n"
            "  bubble 1.50 us (p99 20.0 ms)   Tstep 99.9 ms (p99 120 ms)   hidden 98.4 %   feed "
            "efficiency 1.000\n"
            "  The consumer limits the loop (Tc is 100.0 % of the step): reading and copying are "
            "hidden behind it, and only a faster step helps.\n");
}

TEST(FeederStats, TheReportHasRanksMemoryAndWhatWasLeftOut) {
  std::string report;
  VirtualClock clock;
  run(
      [&] {
        const Numbers data({.size = kBatchSize * 100,
                            .pattern_bytes = kPatternBytes,
                            .read_time = 200ns,
                            .on_read = [](std::uint64_t sample) {
                              if (sample == 7) throw std::range_error("torn");
                            }});
        const std::vector<gpu::Device> devices = {gpu::open_host({.h2d_bandwidth = 1e9}),
                                                  gpu::open_host({.h2d_bandwidth = 1e9}, 1)};
        Prefetcher prefetcher(data, devices,
                              {.batch_size = 2 * kBatchSize,
                               .pinned_slots = 3,
                               .read_failures = {.count = 1},
                               .autotune = Autotune{.max_workers = 2, .every = 8},
                               .max_pinned_bytes = 1'000'000,
                               .sample_every = 2});
        TaskGroup group;
        for (std::size_t rank = 0; rank < 2; ++rank) {
          group.go([&, rank] {
            const gpu::Stream stream(devices[rank]);
            for (Lease& batch : prefetcher.rank(rank).epoch(0, stream)) {
              stream.launch_host([] {}, 100ns);
              static_cast<void>(batch);
            }
            stream.sync();
          });
        }
        group.wait();
        report = prefetcher.report();
      },
      {.workers = 1, .clock = &clock});
  for (const char* const part :
       {"rank 0 on host:0\n", "rank 1 on host:1\n", "Tread 800 ns", "copies at 1.00 GB/s\n",
        " kB of at most 1.00 MB, device", " each\n", "1 samples failed and were left out",
        "autotune: 1 changes", "workers from 1 to 2"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << " is not in\n" << report;
  }
}

TEST(FeederStats, TheOverlapEfficiencyIsTheLongerOfComputeAndCopyOverTheStep) {
  Stats stats;
  stats.t_x = 3;
  stats.t_c = 4;
  stats.t_step = 5;
  EXPECT_DOUBLE_EQ(stats.overlap_efficiency(), 0.8);
  std::swap(stats.t_x, stats.t_c);
  EXPECT_DOUBLE_EQ(stats.overlap_efficiency(), 0.8);
}

}  // namespace stats_test
}  // namespace leat::feeder
