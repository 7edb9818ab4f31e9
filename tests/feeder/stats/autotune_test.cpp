// Autotune: what it changes, that it pays, that it stays within the caps, and that the batches are
// the same. On a modelled device, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace autotune_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::in_virtual_time;
using support::launch_check;
using support::Numbers;

constexpr std::size_t kBatchSize = 4;  // of 100 bytes: Tx is 400 ns
constexpr std::size_t kSteps = 3000;

struct Tuned {
  Stats stats;
  double last_step = 0;  // the mean of the last thousand
  std::size_t pinned_bytes = 0;
  std::size_t device_bytes = 0;
};

// `read_time(step)` is a sample's.
Tuned run_tuned(PrefetcherOptions options, Duration tc, Duration (*read_time)(std::uint64_t),
                std::size_t steps = kSteps) {
  Tuned tuned;
  VirtualClock clock;
  options.batch_size = kBatchSize;
  options.sample_every = 2;
  const auto body = [&] {
    const Numbers data({.size = kBatchSize * steps,
                        .pattern_bytes = 92,
                        .on_read = [&](std::uint64_t sample) { sleep_for(read_time(sample)); }});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, options);
    TimePoint late;
    for (Lease& batch : feed.epoch(0, stream)) {
      launch_check(stream, batch, expected_samples(data, options, batch), tc);
      if (batch.index() + 1000 == steps) {
        stream.sync();
        late = now();
      }
    }
    stream.sync();
    tuned.last_step = std::chrono::duration<double>(now() - late).count() / 1000;
    tuned.stats = feed.stats();
    tuned.pinned_bytes = device.memory().pinned.used;
    tuned.device_bytes = device.memory().device.used;
  };
  run(body, {.workers = 1, .clock = &clock});
  return tuned;
}

Duration slow_read(std::uint64_t) { return 300ns; }  // Tread 1200 ns

TEST(Autotune, AddsWorkersUntilReadingIsHidden) {
  const Tuned tuned = run_tuned({.autotune = Autotune{}}, 300ns, slow_read);
  EXPECT_NEAR(tuned.last_step, 400e-9, 10e-9) << "the link's";
  EXPECT_GE(tuned.stats.workers, 3U);
  EXPECT_LE(tuned.stats.workers, 4U);
  ASSERT_GE(tuned.stats.decisions.size(), 2U);
  const Decision& first = tuned.stats.decisions[0];
  EXPECT_EQ(first.what, "workers");
  EXPECT_EQ(first.from, 1U);
  EXPECT_EQ(first.to, 2U);
  EXPECT_LE(first.batch, 200U);
  EXPECT_NE(first.why.find("the consumer waits for 75 % of the step"), std::string::npos)
      << first.why;
  EXPECT_NE(first.why.find("expected: 100 % faster"), std::string::npos) << first.why;
}

TEST(Autotune, DeepensWhatTakesTurns) {
  const Tuned tuned = run_tuned({.prefetch_depth = 1, .autotune = Autotune{}}, 400ns,
                                [](std::uint64_t) { return Duration(10); });
  EXPECT_NEAR(tuned.last_step, 400e-9, 10e-9);
  EXPECT_EQ(tuned.stats.prefetch_depth, 2U);
  ASSERT_EQ(tuned.stats.decisions.size(), 1U);
  EXPECT_EQ(tuned.stats.decisions[0].what, "prefetch_depth");
  EXPECT_EQ(tuned.stats.decisions[0].to, 2U);
}

TEST(Autotune, LeavesAloneWhatCannotBeBettered) {
  const Tuned tuned =
      run_tuned({.autotune = Autotune{}}, 1000ns, [](std::uint64_t) { return Duration(10); });
  EXPECT_TRUE(tuned.stats.decisions.empty()) << tuned.stats.decisions[0].why;
  EXPECT_NEAR(tuned.last_step, 1000e-9, 10e-9);
}

TEST(Autotune, TakesWorkersBackThatAreNotNeeded) {
  const Tuned tuned = run_tuned({.workers = 6, .autotune = Autotune{}}, 1000ns,
                                [](std::uint64_t) { return Duration(100); });
  EXPECT_EQ(tuned.stats.workers, 1U);
  EXPECT_EQ(tuned.stats.decisions.size(), 5U);
  EXPECT_NEAR(tuned.last_step, 1000e-9, 10e-9) << "and nobody waits";
}

// The dataset is slow in its middle third.
TEST(Autotune, FollowsALoadThatChanges) {
  const Tuned tuned = run_tuned({.order = Order::kSequential, .autotune = Autotune{}}, 500ns,
                                [](std::uint64_t sample) {
                                  const std::uint64_t step = sample / kBatchSize;
                                  return step > 1000 && step < 2000 ? Duration(400) : Duration(50);
                                });
  std::size_t most = 0;
  for (const Decision& decision : tuned.stats.decisions) {
    if (decision.what == "workers") most = std::max(most, decision.to);
  }
  EXPECT_GE(most, 4U);
  EXPECT_LT(tuned.stats.workers, most);
  EXPECT_NEAR(tuned.last_step, 500e-9, 10e-9);
}

