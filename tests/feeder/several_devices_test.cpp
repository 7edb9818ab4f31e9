// Several devices that share the readers: which rank gets what, and when.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace several_devices_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersView;
using support::Place;
using support::place_title;

class SeveralDevices : public PrefetcherTest {
 protected:
  // consume(i) for each rank, at the same time: each on a fiber, or on a thread, of its own.
  template <class Consume>
  static void on_each(std::size_t ranks, const Consume& consume) {
    if (GetParam() == Place::kPlainThread) {
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < ranks; ++i) threads.emplace_back([&, i] { consume(i); });
      for (std::thread& thread : threads) thread.join();
    } else {
      TaskGroup group;
      for (std::size_t i = 0; i < ranks; ++i) group.go([&, i] { consume(i); });
      group.wait();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Places, SeveralDevices, testing::ValuesIn(kPlaces), place_title);

TEST_P(SeveralDevices, EachRankGetsItsShardOfEachStepIfNeedBeAnEmptyOne) {
  in_place([] {
    for (const std::size_t ranks : {1U, 2U, 3U, 5U}) {
      for (const std::uint64_t size : {0U, 1U, 4U, 7U, 24U, 29U}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << size << " samples");
        const Numbers data({.size = size, .on_read = uneven_reads()});
        const PrefetcherOptions options = {.batch_size = 8, .workers = 2, .seed = 4};
        Prefetcher prefetcher(data, open_devices(ranks), options);
        EXPECT_EQ(prefetcher.ranks(), ranks);
        std::vector<std::atomic<std::uint64_t>> steps(ranks);
        on_each(ranks, [&](std::size_t rank) {
          Feed& feed = prefetcher.rank(rank);
          EXPECT_EQ(feed.rank(), rank);
          const gpu::Stream stream(feed.device());
          for (const std::uint64_t epoch : {0U, 1U, 5U}) {
            for (Lease& batch : feed.epoch(epoch, stream)) {
              const auto want = expected_shard(data, options, rank, ranks, batch);
              EXPECT_EQ(batch.size(), want.size());
              EXPECT_EQ(batch["number"].shape()[0], static_cast<std::int64_t>(want.size()));
              const std::uint64_t of_step = std::min<std::uint64_t>(8, size - 8 * batch.index());
              EXPECT_EQ(batch.step_size(), of_step);
              EXPECT_EQ(batch.step_shards(), std::min<std::uint64_t>(of_step, ranks));
              launch_check(stream, batch, want);
              ++steps[rank];
            }
          }
          stream.sync();
        });
        for (const auto& of_rank : steps) EXPECT_EQ(of_rank, 3 * ((size + 7) / 8));
      }
    }
  });
}

TEST_P(SeveralDevices, ProcessesWithOneDeviceEachGetTheSameShards) {
  in_place([] {
    constexpr std::size_t kWorld = 3;
    const Numbers data({.size = 50});
    PrefetcherOptions options = {.batch_size = 8, .seed = 4, .world_size = kWorld};
    for (std::size_t rank = 0; rank < kWorld; ++rank) {
      options.rank = rank;
      Prefetcher feed(data, gpu::open("host"), options);
      std::uint64_t steps = 0;
      for (Lease& batch : feed.epoch(2)) {
        EXPECT_EQ(NumbersView(batch).samples(), expected_shard(data, options, rank, kWorld, batch));
        ++steps;
      }
      EXPECT_EQ(steps, 7U);
    }
    options.rank = 1;
    Prefetcher two(data, open_devices(2), options);
    EXPECT_EQ(two.rank(1).rank(), 2U);
    Lease batch = *two.rank(1).next();
    EXPECT_EQ(NumbersView(batch).samples(), expected_shard(data, options, 2, kWorld, batch));
  });
}

TEST_P(SeveralDevices, ARankThatStandsStillDoesNotHoldUpTheOthers) {
  in_place([] {
    const Numbers data({.size = 400});
    const PrefetcherOptions options = {.batch_size = 8};
    Prefetcher prefetcher(data, open_devices(2), options);
    Lease held = *prefetcher.rank(1).next();
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (Lease& batch : prefetcher.rank(0).epoch(0)) {
        EXPECT_EQ(NumbersView(batch).samples(), expected_shard(data, options, 0, 2, batch));
      }
    }
    EXPECT_EQ(NumbersView(held).samples(), expected_shard(data, options, 1, 2, held));
  });
}

// From a reader, or, above a budget, from the consumer to whom the samples are handed out: of two
// samples that fail at the same time, the later one.
TEST_P(SeveralDevices, AnErrorReachesEveryConsumer) {
  in_place([] {
    for (const std::uint64_t budget : {0U, 1U}) {
      const auto is_bad = [=](std::uint64_t sample) {
        return sample == 20 || (sample == 9 && budget > 0);
      };
      const Numbers data({.size = 64, .on_read = failing_reads(is_bad, "the disk is on fire")});
      Prefetcher prefetcher(data, open_devices(3),
                            {.batch_size = 8,
                             .workers = 2,
                             .order = Order::kSequential,
                             .read_failures = {.count = budget}});
      on_each(3, [&](std::size_t rank) {
        const auto train = [&] {
          for (;;) static_cast<void>(prefetcher.rank(rank).next());
        };
        const char* const which = budget == 0 ? "sample 20" : "; 1 samples failed before it";
        expect_throws<Error>(train, {which, "the disk is on fire"});
      });
    }
  });
}

