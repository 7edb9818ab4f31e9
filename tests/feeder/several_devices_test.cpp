// Several devices that share the readers: which rank gets what, and when.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"

namespace leat::feeder {
namespace several_devices_test {

using namespace std::chrono_literals;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersView;
using support::Place;
using support::place_title;

class SeveralDevices : public PrefetcherTest {
 protected:
  static std::vector<gpu::Device> open_devices(std::size_t count) {
    std::vector<gpu::Device> devices;
    for (std::size_t i = 0; i < count; ++i) {
      devices.push_back(gpu::open("host:" + std::to_string(i)));
    }
    return devices;
  }
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
  // What a rank's batch has to hold: its slice of the global batch.
  static std::vector<std::uint64_t> expected_shard(const Dataset& data,
                                                   const PrefetcherOptions& options,
                                                   std::size_t rank, std::size_t world,
                                                   const Lease& batch) {
    const auto whole = support::expected_samples(data, options, batch);
    const PositionRange slice = balanced_slice(whole.size(), rank, world);
    const auto first = whole.begin() + static_cast<std::ptrdiff_t>(slice.first);
    return {first, first + static_cast<std::ptrdiff_t>(slice.count)};
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

TEST_P(SeveralDevices, AnErrorReachesEveryConsumer) {
  in_place([] {
    const Numbers data({.size = 64, .on_read = [](std::uint64_t sample) {
                          if (sample == 20) throw std::range_error("the disk is on fire");
                        }});
    Prefetcher prefetcher(data, open_devices(3),
                          {.batch_size = 8, .workers = 2, .order = Order::kSequential});
    on_each(3, [&](std::size_t rank) {
      const auto train = [&] {
        for (;;) static_cast<void>(prefetcher.rank(rank).next());
      };
      try {
        train();
        ADD_FAILURE() << "no error";
      } catch (const Error& e) {
        expect_contains(e.what(), {"sample 20", "the disk is on fire"});
      }
    });
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

TEST_P(SeveralDevices, RanksThatDoNotFitAreRefused) {
  in_place([] {
    const Numbers data({.size = 64});
    const auto devices = open_devices(2);
    const auto expect_refused = [&](const PrefetcherOptions& options, const char* what) {
      try {
        const Prefetcher prefetcher(data, devices, options);
        ADD_FAILURE() << what << ": accepted";
      } catch (const std::invalid_argument& e) {
        expect_contains(e.what(), {what});
      }
    };
    expect_refused({.batch_size = 8, .rank = 1}, "world_size");
    expect_refused({.batch_size = 8, .rank = 1, .world_size = 2}, "ranks 1 to 2");
    expect_refused({.batch_size = 8, .rank = 0, .world_size = 1}, "ranks 0 to 1");
    expect_refused({.batch_size = 8, .rank = ~std::size_t{0}, .world_size = 4}, "ranks");
    expect_refused({.batch_size = 8, .sharing = Sharing::kDynamic, .rank = 0, .world_size = 4},
                   "within one process");
    EXPECT_THROW(Prefetcher(data, std::vector<gpu::Device>{}, {.batch_size = 8}),
                 std::invalid_argument);
  });
}

// Dynamic sharing.

TEST_P(SeveralDevices, SharedDynamicallyEachBatchGoesToOneOfThem) {
  in_place([] {
    for (const std::size_t ranks : {1U, 2U, 4U}) {
      for (const std::uint64_t size : {0U, 3U, 64U, 67U}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << size << " samples");
        const Numbers data({.size = size, .on_read = uneven_reads()});
        const PrefetcherOptions options = {
            .batch_size = 4, .workers = 3, .sharing = Sharing::kDynamic};
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
  VirtualClock clock;
  const auto body = [] {
    const Numbers data({.size = 4 * 400});
    const std::vector<gpu::Device> devices = {gpu::open("host:0"), gpu::open("host:1")};
    Prefetcher prefetcher(data, devices,
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
  };
  run(body, {.workers = 1, .clock = &clock});
}

// When.

struct Instants {
  Duration read = 0ns;
  Duration staged = 0ns;
  Duration done = 0ns;
  friend bool operator==(const Instants&, const Instants&) = default;
};
std::ostream& operator<<(std::ostream& out, const Instants& at) {
  return out << "(r " << at.read.count() << ", c " << at.staged.count() << ", m " << at.done.count()
             << ")";
}

struct Shape {
  std::size_t devices;
  std::size_t workers;
  std::size_t pinned;
  std::size_t depth;
  Duration sample_read;
  Duration tc;
};
constexpr std::size_t kShard = 4;  // samples, each of 100 bytes at a byte a nanosecond
constexpr Duration kTx = Duration(kShard * 100);  // on each device's own link
constexpr std::size_t kPeriod = 12;               // steps in which all have as many turns each
constexpr std::size_t kSteps = 36 + kPeriod;

std::vector<std::vector<Instants>> measure(const Shape& shape, int scheduler_workers) {
  std::vector<std::vector<Instants>> at(shape.devices, std::vector<Instants>(kSteps));
  VirtualClock clock;
  const auto body = [&] {
    std::vector<gpu::Device> devices;
    for (std::size_t i = 0; i < shape.devices; ++i) {
      devices.push_back(gpu::open_host({.h2d_bandwidth = 1e9}, static_cast<int>(i)));
    }
    const std::size_t batch_size = kShard * shape.devices;
    std::mutex reading;
    std::vector<std::size_t> reads(shape.devices * kSteps, 0);
    const Numbers data({.size = kSteps * batch_size,
                        .pattern_bytes = 92,
                        .read_time = shape.sample_read,
                        .on_read = [&](std::uint64_t sample) {
                          const std::size_t shard = sample / kShard;
                          const std::scoped_lock lock(reading);
                          if (reads[shard]++ >= kShard) return;  // of the next epoch
                          at[shard % shape.devices][shard / shape.devices].read =
                              now().time_since_epoch();
                        }});
    const PrefetcherOptions options = {.batch_size = batch_size,
                                       .prefetch_depth = shape.depth,
                                       .workers = shape.workers,
                                       .pinned_slots = shape.pinned,
                                       .order = Order::kSequential};
    Prefetcher prefetcher(data, devices, options);
    TaskGroup group;
    for (std::size_t i = 0; i < shape.devices; ++i) {
      group.go([&, i] {
        const gpu::Stream stream(devices[i]);
        const gpu::Stream probe(devices[i]);  // waits for the copies alone
        const gpu::Event start(devices[i], gpu::Timing::kOn);
        start.record(probe);
        std::deque<gpu::Event> staged;
        for (Lease& batch : prefetcher.rank(i).epoch(0, stream)) {
          Instants& instants = at[i][batch.index()];
          stream.launch_host([] {}, shape.tc);
          stream.launch_host([&instants] { instants.done = now().time_since_epoch(); });
          batch.on(probe);
          staged.emplace_back(devices[i], gpu::Timing::kOn).record(probe);
        }
        stream.sync();
        probe.sync();
        for (std::size_t k = 0; k < kSteps; ++k) at[i][k].staged = elapsed(start, staged.at(k));
      });
    }
    group.wait();
  };
  run(body, {.workers = scheduler_workers, .clock = &clock});
  return at;
}

// The recurrence at the head of feeder/prefetcher.h.
std::vector<std::vector<Instants>> compute(const Shape& shape) {
  std::vector<std::vector<Instants>> at(shape.devices, std::vector<Instants>(kSteps));
  std::vector<Duration> read;  // of shard j
  const Duration t_read = static_cast<std::int64_t>(kShard) * shape.sample_read;
  for (std::size_t j = 0; j < shape.devices * kSteps; ++j) {
    const std::size_t k = j / shape.devices;
    std::vector<Instants>& own = at[j % shape.devices];
    const Duration reader = j < shape.workers ? 0ns : read[j - shape.workers];
    const Duration slot = k < shape.pinned ? 0ns : own[k - shape.pinned].staged;
    read.push_back(std::max(reader, slot) + t_read);
    own[k].read = read[j];
    own[k].staged = std::max({read[j], k < 1 ? 0ns : own[k - 1].staged,
                              k < shape.depth ? 0ns : own[k - shape.depth].done}) +
                    kTx;
    own[k].done = std::max(own[k].staged, k < 1 ? 0ns : own[k - 1].done) + shape.tc;
  }
  return at;
}

TEST(SeveralDevicesExact, EveryInstantIsThatOfTheArithmetic) {
  for (const std::size_t devices : {1U, 2U, 3U}) {
    for (const std::size_t workers : {1U, 2U, 3U, 4U}) {
      for (const std::size_t pinned : {2U, 3U, 4U}) {
        for (const std::size_t depth : {1U, 2U}) {
          for (const auto& [sample_read, tc] : {std::pair(75ns, 300ns), std::pair(100ns, 1000ns),
                                                std::pair(50ns, 100ns), std::pair(30ns, 399ns)}) {
            const Shape shape = {devices, workers, pinned, depth, sample_read, tc};
            SCOPED_TRACE(testing::Message() << devices << " devices, W " << workers << ", P "
                                            << pinned << ", d " << depth << ", Tread "
                                            << 4 * sample_read.count() << ", Tc " << tc.count());
            const auto want = compute(shape);
            ASSERT_EQ(measure(shape, 1), want);
            // What is freed at the same instant by two devices comes in any order on two workers.
            if (devices == 1) {
              ASSERT_EQ(measure(shape, 2), want);
            }
            // The start forgotten, the mean step is the longest of its five terms.
            const auto times = [](Duration time, std::size_t of, std::size_t turns) {
              return time * static_cast<std::int64_t>(kPeriod * of / turns);
            };
            const Duration t_read = static_cast<std::int64_t>(kShard) * sample_read;
            for (const auto& one : want) {
              ASSERT_EQ(
                  one[kSteps - 1].done - one[kSteps - 1 - kPeriod].done,
                  std::max({times(t_read, devices, workers), times(kTx, 1, 1), times(tc, 1, 1),
                            times(kTx + tc, 1, depth), times(t_read + kTx, 1, pinned)}));
            }
          }
        }
      }
    }
  }
}

}  // namespace several_devices_test
}  // namespace leat::feeder
