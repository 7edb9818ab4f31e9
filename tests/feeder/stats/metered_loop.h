// A loop that takes as long as a test says, in virtual time, and says so to a LoopMeter.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/loop_meter.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/run.h"

namespace leat::feeder::metered_loop {

inline constexpr double kRounding = 1e-12;

inline void expect_quantiles(const Quantiles& of, double p50, double p99) {
  EXPECT_NEAR(of.p50, p50, kRounding);
  EXPECT_NEAR(of.p99, p99, kRounding);
}

struct Loop {
  std::size_t batches = 100;
  Duration first_wait = std::chrono::hours(1);
  std::function<Duration(std::size_t)> wait;  // for batch i
  std::function<void(std::size_t)> work;      // on it
  const gpu::StreamRef* stream = nullptr;
};

// One iteration over a loader that takes wait(i) for its batch i. It needs an hour to find out that
// there is no other batch.
inline void iterate(LoopMeter& meter, const Loop& loop) {
  for (std::size_t i = 0;; ++i) {
    loop.stream == nullptr ? meter.asks() : meter.asks(*loop.stream);
    if (i == loop.batches) break;
    sleep_for(i == 0 ? loop.first_wait : loop.wait(i));
    meter.got();
    loop.work(i);
  }
  sleep_for(std::chrono::hours(1));
  meter.ends();
}

inline void in_virtual_time_on_device(const gpu::HostFaults& faults,
                                      const std::function<void(const gpu::Stream&)>& body) {
  support::in_virtual_time([&] {
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9, .faults = faults});
    const gpu::Stream stream(device);
    body(stream);
  });
}
inline void in_virtual_time_on_device(const std::function<void(const gpu::Stream&)>& body) {
  in_virtual_time_on_device({}, body);
}

}  // namespace leat::feeder::metered_loop
