// What leat-overlap trace says of Leat's own loops, in virtual time: the same as the loop's
// measurement, and, of a loop whose copies and compute take turns, what a second slot gives.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/gpu/host_model.h"
#include "leat/overlap/measure.h"
#include "leat/overlap/shape.h"
#include "leat/overlap/trace/figures/analysis.h"
#include "leat/overlap/trace/readers/bytes.h"
#include "leat/overlap/trace/readers/events.h"
#include "tests/support/run.h"

namespace overlap {
namespace trace_loops_test {

constexpr std::int64_t kMillisecond = 1'000'000;

// A byte in a microsecond: what is copied in milliseconds is soon copied by the CPU.
constexpr double kLink = 1e6;

// Nanoseconds; `copy` is a multiple of 1,000.
struct Times {
  std::int64_t read = 0;
  std::int64_t copy = 0;
  std::int64_t compute = 0;
};

Shape shape_of(const Times& times, std::size_t depth) {
  Shape shape;
  shape.t_read = leat::Duration(times.read);
  shape.sample_bytes = static_cast<std::size_t>(times.copy / 1'000);
  shape.t_c = leat::Duration(times.compute);
  shape.prefetch_depth = depth;
  return shape;
}

Measurement measured(const Shape& shape) {
  Measurement found;
  leat::support::in_virtual_time([&] {
    found = measure({leat::gpu::open_host({.h2d_bandwidth = kLink})}, shape,
                    {.steps = 80, .warm_up = 10, .trace = 64, .link_peak = kLink});
  });
  return found;
}

// As a user has it: by way of a file.
trace::DeviceReport report_of(const Measurement& measurement,
                              const trace::AnalysisOptions& options = {}) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) /
      ("leat_trace_loops_" +
       std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
       std::to_string(getpid()) + ".json");
  std::ofstream(file) << measurement.trace;
  const trace::TraceReport report = trace::analyze(trace::read_events(file, {}, false), options);
  std::filesystem::remove(file);
  EXPECT_EQ(report.format, "Leat");
  EXPECT_EQ(report.devices.size(), 1U);
  EXPECT_TRUE(report.devices.at(0).loop.has_value());
  return report.devices.at(0);
}

double of_step(const trace::DeviceReport& loop, trace::Time time) {
  return static_cast<double>(time) / static_cast<double>(loop.steps_in_mean);
}

double best(const trace::DeviceReport& loop, const char* change) {
  const auto found = std::ranges::find(loop.what_if, change, &trace::WhatIf::change);
  return found == loop.what_if.end() || !found->best ? -1 : of_step(loop, *found->best);
}

double nanoseconds(double seconds) { return seconds * 1e9; }

TEST(TraceOfLeat, SaysWhatTheMeasurementSays) {
  std::mt19937 random(45);
  const auto any = [&](int from, int to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (int i = 0; i < 40; ++i) {
    Shape shape = shape_of({any(0, 9'000'000), any(1, 9'000) * 1'000, any(1, 9'000'000)},
                           static_cast<std::size_t>(any(1, 3)));
    shape.pinned_slots =
        std::array<std::size_t, 3>{0, 2, 3}.at(static_cast<std::size_t>(any(0, 2)));
    const Measurement expected = measured(shape);
    const trace::DeviceReport loop = report_of(expected);
    SCOPED_TRACE(testing::Message()
                 << "Tread " << shape.t_read.count() << ", Tx " << shape.sample_bytes << " us, Tc "
                 << shape.t_c.count() << ", depth " << shape.prefetch_depth << ", pinned "
                 << shape.pinned_slots);
    const leat::feeder::Stats& stats = expected.slowest().stats;
    const double t_step = nanoseconds(expected.slowest().t_step);
    EXPECT_EQ(loop.steps.measured, 63U);
    EXPECT_NEAR(loop.loop->t_x, nanoseconds(stats.t_x), 1);
    EXPECT_NEAR(loop.loop->t_c, nanoseconds(stats.t_c), 1);
    EXPECT_NEAR(of_step(loop, loop.mean.length), t_step, 1);
    EXPECT_NEAR(loop.most(), nanoseconds(std::max(stats.t_x, stats.t_c)), 1);
    EXPECT_NEAR(loop.oe(), expected.overlap_efficiency(), 1 / t_step);
    EXPECT_NEAR(loop.loop->hidden, expected.hidden_fraction(),
                3 / nanoseconds(std::min(stats.t_x, stats.t_c)));
    EXPECT_NEAR(
        of_step(loop, loop.mean[trace::Part::kExposedCopies] + loop.mean[trace::Part::kCompute] +
                          loop.mean[trace::Cause::kData] + loop.mean[trace::Cause::kHost]),
        t_step, 1);
  }
}

TEST(TraceOfLeat, IdleTimeIsOfReadingWhereTheConsumerWaits) {
  const trace::DeviceReport loop =
      report_of(measured(shape_of({20 * kMillisecond, 3 * kMillisecond, 5 * kMillisecond}, 1)));
  EXPECT_EQ(of_step(loop, loop.mean.length), 20 * kMillisecond);
  EXPECT_EQ(of_step(loop, loop.mean[trace::Part::kExposedCopies]), 3 * kMillisecond);
  EXPECT_EQ(of_step(loop, loop.mean[trace::Cause::kData]), 12 * kMillisecond);
  EXPECT_EQ(of_step(loop, loop.mean[trace::Cause::kHost]), 0);
  EXPECT_EQ(best(loop, "copies"), 17 * kMillisecond);
  EXPECT_EQ(best(loop, "data"), 8 * kMillisecond);
  EXPECT_EQ(best(loop, "all"), 5 * kMillisecond);
}

// Each step has its parts, a place in a timeline, and may be chosen by its batch.
TEST(TraceOfLeat, ALoopHasTheStepsOfADevice) {
  const Measurement measurement =
      measured(shape_of({20 * kMillisecond, 3 * kMillisecond, 5 * kMillisecond}, 1));
  const trace::DeviceReport all = report_of(measurement);
  ASSERT_EQ(all.steps.all.size(), 63U);
  for (std::size_t i = 0; i < all.steps.all.size(); ++i) {
    EXPECT_EQ(all.of_steps[i].length, 20 * kMillisecond);
    EXPECT_EQ(all.of_steps[i][trace::Part::kCompute], 5 * kMillisecond);
    EXPECT_EQ(all.of_steps[i][trace::Part::kSumCopies], 3 * kMillisecond);
    EXPECT_EQ(all.of_steps[i][trace::Cause::kData], 12 * kMillisecond);
  }
  ASSERT_FALSE(all.timelines.empty());
  EXPECT_EQ(all.timelines[0].lanes.size(), 3U) << "uses, copies, idle";
  const std::int64_t last = all.steps.all.back().number.value_or(-1);
  const trace::DeviceReport two =
      report_of(measurement, {.steps = {.only = std::pair(last - 1, last)}});
  EXPECT_EQ(two.steps.measured, 2U);
  EXPECT_EQ(two.mean.length, 40 * kMillisecond);
  EXPECT_EQ(two.loop->t_c, 5 * kMillisecond);
  EXPECT_THROW(report_of(measurement, {.steps = {.only = std::pair(last + 1, last + 2)}}),
               std::invalid_argument);
  EXPECT_EQ(report_of(measurement, {.device = 0}).steps.measured, 63U);
  EXPECT_THROW(report_of(measurement, {.device = 1}), trace::Unreadable);
}

// Reads that end in any order leave no hole in the trace, in which the consumer would seem to be
// elsewhere.
TEST(TraceOfLeat, ItsBatchesFollowEachOther) {
  Shape shape = shape_of({60 * kMillisecond, 2 * kMillisecond, 3 * kMillisecond}, 2);
  shape.workers = 16;
  shape.jitter = 1;
  const trace::DeviceReport loop = report_of(measured(shape));
  EXPECT_EQ(loop.steps.measured, 63U);
  EXPECT_EQ(loop.steps.all.back().number, loop.steps.all.front().number.value_or(0) + 62);
  EXPECT_EQ(loop.mean[trace::Cause::kHost], 0);
  EXPECT_GT(loop.mean[trace::Cause::kData], 0);
}

trace::Batch batch(std::int64_t epoch, std::int64_t number, trace::Time at) {
  return {.epoch = epoch,
          .number = number,
          .copy = trace::Span{at, at + 2},
          .use = trace::Span{at + 2, at + 10}};
}

TEST(TraceOfLeat, WhereItLacksBatchesThereIsNoStep) {
  trace::Trace trace;
  trace.loops.push_back({.name = "rank 3: host:0",
                         .batches = {batch(0, 7, 0), batch(0, 8, 10), batch(0, 11, 90),
                                     batch(0, 10, 100), batch(1, 0, 110), batch(2, 1, 500)},
                         .waits = {{20, 25}, {80, 90}}});
  trace.loops.push_back(
      {.name = "process 5", .batches = {batch(0, 7, 0), batch(0, 8, 20)}, .waits = {}});
  const trace::TraceReport report = trace::analyze(trace, {});
  ASSERT_EQ(report.devices.size(), 2U);
  const trace::DeviceReport& ranked = report.devices[0];
  EXPECT_EQ(ranked.number, 3);
  std::vector<std::string> names;
  for (const trace::Step& step : ranked.steps.all) names.push_back(step.name);
  EXPECT_EQ(names, (std::vector<std::string>{"epoch 0, batch 8", "epoch 0, batch 10",
                                             "epoch 1, batch 0"}));
  EXPECT_NE(ranked.steps.found_by.find("2 are left out"), std::string::npos);
  EXPECT_EQ(ranked.mean.length, 30);
  EXPECT_EQ(report.devices[1].number, 1) << "its place in the file";
  EXPECT_EQ(report.devices[1].mean[trace::Cause::kUnknown], 10) << "its waits have no rank";
}

// As with Sharing::kDynamic: what one lacks, another has had.
TEST(TraceOfLeat, LoopsThatShareBatchesOutHaveNoHoles) {
  trace::Trace trace;
  trace.loops.push_back(
      {.name = "rank 0: host:0", .batches = {batch(0, 0, 0), batch(0, 3, 10)}, .waits = {}});
  trace.loops.push_back({.name = "rank 1: host:1",
                         .batches = {batch(0, 1, 0), batch(0, 2, 10), batch(0, 9, 20)},
                         .waits = {}});
  const trace::TraceReport report = trace::analyze(trace, {});
  EXPECT_EQ(report.devices.at(0).steps.measured, 1U);
  EXPECT_EQ(report.devices.at(1).steps.measured, 2U);
}

// A loop of which little is known, and what it takes with one slot and with two.
struct Proof {
  Shape shape;
  trace::DeviceReport today;  // at depth 1
  double deeper = 0;          // a step at depth 2, nanoseconds
};

Proof proof_of(std::mt19937& random, double jitter) {
  const auto any = [&](int from, int to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  Proof proof;
  proof.shape =
      shape_of({any(0, 9) * kMillisecond, any(1, 9) * kMillisecond, any(1, 9) * kMillisecond}, 1);
  proof.shape.workers = static_cast<std::size_t>(any(1, 3));
  proof.shape.pinned_slots =
      std::array<std::size_t, 3>{0, 2, 3}.at(static_cast<std::size_t>(any(0, 2)));
  proof.shape.jitter = jitter;
  proof.today = report_of(measured(proof.shape));
  Shape deeper = proof.shape;
  deeper.prefetch_depth = 2;
  proof.deeper = nanoseconds(measured(deeper).slowest().t_step);
  return proof;
}

TEST(TraceOfLeat, CopiesHiddenIsWhatASecondSlotGives) {
  std::mt19937 random(100);
  int equal = 0;
  for (int i = 0; i < 100; ++i) {
    const Proof proof = proof_of(random, 0);
    const Shape& shape = proof.shape;
    SCOPED_TRACE(testing::Message() << "Tread " << shape.t_read.count() << ", Tx "
                                    << shape.sample_bytes << " us, Tc " << shape.t_c.count() << ", "
                                    << shape.workers << " workers, pinned " << shape.pinned_slots);
    EXPECT_LE(best(proof.today, "copies"), proof.deeper + 1);
    EXPECT_LE(best(proof.today, "all"), proof.deeper + 1);
    const double copy = 1e3 * static_cast<double>(shape.sample_bytes);
    const double most = std::max(copy, static_cast<double>(shape.t_c.count()));
    const std::size_t pinned = shape.pinned_slots > 0 ? shape.pinned_slots : shape.workers + 2;
    const auto read = static_cast<double>(shape.t_read.count());
    const bool keeps_up = read / static_cast<double>(shape.workers) <= most &&
                          (read + copy) / static_cast<double>(pinned) <= most;
    if (!keeps_up) continue;
    ++equal;
    EXPECT_NEAR(best(proof.today, "copies"), proof.deeper, 1);
  }
  EXPECT_EQ(equal, 89) << "loops in which the readers keep up";
}

TEST(TraceOfLeat, WithJitterReadingAheadMayGiveMore) {
  std::mt19937 random(60);
  int above = 0;
  double worst = 0;
  for (int i = 0; i < 60; ++i) {
    const Proof proof = proof_of(random, i % 2 == 0 ? 0.3 : 0.8);
    above += best(proof.today, "copies") > proof.deeper + 1 ? 1 : 0;
    worst = std::max(worst, best(proof.today, "copies") / proof.deeper);
    EXPECT_LE(best(proof.today, "all"), proof.deeper + 1);
  }
  EXPECT_LE(above, 3);
  EXPECT_LE(worst, 1.15);
}

}  // namespace trace_loops_test
}  // namespace overlap
