// Which steps are measured: none whose beginning nobody saw, none that leads from one epoch to the
// next, whatever part of an epoch a rank has. In virtual time, where a step takes 1 ms, and hours
// pass before the loop and between its epochs.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace which_steps_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::Numbers;

constexpr std::size_t kBatches = 16;
constexpr double kStep = 1e-3;

// Which batches of epoch 0 were released before.
std::string resumed(std::initializer_list<Interval> released) {
  State state{.samples = 4 * kBatches, .batch_size = 4, .epochs = {{.epoch = 0}}};
  for (const Interval& one : released) state.epochs[0].batches.add(one);
  return state.text();
}

template <class Loop>
void with_feed(const PrefetcherOptions& given, std::size_t devices, const Loop& loop) {
  in_virtual_time([&] {
    sleep_for(5h);
    PrefetcherOptions options = given;
    options.batch_size = 4;
    const Numbers data({.size = 4 * kBatches});
    std::vector<gpu::Device> all;
    for (std::size_t i = 0; i < devices; ++i) {
      all.push_back(gpu::open_host({.h2d_bandwidth = 1e9}, static_cast<int>(i)));
    }
    Prefetcher feed(data, all, options);
    loop(feed);
  });
}

void work_on_host(Lease& batch, Duration time = 1ms) {
  EXPECT_NE(batch["number"].data<std::int64_t>(), nullptr);  // waits for the copy
  sleep_for(time);
  batch.release();
}

void expect_steps_of_1_ms(const Stats& stats) {
  EXPECT_GT(stats.sampled_steps, 0U);
  EXPECT_DOUBLE_EQ(stats.step.p50, kStep);
  EXPECT_DOUBLE_EQ(stats.step.p99, kStep);
  EXPECT_NEAR(stats.t_step, kStep, kStep * 1e-9);
}

TEST(WhichSteps, OfTheHostAfterAResume) {
  with_feed({.resume = resumed({{0, 5}})}, 1, [](Prefetcher& feed) {
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (Lease& batch : feed.epoch(epoch)) work_on_host(batch);
      sleep_for(1h);
    }
    EXPECT_EQ(feed.stats().sampled_steps, kBatches - 5 - 1 + 2 * (kBatches - 1));
    expect_steps_of_1_ms(feed.stats());
  });
}

TEST(WhichSteps, OfTheHostWithSharedBatches) {
  with_feed({.sharing = Sharing::kDynamic}, 2, [](Prefetcher& feed) {
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      TaskGroup group;
      for (std::size_t rank = 0; rank < 2; ++rank) {
        group.go([&, rank] {
          for (Lease& batch : feed.rank(rank).epoch(epoch)) work_on_host(batch);
        });
      }
      group.wait();
      sleep_for(1h);
    }
    for (std::size_t rank = 0; rank < 2; ++rank) expect_steps_of_1_ms(feed.rank(rank).stats());
  });
}

TEST(WhichSteps, OfTheHostWhereTheFirstBatchIsReleasedLast) {
  with_feed({.max_leases = 2}, 1, [](Prefetcher& feed) {
    std::optional<Lease> first = feed.next();
    std::optional<Lease> second = feed.next();
    work_on_host(*second);
    work_on_host(*first);
    for (int i = 0; i < 5; ++i) {
      std::optional<Lease> batch = feed.next();
      work_on_host(*batch);
    }
    // The first batch's step ended when the second was asked for, and is the pass's first. What is
    // done on it later is the rest of the loop, before the third is asked for.
    const Stats stats = feed.stats();
    EXPECT_EQ(stats.sampled_steps, 6U);
    EXPECT_DOUBLE_EQ(stats.step.p50, kStep);
    EXPECT_DOUBLE_EQ(stats.step.p99, 2 * kStep);
    EXPECT_NEAR(stats.t_c, kStep, kStep * 1e-9);
    EXPECT_NEAR(stats.t_step, 7 * kStep / 6, kStep * 1e-3);
  });
}

// What began before a reset is no step behind it.
TEST(WhichSteps, OfTheHostAfterAReset) {
  with_feed({}, 1, [](Prefetcher& feed) {
    for (Lease& batch : feed.epoch(0)) {
      const bool half = batch.index() == 7;
      work_on_host(batch);
      if (!half) continue;
      sleep_for(1h);
      feed.reset_stats();
    }
    EXPECT_EQ(feed.stats().sampled_steps, kBatches - 8 - 1);
    expect_steps_of_1_ms(feed.stats());
  });
}

// A batch that nobody looks at is a step, too.
TEST(WhichSteps, OfTheHostAreThoseOfBatchesThatNobodyLooksAt) {
  with_feed({}, 1, [](Prefetcher& feed) {
    for (Lease& batch : feed.epoch(0)) {
      if (batch.index() % 4 == 0) {
        sleep_for(1ms);
        batch.release();
      } else {
        work_on_host(batch);
      }
    }
    EXPECT_EQ(feed.stats().sampled_steps, kBatches - 1);
    expect_steps_of_1_ms(feed.stats());
  });
}

