// The steps of bench/comm/wire.h: the fit on times that are known, and the program's own loop on a
// virtual clock, beside the simulator.
#include "bench/comm/wire.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/comm/communicator.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using bench::WireSample;

std::vector<WireSample> samples_of(double alpha, double bandwidth,
                                   const std::vector<double>& sizes) {
  std::vector<WireSample> samples;
  for (const double size : sizes) {
    samples.push_back({.bytes = size, .nanoseconds = alpha + 1e9 * size / bandwidth});
  }
  return samples;
}

TEST(CommWire, TheFitOfExactTimesIsExact) {
  const bench::WireFit fit = bench::fit_wire(samples_of(250e3, 117e6, {1e5, 1e6, 3e6, 2e7}));
  EXPECT_NEAR(fit.alpha, 250e3, 1);
  EXPECT_NEAR(fit.bandwidth, 117e6, 100);
  EXPECT_LT(fit.worst, 1e-6);
}

TEST(CommWire, TheFitSaysByHowMuchItsWorstSampleIsOff) {
  std::vector<WireSample> samples = samples_of(1e6, 1e9, {1e6, 1e6, 1e6, 1e7, 1e7, 1e7});
  for (const std::size_t late : {2U, 5U}) samples[late].nanoseconds *= 1.2;
  const bench::WireFit fit = bench::fit_wire(samples);
  EXPECT_GT(fit.worst, 0.05);
  EXPECT_LT(fit.worst, 0.2);
}

TEST(CommWire, AFitHasNoNegativeAlpha) {
  const bench::WireFit fit = bench::fit_wire(samples_of(-1e3, 1e9, {1e4, 1e6}));
  EXPECT_EQ(fit.alpha, 0);
  EXPECT_GT(fit.bandwidth, 1e9);
}

TEST(CommWire, AFitRefusesSamplesThatSayNothing) {
  EXPECT_THROW(static_cast<void>(bench::fit_wire({})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(bench::fit_wire(samples_of(1, 1e9, {1e6, 1e6}))),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(bench::fit_wire(std::vector<WireSample>{{1e3, 2e6}, {1e6, 1e6}})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(bench::fit_wire(std::vector<WireSample>{{1e3, 0}, {1e6, 1e6}})),
               std::invalid_argument);
}

// What act(communicator) does on all ranks, on a virtual clock and this link.
template <class Act>
void on_link(int ranks, const comm::LinkModel& link, const Act& act) {
  VirtualClock clock;
  run(
      [&] {
        const std::vector<comm::Communicator> all =
            comm::open("local:" + std::to_string(ranks), {.deadline = 24h, .link = link});
        TaskGroup group;
        for (const comm::Communicator& one : all) {
          group.go([&] { act(one); });
        }
        group.wait();
      },
      {.workers = 1, .clock = &clock});
}

constexpr comm::LinkModel kLink{.bandwidth = 125e6, .alpha = 200us, .delta = 50us, .enabled = true};

TEST(CommWire, AModelledLinkIsMeasuredExactly) {
  const std::vector<std::size_t> sizes = {256 << 10, 4 << 20};
  on_link(4, kLink, [&](const comm::Communicator& ranks) {
    for (const auto measure : {bench::measure_all_reduces, bench::measure_sends}) {
      const bench::WireFit fit = bench::fit_wire(measure(ranks, sizes, 1));
      EXPECT_NEAR(fit.alpha, 200e3, 10);
      EXPECT_NEAR(fit.bandwidth, 125e6, 1e3);
    }
    EXPECT_EQ(bench::measure_notice(ranks), kLink.alpha);
  });
}

// The same times with a 32nd of the bytes, on a link that is as much slower.
bench::WireCase small(bench::WireCase one) {
  for (std::size_t& size : one.instance.bytes) size /= 32;
  for (std::size_t& size : one.instance.options.bucket_bytes) size /= 32;
  one.instance.options.partition_bytes /= 32;
  one.instance.options.credit_bytes /= 32;
  return one;
}

TEST(CommWire, StepsOnAModelledLinkTakeWhatTheSimulatorSays) {
  comm::LinkModel link = kLink;
  link.bandwidth /= 32;
  const bench::WireFit fit{.alpha = 200e3, .bandwidth = link.bandwidth};
  for (const bench::WireCase& large : bench::wire_cases(4)) {
    SCOPED_TRACE(large.name);
    const bench::WireCase one = small(large);
    std::vector<std::vector<Duration>> times(4);
    on_link(4, link, [&](const comm::Communicator& ranks) {
      times[static_cast<std::size_t>(ranks.rank())] = bench::run_steps(ranks, one.instance, 2);
    });
    const Duration expected = bench::expected_step(one, fit, kLink.delta);
    const std::size_t workers = one.instance.ranks.size();
    for (std::size_t r = 0; r < 4; ++r) {
      const std::size_t steps = r < workers ? 2 : 0;
      EXPECT_EQ(times[r], std::vector<Duration>(steps, expected)) << "rank " << r;
    }
  }
}

TEST(CommWire, PriorityIsTheFastestExchangeAndNoOverlapTheSlowest) {
  const bench::WireFit fit{.alpha = 200e3, .bandwidth = 118e6};
  std::vector<Duration> times;
  for (const bench::WireCase& one : bench::wire_cases(4)) {
    times.push_back(bench::expected_step(one, fit, 100us));
  }
  // no overlap, fifo, bucketed, priority, server
  EXPECT_LT(times[3], times[1]);
  EXPECT_LT(times[3], times[2]);
  EXPECT_LT(times[1], times[0]);
  EXPECT_LT(times[2], times[0]);
}

}  // namespace
}  // namespace leat
