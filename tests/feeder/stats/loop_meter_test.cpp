// What data costs a loop: in virtual time, to the nanosecond, on a device whose kernels take as
// long as the test says.
#include "leat/feeder/loop_meter.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/gate.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace loop_meter_test {

using namespace std::chrono_literals;
using support::in_virtual_time;

constexpr double kRounding = 1e-12;

void expect_quantiles(const Quantiles& of, double p50, double p99) {
  EXPECT_NEAR(of.p50, p50, kRounding);
  EXPECT_NEAR(of.p99, p99, kRounding);
}

struct Loop {
  std::size_t batches = 100;
  Duration first_wait = 1h;
  std::function<Duration(std::size_t)> wait;  // for batch i
  std::function<void(std::size_t)> work;      // on it
  const gpu::StreamRef* stream = nullptr;
};

// One iteration over a loader that takes wait(i) for its batch i. It needs an hour to find out that
// there is no other batch.
void iterate(LoopMeter& meter, const Loop& loop) {
  for (std::size_t i = 0;; ++i) {
    loop.stream == nullptr ? meter.asks() : meter.asks(*loop.stream);
    if (i == loop.batches) break;
    sleep_for(i == 0 ? loop.first_wait : loop.wait(i));
    meter.got();
    loop.work(i);
  }
  sleep_for(1h);
  meter.ends();
}

void in_virtual_time_on_device(const gpu::HostFaults& faults,
                               const std::function<void(const gpu::Stream&)>& body) {
  in_virtual_time([&] {
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9, .faults = faults});
    const gpu::Stream stream(device);
    body(stream);
  });
}
void in_virtual_time_on_device(const std::function<void(const gpu::Stream&)>& body) {
  in_virtual_time_on_device({}, body);
}

TEST(LoopMeter, MeasuresTheHostOfALoopWithoutAStreamAtEveryStep) {
  in_virtual_time([] {
    LoopMeter meter;
    iterate(meter, {.wait = [](std::size_t i) -> Duration { return i % 10 == 0 ? 6ms : 2ms; },
                    .work = [](std::size_t) { sleep_for(3ms); }});
    const LoopFigures figures = meter.figures();
    EXPECT_EQ(figures.iterations, 1U);
    EXPECT_EQ(figures.steps, 99U);
    EXPECT_FALSE(figures.has_device());
    expect_quantiles(figures.wait, 2e-3, 6e-3);
    expect_quantiles(figures.step, 5e-3, 9e-3);
    EXPECT_NEAR(figures.wait_sum, 90 * 2e-3 + 9 * 6e-3, kRounding);
    EXPECT_NEAR(figures.step_sum, 90 * 5e-3 + 9 * 9e-3, kRounding);
    EXPECT_NEAR(figures.share(), 234.0 / 531.0, kRounding);
    EXPECT_EQ(figures.sentence(),
              "data costs 44.1 % of the step: the loop waits for 2.00 ms (p50; p99 6.00 ms) for "
              "its next batch; a step takes 5.00 ms (p50; p99 9.00 ms) (99 steps, on the host); "
              "the first batch came after 3600 s");
  });
}

TEST(LoopMeter, FindsNoGapWhereTheDeviceIsBusyAcrossTheWait) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 2});
    const std::array<gpu::Event, 2> done = {gpu::Event(stream.device()),
                                            gpu::Event(stream.device())};
    iterate(meter, {.wait = [](std::size_t) { return 2ms; },
                    .work =
                        [&](std::size_t i) {
                          stream.launch_host([] {}, 5ms);
                          done.at(i % 2).record(stream);
                          done.at((i + 1) % 2).sync();  // the host is one step ahead
                        },
                    .stream = &stream.ref()});
    const LoopFigures figures = meter.figures();
    EXPECT_GT(figures.sampled, 40U);
    EXPECT_EQ(figures.gap_sum, 0);
    EXPECT_EQ(figures.share(), 0);
    expect_quantiles(figures.gap, 0, 0);
    expect_quantiles(figures.sampled_step, 5e-3, 5e-3);
    EXPECT_NEAR(figures.wait.p50, 2e-3, kRounding) << "the host waits all the same";
    EXPECT_NE(figures.sentence().find("data costs 0.0 % of the step: the device is idle for 0.00"),
              std::string::npos)
        << figures.sentence();
  });
}

