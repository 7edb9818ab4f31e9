// Several devices that share the readers: every instant of a run, to the nanosecond.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/instants.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace several_devices_exact_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::Numbers;

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
  in_virtual_time({.workers = scheduler_workers}, [&] {
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
    Prefetcher prefetcher(data, open_devices(shape.devices, {.h2d_bandwidth = 1e9}), options);
    TaskGroup group;
    for (std::size_t i = 0; i < shape.devices; ++i) {
      group.go([&, i] {
        take_instants(prefetcher.rank(i), at[i], [&](const Lease&, const gpu::Stream& stream) {
          stream.launch_host([] {}, shape.tc);
        });
      });
    }
    group.wait();
  });
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
  int cell = 0;
  for (const std::size_t devices : {1U, 2U, 3U}) {
    for (const std::size_t workers : {1U, 2U, 3U, 4U}) {
      for (const std::size_t pinned : {2U, 3U, 4U}) {
        for (const std::size_t depth : {1U, 2U}) {
          for (const auto& [sample_read, tc] : {std::pair(75ns, 300ns), std::pair(100ns, 1000ns),
                                                std::pair(50ns, 100ns), std::pair(30ns, 399ns)}) {
            if (support::is_left_out(cell++)) continue;
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

}  // namespace several_devices_exact_test
}  // namespace leat::feeder
