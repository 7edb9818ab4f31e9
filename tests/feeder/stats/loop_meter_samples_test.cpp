// Which steps a loop meter samples on the device, and what becomes of the samples: of a device that
// is held, that fails, that is another one, and under the eyes of other threads.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/loop_meter.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/stats/metered_loop.h"
#include "tests/support/gate.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace loop_meter_samples_test {

using namespace std::chrono_literals;
using metered_loop::in_virtual_time_on_device;
using metered_loop::iterate;
using metered_loop::kRounding;

TEST(LoopMeterSamples, AreOneStepInSixteenAtIrregularDistances) {
  constexpr std::size_t kSteps = 4'000;
  std::vector<std::size_t> wanted;
  LoopMeter meter;
  EXPECT_TRUE(meter.wants_stream()) << "to make the events for its device";
  meter.asks();
  meter.got();
  for (std::size_t i = 0; i < kSteps; ++i) {
    if (meter.wants_stream()) wanted.push_back(i);
    meter.asks();
    meter.got();
  }
  std::set<std::size_t> distances;
  for (std::size_t i = 1; i < wanted.size(); ++i) distances.insert(wanted[i] - wanted[i - 1]);
  ASSERT_FALSE(distances.empty());
  EXPECT_LE(*distances.rbegin(), 31U);
  EXPECT_GT(distances.size(), 20U);
  EXPECT_NEAR(static_cast<double>(wanted.size()), kSteps / 16.0, kSteps / 160.0);
}

// A loop that tells its stream only where it is wanted is measured as one that tells it always.
TEST(LoopMeterSamples, NeedTheStreamAtBothEndsOfASample) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter frugal;
    LoopMeter lavish;
    std::size_t told = 0;
    for (std::size_t i = 0; i < 1'000; ++i) {
      if (frugal.wants_stream()) {
        ++told;
        frugal.asks(stream);
      } else {
        frugal.asks();
      }
      lavish.asks(stream);
      sleep_for(2ms);
      frugal.got();
      lavish.got();
      stream.launch_host([] {}, 3ms);
      stream.sync();
    }
    EXPECT_GT(frugal.figures().sampled, 40U);
    EXPECT_EQ(frugal.figures().sampled, lavish.figures().sampled);
    EXPECT_EQ(frugal.figures().gap_sum, lavish.figures().gap_sum);
    EXPECT_LT(told, 200U);
  });
}

// A loader whose every 16th batch takes 33 times as long: of a period of 16 steps, all are sampled.
TEST(LoopMeterSamples, AreOfEachStepOfALoopThatRepeatsItselfAlike) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter;
    iterate(meter, {.batches = 16'000,
                    .wait = [](std::size_t i) -> Duration { return i % 16 == 0 ? 33ms : 1ms; },
                    .work =
                        [&](std::size_t) {
                          stream.launch_host([] {}, 3ms);
                          stream.sync();
                        },
                    .stream = &stream.ref()});
    const LoopFigures figures = meter.figures();
    const double truth = 3e-3;
    EXPECT_NEAR(figures.wait_sum / static_cast<double>(figures.steps), truth, 1e-3 * truth);
    EXPECT_NEAR(figures.gap_sum / static_cast<double>(figures.sampled), truth, 0.25 * truth);
  });
}

TEST(LoopMeterSamples, AreNoneWithoutSampleEvery) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 0});
    EXPECT_FALSE(meter.wants_stream());
    iterate(meter, {.wait = [](std::size_t) { return 2ms; },
                    .work = [](std::size_t) { sleep_for(3ms); },
                    .stream = &stream.ref()});
    EXPECT_FALSE(meter.figures().has_device());
    EXPECT_NEAR(meter.figures().share(), 0.4, kRounding);
  });
}

