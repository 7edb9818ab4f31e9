// A loop over a receiver beside one over epoch(), in virtual time: the same instants, the same
// measurements; and a receiver's end at any moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/stats.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"

namespace leat::feeder {
namespace receiver_exact_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::launch_check;
using support::Numbers;
using support::NumbersView;

constexpr std::size_t kBatchSize = 4;
constexpr std::size_t kBatches = 60;

// A batch is copied in 400 ns.
struct Loop {
  Duration sample_read = 0ns;
  Duration tc = 0ns;
  Duration rest = 0ns;  // of the loop, after the batch was released
  std::size_t depth = 2;
  std::size_t max_leases = 1;
  bool on_stream = true;  // or on the CPU
  bool holds = false;     // the batch before, too
};

struct Measured {
  std::vector<Duration> done;  // each batch's last use
  Stats stats;
};

// `receives`: from a receiver, or from epoch().
Measured measure(const Loop& loop, bool receives) {
  Measured measured;
  VirtualClock clock;
  const PrefetcherOptions options = {.batch_size = kBatchSize,
                                     .prefetch_depth = loop.depth,
                                     .max_leases = loop.max_leases,
                                     .sample_every = 2};
  const auto body = [&] {
    const Numbers data(
        {.size = kBatchSize * kBatches, .pattern_bytes = 92, .read_time = loop.sample_read});
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    const gpu::Stream other(device);
    measured.done.resize(kBatches);
    Prefetcher feed(data, device, options);
    std::optional<Lease> held;
    const auto step = [&](Lease& batch) {
      Duration& done = measured.done[batch.index()];
      if (loop.on_stream) {
        if (loop.max_leases > 1) batch.on(other);  // which is not the one that is measured
        // On the stream that the feed was given, which nobody binds here.
        stream.launch_host(
            [view = NumbersView(batch), want = expected_samples(data, options, batch)] {
              EXPECT_EQ(view.samples(), want);
            });
        stream.launch_host([] {}, loop.tc);
        stream.launch_host([&done] { done = now().time_since_epoch(); });
      } else {
        EXPECT_EQ(NumbersView(batch).samples(), expected_samples(data, options, batch));
        sleep_for(loop.tc);
        done = now().time_since_epoch();
      }
      if (loop.holds) held = std::move(batch);
      batch.release();
      sleep_for(loop.rest);
    };
    if (receives) {
      for (Lease& batch : loop.on_stream ? feed.receiver(0, stream) : feed.receiver(0)) step(batch);
    } else {
      for (Lease& batch : loop.on_stream ? feed.epoch(0, stream) : feed.epoch(0)) step(batch);
    }
    held.reset();
    stream.sync();
    measured.stats = feed.stats();
  };
  run(body, {.workers = 1, .clock = &clock});
  return measured;
}

void expect_same(const StageShares& a, const StageShares& b) {
  EXPECT_NEAR(a.busy, b.busy, 1e-9);
  EXPECT_NEAR(a.starved, b.starved, 1e-9);
  EXPECT_NEAR(a.blocked, b.blocked, 1e-9);
}

TEST(FeedReceiverExact, TheLoopTakesTheSameTimeAndMeasuresTheSame) {
  for (const Duration sample_read : {0ns, 75ns, 300ns}) {
    for (const Duration tc : {0ns, 100ns, 400ns, 1000ns}) {
      for (const Duration rest : {0ns, 2000ns}) {
        for (const std::size_t depth : {1U, 2U, 3U}) {
          for (const std::size_t max_leases : {1U, 2U}) {
            for (const bool on_stream : {true, false}) {
              for (const bool holds : {false, true}) {
                if (holds && max_leases == 1) continue;
                const Loop loop = {.sample_read = sample_read,
                                   .tc = tc,
                                   .rest = rest,
                                   .depth = depth,
                                   .max_leases = max_leases,
                                   .on_stream = on_stream,
                                   .holds = holds};
                SCOPED_TRACE(testing::Message()
                             << "sample_read " << sample_read.count() << ", tc " << tc.count()
                             << ", rest " << rest.count() << ", depth " << depth << ", max_leases "
                             << max_leases << (on_stream ? ", on a stream" : ", on the CPU")
                             << (holds ? ", holds" : ""));
                const Measured epoch = measure(loop, false);
                const Measured receiver = measure(loop, true);
                ASSERT_EQ(receiver.done, epoch.done);
                EXPECT_EQ(receiver.stats.batches, kBatches);
                EXPECT_NEAR(receiver.stats.t_c, epoch.stats.t_c, 1e-15);
                EXPECT_NEAR(receiver.stats.t_step, epoch.stats.t_step, 1e-15);
                expect_same(receiver.stats.copier, epoch.stats.copier);
                expect_same(receiver.stats.consumer, epoch.stats.consumer);
              }
            }
          }
        }
      }
    }
  }
}

// One consumer's life, different for each seed, until it is cancelled.
void consume(const Numbers& data, std::uint64_t seed, std::optional<Lease>& kept) {
  std::mt19937_64 random(seed);
  const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e8, .copy_latency = 100ns});
  const gpu::Stream stream(device);
  const PrefetcherOptions options = {.batch_size = 1 + random() % 5,
                                     .prefetch_depth = 1 + random() % 3,
                                     .max_leases = 2 + random() % 2,
                                     .workers = 1 + random() % 3,
                                     .seed = seed,
                                     .sample_every = random() % 4};
  Prefetcher feed(data, device, options);
  const auto use = [&](Lease& batch) {
    const auto want = expected_samples(data, options, batch);
    if (!kept.has_value() && random() % 20 == 0) {
      kept = std::move(batch);
      return;
    }
    switch (random() % 4) {
      case 0: sleep_for(Duration(random() % 3'000)); break;
      case 1: batch.await(); break;
      default: launch_check(stream, batch, want, Duration(random() % 2'000)); break;
    }
  };
  for (;;) {
    const std::uint64_t epoch = random() % 3;
    if (random() % 4 == 0) {
      for (Lease& batch : feed.epoch(epoch)) {
        use(batch);
        if (random() % 20 == 0) break;
      }
      continue;
    }
    const Receiver<Lease> batches =
        random() % 2 == 0 ? feed.receiver(epoch, stream) : feed.receiver(epoch);
    for (bool more = true; more && random() % 20 != 0;) {
      select(on_recv(batches,
                     [&](std::optional<Lease> batch) {
                       more = batch.has_value();
                       if (more) use(*batch);
                     }),
             on_timeout(Duration(random() % 2'000)));
    }
  }
}

TEST(FeedReceiverExact, TheConsumerMayBeCancelledAtAnyMoment) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    VirtualClock clock;
    const Duration cancelled_at = Duration(std::mt19937_64(~seed)() % 60'000);
    const auto body = [&] {
      const Numbers data({.size = 37, .read_time = 300ns});
      std::optional<Lease> kept;
      TaskGroup group;
      group.go([&] { consume(data, seed, kept); });
      sleep_for(cancelled_at);
      group.stop();
      group.wait();
      const std::uint64_t reads = data.reads();
      sleep_for(1ms);
      EXPECT_EQ(data.reads(), reads) << "somebody reads on";
    };
    run(body, {.workers = seed % 20 == 0 ? 2 : 1, .clock = &clock, .seed = seed});
    // The device's work that is enqueued takes its time: less than 10 us for the batches ahead.
    EXPECT_LE(clock.elapsed(), cancelled_at + 20us + 1ms);
  }
}

TEST(FeedReceiverExact, DestructionTakesNoTimeAtAnyMoment) {
  for (const int workers : {1, 2}) {
    for (int moment = 0; moment < 120; ++moment) {
      VirtualClock clock;
      const auto body = [&] {
        const Numbers data({.size = 64, .read_time = 10us});
        const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e7});  // Tx 12.8 us
        std::optional<Prefetcher> feed;
        feed.emplace(data, device, PrefetcherOptions{.batch_size = 4, .workers = 2});
        const Receiver<Lease> batches = feed->receiver(0);
        std::optional<Lease> first = batches.recv();
        if (moment % 2 == 0) first.reset();  // or else there is no credit
        sleep_for(moment * 1us);
        const TimePoint before = now();
        feed.reset();
        EXPECT_EQ(now(), before);
        EXPECT_THROW(static_cast<void>(batches.recv()), Error);
        const std::uint64_t reads = data.reads();
        sleep_for(1h);
        EXPECT_EQ(data.reads(), reads) << "somebody reads on";
      };
      run(body, {.workers = workers, .clock = &clock});
    }
  }
}

}  // namespace receiver_exact_test
}  // namespace leat::feeder