TEST(LoopMeter, FindsTheWholeWaitWhereTheDeviceHasNothingToDo) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 2});
    iterate(meter, {.wait = [](std::size_t) { return 2ms; },
                    .work =
                        [&](std::size_t) {
                          stream.launch_host([] {}, 3ms);
                          stream.sync();
                        },
                    .stream = &stream.ref()});
    const LoopFigures figures = meter.figures();
    EXPECT_GT(figures.sampled, 40U);
    expect_quantiles(figures.gap, 2e-3, 2e-3);
    expect_quantiles(figures.sampled_step, 5e-3, 5e-3);
    EXPECT_NEAR(figures.share(), 0.4, kRounding);
  });
}

// Of a wait of 5 ms, the device still works for 3 ms.
TEST(LoopMeter, FindsThePartOfTheWaitInWhichTheDeviceIsIdle) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 1});
    iterate(meter, {.wait = [](std::size_t) { return 5ms; },
                    .work = [&](std::size_t) { stream.launch_host([] {}, 3ms); },
                    .stream = &stream.ref()});
    const LoopFigures figures = meter.figures();
    EXPECT_EQ(figures.steps, 99U);
    EXPECT_EQ(figures.sampled, 99U);
    expect_quantiles(figures.wait, 5e-3, 5e-3);
    expect_quantiles(figures.gap, 2e-3, 2e-3);
    EXPECT_NEAR(figures.gap_sum, 99 * 2e-3, kRounding);
    EXPECT_NEAR(figures.sampled_step_sum, 99 * 5e-3, kRounding);
    EXPECT_EQ(figures.sentence(),
              "data costs 40.0 % of the step: the device is idle for 2.00 ms (p50; p99 2.00 ms) "
              "while the loop waits for its next batch, which takes the host 5.00 ms (p50; p99 "
              "5.00 ms); a step takes 5.00 ms (p50; p99 5.00 ms) (99 of 99 steps sampled); the "
              "first batch came after 3600 s");
    EXPECT_EQ(figures.table(),
              "                               p50       p99\n"
              "  step                     5.00 ms   5.00 ms   of 99 steps, on the host\n"
              "  wait for a batch         5.00 ms   5.00 ms   of 99 steps, on the host\n"
              "  wait for the first        3600 s    3600 s   of 1 iterations, on the host\n"
              "  step, device             5.00 ms   5.00 ms   of 99 sampled steps\n"
              "  idle gap, device         2.00 ms   2.00 ms   of 99 sampled steps\n"
              "  " +
                  figures.sentence() + "\n");
  });
}

TEST(LoopMeter, LeavesOutTheFirstStepAndWhatIsBetweenIterations) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 1});
    for (std::size_t epoch = 0; epoch < 5; ++epoch) {
      iterate(meter, {.batches = epoch,  // no batch in the first one
                      .first_wait = 1s,
                      .wait = [](std::size_t) { return 5ms; },
                      .work = [&](std::size_t i) { stream.launch_host([] {}, i == 0 ? 4ms : 3ms); },
                      .stream = &stream.ref()});
      sleep_for(1h);
    }
    const LoopFigures figures = meter.figures();
    EXPECT_EQ(figures.iterations, 4U);
    expect_quantiles(figures.first_wait, 1, 1);
    EXPECT_EQ(figures.steps, 0U + 1 + 2 + 3);
    EXPECT_EQ(figures.sampled, figures.steps);
    EXPECT_LE(figures.wait.p99, 5e-3 + kRounding);
    EXPECT_NEAR(figures.gap_sum, 3 * 1e-3 + 3 * 2e-3, kRounding) << "the second batch is a step";
  });
}