// There are no steps within an epoch: they lead from one to the next.
TEST(WhichSteps, OfEpochsOfOneBatchLeadToTheNextEpoch) {
  for (const bool on_stream : {true, false}) {
    in_virtual_time([&] {
      const Numbers data({.size = 4});
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      const gpu::Stream stream(device);
      Prefetcher feed(data, device, {.batch_size = 4, .sample_every = 2});
      for (std::uint64_t epoch = 0; epoch < 60; ++epoch) {
        for (Lease& batch : on_stream ? feed.epoch(epoch, stream) : feed.epoch(epoch)) {
          if (on_stream) stream.launch_host([] {}, 1ms);
          if (!on_stream) work_on_host(batch);
        }
      }
      stream.sync();
      EXPECT_GE(feed.stats().sampled_steps, 20U);
      expect_steps_of_1_ms(feed.stats());
    });
  }
}

// Of two leases that are released in the other order, the second step ends before the first.
TEST(WhichSteps, OfTheDeviceAreNeverNegative) {
  with_feed({.max_leases = 2, .sample_every = 2}, 1, [](Prefetcher& feed) {
    const gpu::Stream stream(feed.rank(0).device());
    for (std::size_t i = 0; i < 4 * kBatches; ++i) {
      std::optional<Lease> first = feed.next();
      if (!first.has_value()) continue;
      std::optional<Lease> second = feed.next();
      for (std::optional<Lease>* lease : {&second, &first}) {
        if (!lease->has_value()) continue;
        (*lease)->on(stream);
        stream.launch_host([] {}, 1ms);
        (*lease)->release();
      }
      stream.sync();
      const Stats stats = feed.stats();
      EXPECT_GE(stats.t_step, 0);
      EXPECT_GE(stats.t_c, 0);
      EXPECT_GE(stats.step.p50, 0);
    }
    EXPECT_GT(feed.stats().batches, 3 * kBatches);
  });
}

// sample_every 9 measures the step from the 8th batch to the 9th: here, those of two epochs.
TEST(WhichSteps, OfTheDeviceAfterAResumeWithoutTheLastBatches) {
  with_feed({.resume = resumed({{8, kBatches}}), .sample_every = 9}, 1, [](Prefetcher& feed) {
    const gpu::Stream stream(feed.rank(0).device());
    for (std::uint64_t epoch = 0; epoch < 12; ++epoch) {
      for (Lease& batch : feed.epoch(epoch, stream)) {
        stream.launch_host([] {}, 1ms);
        batch.release();
      }
      stream.sync();
      if (epoch == 1) {
        EXPECT_LT(feed.stats().step.p99, 1.0);
      }
      sleep_for(1h);
    }
    expect_steps_of_1_ms(feed.stats());
  });
}

TEST(WhichSteps, OfTheDeviceWithSharedBatches) {
  for (std::size_t sample_every = 2; sample_every < 12; ++sample_every) {
    with_feed({.sharing = Sharing::kDynamic, .sample_every = sample_every}, 2,
              [](Prefetcher& feed) {
                for (std::uint64_t epoch = 0; epoch < 12; ++epoch) {
                  TaskGroup group;
                  for (std::size_t rank = 0; rank < 2; ++rank) {
                    group.go([&, rank] {
                      const gpu::Stream stream(feed.rank(rank).device());
                      for (Lease& batch : feed.rank(rank).epoch(epoch, stream)) {
                        stream.launch_host([] {}, 1ms);
                        batch.release();
                      }
                      stream.sync();
                    });
                  }
                  group.wait();
                  sleep_for(1h);
                }
                for (std::size_t rank = 0; rank < 2; ++rank) {
                  EXPECT_GT(feed.rank(rank).stats().sampled_steps, 5U);
                  EXPECT_LT(feed.rank(rank).stats().step.p99, 1.0);
                }
              });
  }
}

// Of epochs of 4 batches whose steps take 5, 1 and 3 ms: each of them as often as the others.
TEST(WhichSteps, OfShortEpochsAreAllOfThemAlike) {
  constexpr std::array kSteps = {1ms, 5ms, 1ms, 3ms};
  for (const std::size_t sample_every : {8U, 16U}) {
    in_virtual_time([&] {
      const Numbers data({.size = kSteps.size()});
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      Prefetcher feed(data, device, {.batch_size = 1, .sample_every = sample_every});
      const gpu::Stream stream(device);
      for (std::uint64_t epoch = 0; epoch < 1'500; ++epoch) {
        for (Lease& batch : feed.epoch(epoch, stream)) {
          stream.launch_host([] {}, kSteps.at(batch.index()));
          batch.release();
        }
        stream.sync();
      }
      EXPECT_NEAR(feed.stats().t_step, 3e-3, 0.2e-3) << "one in " << sample_every;
    });
  }
}

// Those that the device has timed count, before and after.
TEST(WhichSteps, AreThoseOfTheDeviceWhereSomeEpochsAreOfTheHost) {
  with_feed({.sample_every = 2}, 1, [](Prefetcher& feed) {
    const gpu::Stream stream(feed.rank(0).device());
    const auto on_host = [&](std::uint64_t epoch) {
      for (Lease& batch : feed.epoch(epoch)) work_on_host(batch, 5ms);
    };
    on_host(0);
    EXPECT_DOUBLE_EQ(feed.stats().step.p50, 5e-3);
    for (std::uint64_t epoch = 1; epoch < 4; ++epoch) {
      for (Lease& batch : feed.epoch(epoch, stream)) {
        stream.launch_host([] {}, 1ms);
        batch.release();
      }
      stream.sync();
    }
    static_cast<void>(feed.stats());  // collects what was timed
    on_host(4);
    expect_steps_of_1_ms(feed.stats());
  });
}

}  // namespace which_steps_test
}  // namespace leat::feeder