// What other stages fail with because one has ended is not what anybody is told: who fails first is
// the cause. It takes several runs to have them all end at the same time.
TEST(SeveralDevicesAtOnce, AreAllToldOfTheOneThatFails) {
  const Numbers data({.size = 6400});
  for (std::uint64_t round = 0; round < 60; ++round) {
    std::vector<gpu::Device> devices;
    for (std::uint64_t i = 0; i < 3; ++i) {
      devices.push_back(gpu::open_host({.faults = {.copy = i == 1 ? 5 + round : 0}}));
    }
    Prefetcher prefetcher(data, devices, {.batch_size = 8, .workers = 2});
    std::vector<std::thread> consumers;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      consumers.emplace_back([&, rank] {
        const gpu::Stream stream(devices[rank]);
        try {
          for (std::uint64_t epoch = 0;; ++epoch) {
            for (Lease& batch : prefetcher.rank(rank).epoch(epoch, stream)) {
              stream.launch_host([] {});
              static_cast<void>(batch);
            }
          }
        } catch (const std::exception& e) {
          EXPECT_EQ(std::string(e.what()).find("closed"), std::string::npos)
              << "rank " << rank << ", round " << round << ": " << e.what();
        }
      });
    }
    for (std::thread& one : consumers) one.join();
  }
}

TEST_P(SeveralDevices, WithoutARankItIsNotClearWhichOneIsMeant) {
  in_place([] {
    const Numbers data({.size = 64});
    Prefetcher prefetcher(data, open_devices(2), {.batch_size = 8});
    EXPECT_THROW(static_cast<void>(prefetcher.next()), std::logic_error);
    EXPECT_THROW(static_cast<void>(prefetcher.epoch(0)), std::logic_error);
    EXPECT_THROW(static_cast<void>(prefetcher.stats()), std::logic_error);
    EXPECT_THROW(static_cast<void>(prefetcher.rank(2)), std::out_of_range);
    EXPECT_NO_THROW(static_cast<void>(prefetcher.rank(1).stats()));
  });
}

// Dynamic sharing.

TEST_P(SeveralDevices, SharedDynamicallyEachBatchGoesToOneOfThem) {
  in_place([] {
    for (const std::size_t ranks : {1U, 2U, 4U}) {
      for (const std::uint64_t size : {0U, 3U, 64U, 67U}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << size << " samples");
        const Numbers data({.size = size, .on_read = uneven_reads()});
        const PrefetcherOptions options = {.batch_size = 4,
                                           .workers = 3,
                                           .sharing = Sharing::kDynamic,
                                           .read_across_epochs = ranks != 2};
        Prefetcher prefetcher(data, open_devices(ranks), options);
        std::mutex mutex;
        std::map<std::uint64_t, Batches> got;  // by epoch
        on_each(ranks, [&](std::size_t rank) {
          for (const std::uint64_t epoch : {0U, 1U, 7U}) {
            for (Lease& batch : prefetcher.rank(rank).epoch(epoch)) {
              const auto samples = NumbersView(batch).samples();
              EXPECT_EQ(samples, support::expected_samples(data, options, batch));
              EXPECT_EQ(batch.epoch(), epoch);
              EXPECT_EQ(batch.step_shards(), 1U);
              const std::scoped_lock lock(mutex);
              got[epoch].push_back(samples);
            }
          }
        });
        for (const std::uint64_t epoch : {0U, 1U, 7U}) {
          Batches want = expected_epoch(data, options, epoch);
          std::ranges::sort(want);
          std::ranges::sort(got[epoch]);
          EXPECT_EQ(got[epoch], want) << "epoch " << epoch;
        }
      }
    }
  });
}

TEST_P(SeveralDevices, SharedDynamicallyAnEpochThatWasLeftDoesNotComeAgain) {
  in_place([] {
    const Numbers data({.size = 64});
    Prefetcher prefetcher(data, open_devices(2), {.batch_size = 4, .sharing = Sharing::kDynamic});
    Feed& feed = prefetcher.rank(0);
    for (Lease& batch : feed.epoch(1)) {
      if (batch.index() > 0) break;
    }
    EXPECT_THROW(static_cast<void>(feed.epoch(0).begin()), std::logic_error);
    EXPECT_THROW(static_cast<void>(feed.epoch(1).begin()), std::logic_error);
    std::uint64_t batches = 0;
    for (Lease& batch : feed.epoch(3)) batches += batch.epoch() == 3 ? 1U : 100U;
    for (Lease& batch : prefetcher.rank(1).epoch(3)) batches += batch.epoch() == 3 ? 1U : 100U;
    EXPECT_EQ(batches, 16U);
  });
}

TEST(SeveralDevicesDynamic, TheFasterDeviceGetsMore) {
  in_virtual_time([] {
    const Numbers data({.size = 4 * 400});
    Prefetcher prefetcher(data, open_devices(2),
                          {.batch_size = 4, .workers = 2, .sharing = Sharing::kDynamic});
    std::vector<std::uint64_t> batches(2);
    TaskGroup group;
    for (std::size_t i = 0; i < 2; ++i) {
      group.go([&, i] {
        for (Lease& batch : prefetcher.rank(i).epoch(0)) {
          sleep_for(i == 0 ? 1us : 3us);
          batch.release();
          ++batches[i];
        }
      });
    }
    group.wait();
    EXPECT_EQ(batches[0] + batches[1], 400U);
    EXPECT_NEAR(static_cast<double>(batches[0]), 300, 4);
    EXPECT_LE(now().time_since_epoch(), 310us);
  });
}

}  // namespace several_devices_test
}  // namespace leat::feeder
