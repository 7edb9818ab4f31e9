// On modelled devices under virtual time, one or several that share the readers: when each batch
// was read, staged and done with is what the recurrence says, to the nanosecond. The consumer's
// kernel checks what it reads, at its start and at its end: no time is won by overwriting a batch
// too early.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <ostream>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace several_devices_exact_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::launch_check;
using support::Numbers;

// Counted from the start of the run.
struct Instants {
  Duration read = Duration::zero();
  Duration staged = Duration::zero();
  Duration done = Duration::zero();
  friend bool operator==(const Instants&, const Instants&) = default;
};

std::ostream& operator<<(std::ostream& out, const Instants& at) {
  return out << "(r " << at.read.count() << ", c " << at.staged.count() << ", m " << at.done.count()
             << ")";
}

// Takes epoch 0, in which use(batch, stream) enqueues the consumer's kernel, and notes when each
// batch was staged and done with.
template <class Use>
void take_instants(Feed& feed, std::vector<Instants>& at, const Use& use) {
  const gpu::Device& device = feed.device();
  const gpu::Stream stream(device);
  const gpu::Stream probe(device);  // waits for the copies alone
  const gpu::Event start(device, gpu::Timing::kOn);
  start.record(probe);
  std::deque<gpu::Event> staged;
  for (Lease& batch : feed.epoch(0, stream)) {
    use(batch, stream);
    stream.launch_host([&done = at.at(batch.index()).done] { done = now().time_since_epoch(); });
    batch.on(probe);
    staged.emplace_back(device, gpu::Timing::kOn).record(probe);
  }
  stream.sync();
  probe.sync();
  ASSERT_EQ(staged.size(), at.size());
  for (std::size_t k = 0; k < at.size(); ++k) at[k].staged = elapsed(start, staged[k]);
}

struct Load {
  Duration sample_read;
  Duration tc;
  Duration copy_latency = 0ns;
};
struct Shape {
  std::size_t devices;
  std::size_t workers;
  std::size_t pinned;
  std::size_t depth;
  Load load;
};
constexpr std::size_t kShard = 4;   // samples, each of 100 bytes at a byte a nanosecond
Duration tx_of(const Load& load) {  // on each device's own link
  return Duration(kShard * 100) + load.copy_latency;
}
// Each of the five terms of the mean step is the longest one somewhere.
constexpr Load kLoads[] = {{75ns, 300ns},  {100ns, 1000ns}, {50ns, 100ns}, {30ns, 399ns},
                           {300ns, 100ns}, {100ns, 400ns},  {500ns, 1ns},  {251ns, 397ns, 300ns}};
constexpr std::size_t kPeriod = 12;  // steps in which all have as many turns each
constexpr std::size_t kSteps = 36 + kPeriod;

std::vector<std::vector<Instants>> measure(const Shape& shape, int scheduler_workers) {
  std::vector<std::vector<Instants>> at(shape.devices, std::vector<Instants>(kSteps));
  in_virtual_time({.workers = scheduler_workers}, [&] {
    const std::size_t batch_size = kShard * shape.devices;
    std::mutex reading;
    std::vector<std::size_t> reads(shape.devices * kSteps, 0);
    const Numbers data({.size = kSteps * batch_size,
                        .pattern_bytes = 92,
                        .read_time = shape.load.sample_read,
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
    const gpu::HostModel model = {.h2d_bandwidth = 1e9, .copy_latency = shape.load.copy_latency};
    Prefetcher prefetcher(data, open_devices(shape.devices, model), options);
    TaskGroup group;
    for (std::size_t i = 0; i < shape.devices; ++i) {
      group.go([&, i] {
        take_instants(prefetcher.rank(i), at[i], [&](Lease& batch, const gpu::Stream& stream) {
          launch_check(stream, batch, expected_shard(data, options, i, shape.devices, batch),
                       shape.load.tc);
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
  const Duration t_read = static_cast<std::int64_t>(kShard) * shape.load.sample_read;
  for (std::size_t j = 0; j < shape.devices * kSteps; ++j) {
    const std::size_t k = j / shape.devices;
    std::vector<Instants>& own = at[j % shape.devices];
    const Duration reader = j < shape.workers ? 0ns : read[j - shape.workers];
    const Duration slot = k < shape.pinned ? 0ns : own[k - shape.pinned].staged;
    read.push_back(std::max(reader, slot) + t_read);
    own[k].read = read[j];
    own[k].staged = std::max({read[j], k < 1 ? 0ns : own[k - 1].staged,
                              k < shape.depth ? 0ns : own[k - shape.depth].done}) +
                    tx_of(shape.load);
    own[k].done = std::max(own[k].staged, k < 1 ? 0ns : own[k - 1].done) + shape.load.tc;
  }
  return at;
}

TEST(SeveralDevicesExact, EveryInstantIsThatOfTheArithmetic) {
  int cell = 0;
  for (const std::size_t devices : {1U, 2U, 3U}) {
    for (const std::size_t workers : {1U, 2U, 3U, 4U}) {
      for (const std::size_t pinned : {2U, 3U, 4U, 6U}) {
        for (const std::size_t depth : {1U, 2U, 3U}) {
          for (const Load& load : kLoads) {
            const int number = cell++;
            if (devices > 1 && number % 3 != 0) continue;  // one device has all
            if (support::is_left_out(number)) continue;
            const Shape shape = {devices, workers, pinned, depth, load};
            SCOPED_TRACE(testing::Message()
                         << devices << " devices, W " << workers << ", P " << pinned << ", d "
                         << depth << ", Tread " << 4 * load.sample_read.count() << ", Tx "
                         << tx_of(load).count() << ", Tc " << load.tc.count());
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
            const Duration t_read = static_cast<std::int64_t>(kShard) * load.sample_read;
            const Duration tx = tx_of(load);
            for (const auto& one : want) {
              ASSERT_EQ(
                  one[kSteps - 1].done - one[kSteps - 1 - kPeriod].done,
                  std::max({times(t_read, devices, workers), times(tx, 1, 1), times(load.tc, 1, 1),
                            times(tx + load.tc, 1, depth), times(t_read + tx, 1, pinned)}));
            }
          }
        }
      }
    }
  }
}

}  // namespace several_devices_exact_test
}  // namespace leat::feeder
