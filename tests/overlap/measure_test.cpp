// What leat-overlap reports, in virtual time, against arithmetic: the formula for the mean step
// where nothing varies, a queueing simulation where reading does.
#include "leat/overlap/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/sample.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "leat/overlap/bare_loop.h"
#include "leat/overlap/compute.h"
#include "leat/overlap/json.h"
#include "leat/overlap/shape.h"
#include "leat/overlap/shaped_dataset.h"
#include "leat/overlap/sweep.h"
#include "leat/overlap/table.h"
#include "tests/support/run.h"

namespace overlap {
namespace measure_test {

using namespace std::chrono_literals;
using leat::Duration;

constexpr double kRounding = 1e-12;

double seconds(Duration length) { return std::chrono::duration<double>(length).count(); }

// A link of a byte a nanosecond: a batch's bytes are its Tx.
Shape shape_of(Duration t_read, Duration t_x, Duration t_c) {
  Shape shape;
  shape.sample_bytes = static_cast<std::size_t>(t_x.count());
  shape.t_read = t_read;
  shape.t_c = t_c;
  return shape;
}

Measurement measure_virtual(const Shape& shape,
                            const Effort& effort = {.steps = 100, .warm_up = 20, .link_peak = 1e9},
                            std::size_t devices = 1) {
  Measurement measured;
  leat::support::in_virtual_time([&] {
    std::vector<leat::gpu::Device> all;
    for (std::size_t i = 0; i < devices; ++i) {
      all.push_back(leat::gpu::open_host({.h2d_bandwidth = 1e9}, static_cast<int>(i)));
    }
    measured = measure(all, shape, effort);
  });
  return measured;
}

TEST(Measure, OverlapIsPerfectFromDepth2OnWhereReadersKeepUp) {
  for (const std::size_t depth : {2U, 3U, 4U}) {
    for (const Duration t_x : {300ns, 1000ns, 2000ns}) {
      for (const std::size_t workers : {1U, 2U}) {
        Shape shape = shape_of(500ns, t_x, 1000ns);
        shape.prefetch_depth = depth;
        shape.workers = workers;
        shape.pinned_slots = 4;
        const Measurement measured = measure_virtual(shape);
        EXPECT_DOUBLE_EQ(measured.slowest().t_step, seconds(std::max(t_x, Duration(1000))));
        EXPECT_NEAR(measured.overlap_efficiency(), 1, kRounding);
        EXPECT_NEAR(measured.feed_efficiency(), 1, kRounding);
        EXPECT_NEAR(measured.hidden_fraction(), 1, kRounding);
        EXPECT_NEAR(measured.interference(), 1, kRounding);
        EXPECT_NEAR(measured.link_efficiency(), 1, kRounding);
        EXPECT_NEAR(measured.slowest().stats.bubble.p99, 0, kRounding);
      }
    }
  }
}

TEST(Measure, ElsewhereTheStepIsTheFormulas) {
  struct Case {
    Duration t_read, t_x, t_c;
    std::size_t workers, pinned, depth;
  };
  for (const Case& c : {Case{3000ns, 400ns, 1000ns, 1, 4, 2}, Case{3000ns, 400ns, 1000ns, 2, 4, 2},
                        Case{0ns, 400ns, 1000ns, 1, 2, 1}, Case{500ns, 1500ns, 1000ns, 1, 4, 1},
                        Case{2000ns, 1000ns, 500ns, 2, 2, 3}}) {
    Shape shape = shape_of(c.t_read, c.t_x, c.t_c);
    shape.workers = c.workers;
    shape.pinned_slots = c.pinned;
    shape.prefetch_depth = c.depth;
    const Measurement measured = measure_virtual(shape);
    const auto over = [](Duration time, std::size_t count) {
      return seconds(time) / static_cast<double>(count);
    };
    const double step = std::max({over(c.t_read, c.workers), seconds(c.t_x), seconds(c.t_c),
                                  over(c.t_x + c.t_c, c.depth), over(c.t_read + c.t_x, c.pinned)});
    EXPECT_NEAR(measured.slowest().t_step, step, 1e-9 * step);
    EXPECT_NEAR(measured.overlap_efficiency(), seconds(std::max(c.t_x, c.t_c)) / step, 1e-9);
  }
}

TEST(Measure, TheLoopsBesideItTakeWhatTheirStepsSumUpTo) {
  const Measurement measured =
      measure_virtual(shape_of(700ns, 400ns, 1000ns), {.steps = 100, .warm_up = 20});
  EXPECT_DOUBLE_EQ(measured.t_serial, seconds(2100ns));
  EXPECT_DOUBLE_EQ(measured.t_replay, seconds(1000ns));
  EXPECT_DOUBLE_EQ(measured.t_x_alone, seconds(400ns));
  EXPECT_DOUBLE_EQ(measured.t_c_alone, seconds(1000ns));
  EXPECT_DOUBLE_EQ(measured.link_peak, 1e9);
  EXPECT_NEAR(measured.speed_up(), 2.1, kRounding);
  EXPECT_NEAR(measured.headspace(), 0, kRounding);
  EXPECT_NEAR(measured.accelerator_utilization(), 1, kRounding);
}

// Something else copies over the same link for as long as the first trains last. It has ended when
// the loops begin, and what they are compared with is of a time without it.
TEST(Measure, TrainsThatWereDisturbedBeforeTheLoopsAreRunAgain) {
  Measurement measured;
  leat::support::in_virtual_time([&] {
    const leat::gpu::Device device = leat::gpu::open_host({.h2d_bandwidth = 1e9});
    const leat::TimePoint start = leat::now();
    leat::TaskGroup group;
    group.go([&] {
      constexpr std::size_t kBytes = 5'000'000;
      const leat::gpu::PinnedBuffer from(device, kBytes);
      const leat::gpu::DeviceBuffer to(device, kBytes);
      const leat::gpu::Stream stream(device);
      while (leat::now() - start < 2500ms) {
        leat::gpu::copy_async(stream, to.span(), from.span());
        stream.sync();
      }
    });
    measured = measure({device}, shape_of(0ns, 5ms, 10ms), {.steps = 100, .warm_up = 20});
    group.wait();
  });
  EXPECT_DOUBLE_EQ(measured.t_x_alone, 5e-3);
  EXPECT_DOUBLE_EQ(measured.link_peak, 1e9);
  EXPECT_NEAR(measured.link_efficiency(), 1, kRounding);
}

// Batches are read by whichever worker is free first, into whichever slot is; they are copied in
// order.
double simulated_step(const Shape& shape, const Effort& effort) {
  const Duration t_x(static_cast<std::int64_t>(shape.batch_bytes()));
  const std::uint64_t steps = effort.warm_up + effort.steps;
  std::priority_queue<Duration, std::vector<Duration>, std::greater<>> workers;
  for (std::size_t i = 0; i < shape.workers; ++i) workers.push(Duration(0));
  std::vector<Duration> copied(steps);
  std::vector<Duration> done(steps);
  const auto before = [](const std::vector<Duration>& at, std::uint64_t k, std::size_t distance) {
    return k < distance ? Duration(0) : at[k - distance];
  };
  for (std::uint64_t k = 0; k < steps; ++k) {
    const Duration read =
        std::max(workers.top(), before(copied, k, shape.pinned_slots)) + read_time(shape, k);
    workers.pop();
    workers.push(read);
    copied[k] = std::max({read, before(copied, k, 1), before(done, k, shape.prefetch_depth)}) + t_x;
    done[k] = std::max(copied[k], before(done, k, 1)) + shape.t_c;
  }
  return seconds(done[steps - 1] - done[effort.warm_up - 1]) / static_cast<double>(effort.steps);
}

TEST(Measure, WithJitterTheLossIsThatOfTheQueueingSimulation) {
  int cell = 0;
  const Effort effort{.steps = 500, .warm_up = 20, .link_peak = 1e9};
  for (const double jitter : {0.3, 1.0}) {
    for (const std::uint64_t straggler_every : {0U, 50U}) {
      for (const std::size_t workers : {1U, 2U, 4U}) {
        for (const std::size_t depth : {1U, 2U, 4U}) {
          if (leat::support::is_left_out(cell++)) continue;
          Shape shape = shape_of(Duration(900) * static_cast<int>(workers), 600ns, 1000ns);
          shape.jitter = jitter;
          shape.straggler_every = straggler_every;
          shape.workers = workers;
          shape.prefetch_depth = depth;
          shape.pinned_slots = workers + depth;
          const double simulated = simulated_step(shape, effort);
          EXPECT_GT(simulated, (jitter < 1 ? 1 : 1.01) * 0.999999 * seconds(1000ns)) << "too tame";
          const Measurement measured = measure_virtual(shape, effort);
          EXPECT_NEAR(measured.slowest().t_step, simulated, 1e-9 * simulated)
              << "jitter " << jitter << ", straggler " << straggler_every << ", workers " << workers
              << ", depth " << depth;
        }
      }
    }
  }
}

TEST(Measure, SeveralDevicesShareTheReaders) {
  Shape shape = shape_of(1000ns, 400ns, 500ns);
  shape.pinned_slots = 4;
  const Measurement measured =
      measure_virtual(shape, {.steps = 100, .warm_up = 20, .link_peak = 1e9}, 3);
  ASSERT_EQ(measured.ranks.size(), 3U);
  for (const RankResult& fed : measured.ranks) EXPECT_NEAR(fed.t_step, seconds(3000ns), 1e-12);
  EXPECT_NEAR(measured.feed_efficiency(), 1, 1e-9);
}

// An epoch's first step is not sampled: then nothing is told of it, instead of zeros.
TEST(Measure, WhatNoSampleTellsIsNotKnown) {
  const leat::feeder::FunctionDataset data("bytes", {{"byte", leat::feeder::DType::kUint8, {100}}},
                                           20, [](std::uint64_t, leat::feeder::Sample&) {});
  const auto measured_by = [&](std::uint64_t steps) {
    Measurement measured;
    leat::support::in_virtual_time([&] {
      Shape shape = shape_of(0ns, 100ns, 1000ns);
      shape.batch_size = 10;
      measured = measure({leat::gpu::open_host({.h2d_bandwidth = 1e9})}, shape,
                         {.steps = steps, .warm_up = 2, .link_peak = 1e9}, &data);
    });
    return measured;
  };
  EXPECT_TRUE(measured_by(10).is_sampled());
  const Measurement unknown = measured_by(1);
  EXPECT_FALSE(unknown.is_sampled());
  EXPECT_TRUE(std::isnan(unknown.overlap_efficiency()));
  EXPECT_TRUE(std::isnan(unknown.interference()));
  EXPECT_NE(run_table(unknown).find("OE ?   hidden ?   feed efficiency ?"), std::string::npos)
      << run_table(unknown);
  EXPECT_NE(json_report({}, {unknown}, nullptr).find("\"overlap_efficiency\": null"),
            std::string::npos);
}

TEST(Measure, MemoryAndBytesAreThoseOfTheSlots) {
  Shape shape = shape_of(0ns, 1024ns, 1000ns);
  shape.prefetch_depth = 3;
  shape.pinned_slots = 5;
  const Measurement measured =
      measure_virtual(shape, {.steps = 30, .warm_up = 10, .link_peak = 1e9}, 2);
  EXPECT_EQ(measured.pinned_bytes, 2 * 5 * 1024U);
  EXPECT_EQ(measured.device_bytes, 3 * 1024U);  // of each
  EXPECT_EQ(measured.fed_bytes, 2 * (30 + 10) * 1024.0);
  EXPECT_GT(measured.cpu_seconds, 0);
}

TEST(Measure, TheLoopsBesideItTellHowFarTheyAre) {
  leat::support::in_virtual_time([] {
    const leat::gpu::Device device = leat::gpu::open_host({.h2d_bandwidth = 1e9});
    const Shape shape = shape_of(100us, 500us, 10ms);
    const ShapedDataset data(shape);
    Compute compute(device, shape);
    BareLoop bare(device, shape, data, compute);
    std::vector<std::uint64_t> told;
    const Report report = [&](std::uint64_t done) { told.push_back(done); };
    EXPECT_DOUBLE_EQ(bare.t_x_alone(report), 500e-6);
    EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7}));
    told.clear();
    EXPECT_DOUBLE_EQ(bare.replay({.warm_up = 2, .measured = 14}, 10e-3, report), 10e-3);
    EXPECT_EQ(told, (std::vector<std::uint64_t>{9, 16}));  // two sections
    told.clear();
    EXPECT_DOUBLE_EQ(bare.serial({.warm_up = 2, .measured = 3}, report), 10.6e-3);
    EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  });
}