TEST(LoopMeter, SaysSoWhereNoStepWasMeasured) {
  LoopMeter meter;
  EXPECT_EQ(meter.figures().share(), 0);
  EXPECT_EQ(meter.figures().sentence().find("no step was measured"), 0U);
  meter.got();  // nobody has asked
  meter.ends();
  EXPECT_EQ(meter.figures().iterations, 0U);
}

// By `break`, by an exception in the loop, and by one of the loader, after which it may be asked
// again.
TEST(LoopMeter, CountsNothingOfAStepThatTheLoopLeaves) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    LoopMeter meter({.sample_every = 1});
    const auto ask = [&](Duration wait) {
      meter.asks(stream);
      sleep_for(wait);
    };
    ask(1s);
    meter.got();
    ask(2ms);
    meter.got();
    sleep_for(1h);
    meter.ends();  // left
    ask(1s);
    meter.got();
    ask(1h);  // the loader fails
    ask(1s);  // and is asked again
    meter.got();
    ask(2ms);
    meter.got();
    sleep_for(3ms);
    ask(1h);
    meter.ends();
    meter.ends();
    stream.sync();
    const LoopFigures figures = meter.figures();
    EXPECT_EQ(figures.steps, 1U);
    EXPECT_EQ(figures.sampled, 1U);
    expect_quantiles(figures.step, 5e-3, 5e-3);
    expect_quantiles(figures.gap, 2e-3, 2e-3);
  });
}

TEST(LoopMeter, SamplesOneStepInSixteenAtIrregularDistances) {
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
TEST(LoopMeter, WantsTheStreamAtBothEndsOfASample) {
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
TEST(LoopMeter, SamplesEachStepOfALoopThatRepeatsItselfAlike) {
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

TEST(LoopMeter, SamplesNothingWithoutSampleEvery) {
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
TEST(LoopMeter, NeverWaitsForTheDevice) {
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

TEST(LoopMeter, DropsASampleWhoseNextStepIsOnAnotherStreamOrNone) {
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

TEST(LoopMeter, FollowsTheLoopToAnotherDevice) {
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
      EXPECT_NEAR(meter.figures().share(), 0.4, kRounding);
    }
    EXPECT_EQ(meter.figures().sampled, 20U);
    EXPECT_EQ(meter.figures().device_error, "");
  });
}

// The loop sees the device's failure where it uses the device. The meter goes on with the host.
TEST(LoopMeter, GoesOnWithTheHostWhenTheDeviceFails) {
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

// Ten batches, each of which takes 5 ms to make.
struct Loader {
  int batch = 0;
  std::optional<int> next() {
    if (batch == 10) return std::nullopt;
    sleep_for(5ms);
    return batch++;
  }
};

TEST(LoopMeter, MeasuresTheLoopOfTheGuide) {
  in_virtual_time_on_device([](const gpu::Stream& stream) {
    Loader loader;
    const auto train_step = [](const gpu::Stream& on, int /*batch*/) {
      on.launch_host([] {}, 3ms);
    };
    // [meter]
    LoopMeter meter({.sample_every = 2});
    for (meter.asks(stream); const std::optional<int> batch = loader.next(); meter.asks(stream)) {
      meter.got();
      train_step(stream, *batch);
    }
    meter.ends();
    const std::string told = meter.figures().sentence();
    // [/meter]
    EXPECT_EQ(told.find("data costs 40.0 % of the step: the device is idle for 2.00 ms"), 0U)
        << told;
  });
}

TEST(LoopMeter, TellsItsFiguresToOtherThreadsMeanwhile) {
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

}  // namespace loop_meter_test
}  // namespace leat::feeder
