// What data costs a loop: in virtual time, to the nanosecond, on a device whose kernels take as
// long as the test says.
#include "leat/feeder/loop_meter.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "leat/csp/scheduler.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/stats/metered_loop.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace loop_meter_test {

using namespace std::chrono_literals;
using metered_loop::expect_quantiles;
using metered_loop::in_virtual_time_on_device;
using metered_loop::iterate;
using metered_loop::kRounding;
using support::in_virtual_time;

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

}  // namespace loop_meter_test
}  // namespace leat::feeder