// The device is held, and the loop runs ahead of it by more samples than there are.
TEST(LoopMeterSamples, AreNeverWaitedFor) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 1});
    meter.asks(stream);
    meter.got();
    const support::Gate gate(stream);
    for (int i = 0; i < 30; ++i) {
      meter.asks(stream);
      meter.got();
      EXPECT_EQ(meter.figures().sampled, 0U);
    }
    EXPECT_EQ(support::elapsed(), 0s);
    EXPECT_EQ(meter.figures().steps, 29U);
    gate.open();
    stream.sync();
    EXPECT_EQ(meter.figures().sampled, 8U) << "the later steps were not sampled";
    for (int i = 0; i < 30; ++i) {
      meter.asks(stream);
      meter.got();
      stream.sync();
    }
    EXPECT_EQ(meter.figures().sampled, 8U + 29) << "and the next ones are";
  });
}

TEST(LoopMeterSamples, AreDroppedIfTheNextStepIsOnAnotherStreamOrNone) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 1});
    const gpu::Stream other(stream.device());
    for (int i = 0; i < 40; ++i) {
      if (i % 3 == 2) {
        meter.asks();
      } else {
        meter.asks(i % 3 == 1 ? stream : other);
      }
      meter.got();
    }
    meter.ends();
    stream.sync();
    other.sync();
    EXPECT_EQ(meter.figures().steps, 38U);
    EXPECT_EQ(meter.figures().sampled, 0U);
  });
}

TEST(LoopMeterSamples, FollowTheLoopToAnotherDevice) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 1});
    const gpu::Device other = gpu::open_host({.h2d_bandwidth = 1e9}, 1);
    const gpu::Stream on_other(other);
    for (const gpu::StreamRef& each : {stream.ref(), on_other.ref()}) {
      iterate(meter, {.batches = 11,
                      .wait = [](std::size_t) { return 2ms; },
                      .work =
                          [&](std::size_t) {
                            each.launch_host([] {}, 3ms);
                            each.sync();
                          },
                      .stream = &each});
      metered_loop::expect_quantiles(meter.figures().gap, 2e-3, 2e-3);  // the whole wait
      EXPECT_NEAR(meter.figures().share(), 0.4, kRounding);
    }
    EXPECT_EQ(meter.figures().sampled, 20U);
    EXPECT_EQ(meter.figures().device_error, "");
  });
}

// The loop sees the device's failure where it uses the device. The meter goes on with the host.
TEST(LoopMeterSamples, EndAndTheHostIsMeasuredOnWhenTheDeviceFails) {
  for (const std::uint64_t at : {1U, 2U, 3U, 50U}) {
    in_virtual_time_on_device({.lost_at = at}, [&](const gpu::Stream& stream) {
      LoopMeter meter({.sample_every = 1});
      iterate(meter, {.wait = [](std::size_t) { return 2ms; },
                      .work = [](std::size_t) { sleep_for(3ms); },
                      .stream = &stream.ref()});
      EXPECT_FALSE(meter.wants_stream());
      const LoopFigures figures = meter.figures();
      EXPECT_EQ(figures.steps, 99U);
      EXPECT_NEAR(figures.wait_sum, 99 * 2e-3, kRounding);
      EXPECT_EQ(figures.has_device(), at == 50);
      EXPECT_NEAR(figures.share(), 0.4, kRounding);
      EXPECT_NE(figures.device_error.find("host:0"), std::string::npos) << figures.device_error;
      EXPECT_NE(figures.sentence().find("measured no longer: " + figures.device_error),
                std::string::npos);
    });
  }
}

TEST(LoopMeterSamples, AreReadByOtherThreadsMeanwhile) {
  const gpu::Device device = gpu::open("host");
  const gpu::Stream stream(device);
  LoopMeter meter({.sample_every = 2});
  constexpr std::uint64_t kSteps = 500;
  support::on_plain_threads(
      2,
      [&](int) {
        for (LoopFigures seen; seen.steps < kSteps;) {
          const LoopFigures figures = meter.figures();
          EXPECT_GE(figures.steps, seen.steps);
          EXPECT_GE(figures.sampled, seen.sampled);
          EXPECT_LE(figures.sampled, figures.steps);
          seen = figures;
        }
      },
      [&] {
        for (std::uint64_t i = 0; i < kSteps + 2; ++i) {
          meter.asks(stream);
          meter.got();
          stream.launch_host([] {});
          stream.sync();
        }
        meter.ends();
      });
  EXPECT_GT(meter.figures().sampled, kSteps / 4);
}

}  // namespace loop_meter_samples_test
}  // namespace leat::feeder