// Copies of memory that was never written would be faster than copies of data.
TEST(Measure, ASlotIsFilledOnceAndThenLeftAlone) {
  Shape shape;
  shape.sample_bytes = 64;
  const ShapedDataset data(shape);
  std::vector<std::byte> slot(64);
  const std::vector<std::span<std::byte>> rooms = {slot};
  std::vector<std::size_t> lengths(1);
  leat::feeder::Scratch scratch;
  const auto read = [&](std::uint64_t index) {
    leat::feeder::Sample sample(data.fields(), rooms, lengths, 0, 0,
                                leat::feeder::Random(0, 0, index), scratch);
    data.read(index, sample);
    std::uint64_t number = 0;
    std::memcpy(&number, slot.data(), sizeof number);
    EXPECT_EQ(number, index);
  };
  read(3);
  for (std::size_t i = 8; i < slot.size(); ++i) EXPECT_NE(slot[i], std::byte{0}) << i;
  slot[10] = std::byte{1};
  read(4);
  EXPECT_EQ(slot[10], std::byte{1});
}

TEST(Sweep, BatchesAreOfTheBytesThatTheCellAsksFor) {
  constexpr Link kLink{.bytes_per_second = 1e9};
  const Shape one = shape_of(Shape(), 0.5, 1ms, 3, kLink, Batches::kOfOneSample);
  EXPECT_EQ(one.batch_bytes(), 500'000U);
  EXPECT_EQ(one.t_c, 1ms);
  EXPECT_EQ(one.prefetch_depth, 3U);
  EXPECT_EQ(shape_of(Shape(), 2, 1ms, 1, kLink, Batches::kOfOneSample).t_c, 500us);

  // Of whole samples, as close as they come; Tc keeps the ratio.
  Shape base;
  base.sample_bytes = 300'000;
  const Shape whole = shape_of(base, 0.5, 1ms, 1, kLink, Batches::kOfWholeSamples);
  EXPECT_EQ(whole.batch_size, 2U);
  EXPECT_EQ(whole.sample_bytes, 300'000U);
  EXPECT_EQ(whole.t_c, 1200us);
  EXPECT_EQ(shape_of(base, 0.1, 500us, 1, kLink, Batches::kOfWholeSamples).batch_size, 1U);
}

TEST(Measure, RefusesWhatCannotBe) {
  Shape shape = shape_of(0ns, 4ns, 0ns);  // no room for a number
  EXPECT_THROW(static_cast<void>(measure_virtual(shape)), std::invalid_argument);
  shape = shape_of(0ns, 100ns, 0ns);
  shape.max_pinned_bytes = 1;
  EXPECT_THROW(static_cast<void>(measure_virtual(shape)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(measure({}, shape, {})), std::invalid_argument);
}

}  // namespace measure_test
}  // namespace overlap