// A first benchmark of a reader, and an epoch that is one batch.
TEST(Autotune, TunesWhateverTheLoopLooksAt) {
  for (const bool one_batch : {true, false}) {
    in_virtual_time([&] {
      const Numbers data({.size = one_batch ? kBatchSize : kBatchSize * kSteps,
                          .pattern_bytes = 92,
                          .read_time = 300ns});
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      const gpu::Stream stream(device);
      Prefetcher feed(data, device, {.batch_size = kBatchSize, .autotune = Autotune{}});
      std::size_t samples = 0;
      for (std::uint64_t epoch = 0; samples < kBatchSize * kSteps; ++epoch) {
        for (Lease& batch : one_batch ? feed.epoch(epoch, stream) : feed.epoch(epoch)) {
          samples += batch.size();
          if (one_batch) stream.launch_host([] {}, 400ns);
          if (!one_batch) sleep_for(400ns);
        }
      }
      EXPECT_GE(feed.stats().workers, 3U);
      EXPECT_NEAR(feed.stats().t_step, 400e-9, 10e-9);
    });
  }
}

// Six times to and fro: in the end as many slots are in use as after the first time.
TEST(Autotune, TakesSlotsBackWithTheirWorkers) {
  const Tuned tuned = run_tuned(
      {.order = Order::kSequential, .autotune = Autotune{}}, 500ns,
      [](std::uint64_t sample) {
        return sample / kBatchSize % 2000 < 1000 ? Duration(400) : Duration(50);
      },
      12'000);
  EXPECT_GT(tuned.stats.decided, 10U);
  EXPECT_EQ(tuned.stats.pinned_slots,
            3 + (tuned.stats.workers - 1) + (tuned.stats.prefetch_depth - 2));
  EXPECT_NEAR(tuned.last_step, 500e-9, 10e-9);
}

// It may go on for months: the list has an end.
TEST(Autotune, ForgetsItsOldestDecisions) {
  const Tuned tuned = run_tuned(
      {.order = Order::kSequential, .autotune = Autotune{.every = 8}}, 500ns,
      [](std::uint64_t sample) {
        const std::uint64_t step = sample / kBatchSize;
        return step % 128 < 64 ? Duration(400) : Duration(50);
      },
      20'000);
  const std::vector<Decision>& latest = tuned.stats.decisions;
  EXPECT_GT(tuned.stats.decided, kMostDecisions);
  ASSERT_EQ(latest.size(), kMostDecisions);
  EXPECT_GT(latest.front().batch, 1000U);
  EXPECT_GT(latest.back().batch, 19'000U);
  EXPECT_TRUE(std::ranges::is_sorted(latest, {}, &Decision::batch));
}

// Slots of 512 bytes, with their alignment.
TEST(Autotune, StaysWithinTheCaps) {
  const Tuned free = run_tuned({.autotune = Autotune{.max_workers = 8, .max_prefetch_depth = 4}},
                               300ns, slow_read);
  EXPECT_EQ(free.pinned_bytes, (8U + 4) * 768);
  EXPECT_EQ(free.device_bytes, 4U * 768);
  const Tuned bounded =
      run_tuned({.autotune = Autotune{}, .max_pinned_bytes = 4 * 768, .max_device_bytes = 2 * 768},
                300ns, slow_read);
  EXPECT_EQ(bounded.pinned_bytes, 4U * 768);
  EXPECT_EQ(bounded.device_bytes, 2U * 768);
  EXPECT_EQ(bounded.stats.workers, 2U) << "4 slots: 2 workers and a depth of 2";
  EXPECT_NEAR(bounded.last_step, 600e-9, 20e-9);
  EXPECT_THROW(run_tuned({.autotune = Autotune{}, .max_pinned_bytes = 2 * 768}, 300ns, slow_read),
               std::invalid_argument);
}

// What is left of a device's caps bounds the maxima too; one device may stand for two ranks.
TEST(Autotune, LeavesRoomUnderTheMemoryCapsOfADevice) {
  in_virtual_time([] {
    constexpr std::size_t kSlot = 768;
    const Numbers data({.size = 64 * kBatchSize, .pattern_bytes = 92});
    for (const std::size_t ranks : {1U, 2U}) {
      // On a device of so many slots, of which one is taken, makes the feed and returns its use.
      const auto used = [&](std::size_t pinned, std::size_t device, CheckSlots checks) {
        const gpu::Device open =
            gpu::open_host({}, 0, {.device_bytes = device * kSlot, .pinned_bytes = pinned * kSlot});
        const gpu::PinnedBuffer other(open, kSlot);
        const gpu::DeviceBuffer another(open, kSlot);
        Prefetcher feed(
            data, std::vector(ranks, open),
            {.batch_size = kBatchSize * ranks, .autotune = Autotune{}, .check_slots = checks});
        return std::pair(open.memory().pinned.used / kSlot - 1,
                         open.memory().device.used / kSlot - 1);
      };
      const std::size_t of_workers = ranks == 1 ? 8 : 4;
      EXPECT_EQ(used(0, 0, CheckSlots::kNo), std::pair(ranks * (of_workers + 4), ranks * 4));
      EXPECT_EQ(used(1 + ranks * 5, 0, CheckSlots::kNo), std::pair(ranks * 5, ranks * 2));
      EXPECT_EQ(used(0, 1 + ranks * 3 + ranks - 1, CheckSlots::kNo).second, ranks * 3);
      EXPECT_EQ(used(1 + ranks * (4 + 3 + 2), 0, CheckSlots::kYes),
                std::pair(ranks * 9, ranks * 2));
      // What it begins with does not fit: the device says so, as without autotune.
      EXPECT_THROW(static_cast<void>(used(ranks * 3, 0, CheckSlots::kNo)), gpu::GpuError);
      EXPECT_THROW(static_cast<void>(used(0, ranks * 2, CheckSlots::kNo)), gpu::GpuError);
    }
  });
}

}  // namespace autotune_test
}  // namespace leat::feeder
