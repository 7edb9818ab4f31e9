// What a LoopMeter promises on every device: a gap is the device's, not the host's wait.
#include <gtest/gtest.h>

#include <chrono>

#include "leat/csp/scheduler.h"
#include "leat/feeder/loop_meter.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/gate.h"

namespace leat::feeder {
namespace conformance_loop_meter_test {

using namespace std::chrono_literals;
using gpu::Device;
using gpu::Stream;
using support::backend_title;
using support::Gate;
using support::test_backends;

class Metering : public support::BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, Metering, testing::ValuesIn(test_backends()), backend_title);

constexpr Duration kHeld = 60ms;
constexpr double kSeconds = 60e-3;
constexpr double kTolerance = 0.01;  // a device's clock beside the host's

TEST_P(Metering, AGapIsAsLongAsADeviceWithoutWorkWaits) {
  with_device([](const Device& device) {
    const Stream stream(device);
    LoopMeter meter({.sample_every = 1});
    const auto step = [&](Duration wait) {
      meter.asks(stream);
      stream.sync();  // a device that is late begins its gap late
      sleep_for(wait);
      meter.got();
      stream.launch_host([] {});
      stream.sync();
    };
    step(0ms);
    step(kHeld);
    meter.asks(stream);
    meter.ends();
    stream.sync();
    const LoopFigures figures = meter.figures();
    EXPECT_EQ(figures.device_error, "");
    ASSERT_EQ(figures.sampled, 1U);
    EXPECT_GE(figures.gap.p50, kSeconds * (1 - kTolerance));
    EXPECT_LE(figures.gap.p50, figures.sampled_step.p50);
    EXPECT_GT(figures.share(), 0);
    EXPECT_LE(figures.share(), 1);
  });
}

// The device is held until the loop has its batch.
TEST_P(Metering, ADeviceThatIsBusyAcrossTheWaitHasNearlyNoGap) {
  with_device([](const Device& device) {
    const Stream stream(device);
    LoopMeter meter({.sample_every = 1});
    meter.asks(stream);
    meter.got();
    const Gate gate(stream);
    meter.asks(stream);
    sleep_for(kHeld);
    meter.got();
    EXPECT_EQ(meter.figures().sampled, 0U);
    gate.open();
    meter.asks(stream);
    meter.ends();
    stream.sync();
    const LoopFigures figures = meter.figures();
    ASSERT_EQ(figures.sampled, 1U);
    EXPECT_GE(figures.wait.p50, kSeconds * (1 - kTolerance)) << "the host's";
    EXPECT_LT(figures.gap.p50, kSeconds / 2) << "the device's";
  });
}

TEST_P(Metering, AMeterMayEndBeforeTheDeviceReachesItsEvents) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Gate gate(stream);
    {
      LoopMeter meter({.sample_every = 1});
      for (int i = 0; i < 5; ++i) {
        meter.asks(stream);
        meter.got();
      }
    }
    gate.open();
    stream.sync();
    SUCCEED();
  });
}

}  // namespace conformance_loop_meter_test
}  // namespace leat::feeder
