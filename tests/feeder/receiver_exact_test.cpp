// A loop over a receiver beside one over epoch(), in virtual time: the same instants, the same
// measurements.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/stats.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace receiver_exact_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::in_virtual_time;
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
  int cell = 0;
  for (const Duration sample_read : {0ns, 75ns, 300ns}) {
    for (const Duration tc : {0ns, 100ns, 400ns, 1000ns}) {
      for (const Duration rest : {0ns, 2000ns}) {
        for (const std::size_t depth : {1U, 2U, 3U}) {
          for (const std::size_t max_leases : {1U, 2U}) {
            for (const bool on_stream : {true, false}) {
              for (const bool holds : {false, true}) {
                if ((holds && max_leases == 1) || support::is_left_out(cell++)) continue;
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
                // A receiver does not see when it is asked for a batch. While a batch is held, the
                // wait for the next one is not told from the work on it.
                if (holds && epoch.stats.consumer.starved > 0) {
                  EXPECT_GE(receiver.stats.t_c, epoch.stats.t_c - 1e-15);
                  EXPECT_LE(receiver.stats.t_c, receiver.stats.t_step + 1e-15);
                  continue;
                }
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

TEST(FeedReceiverExact, ItsStreamIsForgottenWithALeaseThatWasNotUsed) {
  in_virtual_time([] {
    NumbersFeed feed({.size = 64});
    for (Lease& batch : feed.receiver(0, feed.stream)) batch.release();
    feed.stream.launch_host([] {}, 1h);
    const TimePoint before = now();
    EXPECT_EQ(epoch_of(feed, 1), feed.want_epoch(1));
    EXPECT_EQ(now(), before);
  });
}

TEST(FeedReceiverExact, WhatWaitsForABatchIsEndedAtOnce) {
  in_virtual_time([] {
    NumbersFeed feed({.size = 64, .read_time = 1h});
    const Receiver<Lease> first = feed.receiver(0);
    sleep_for(1s);
    const TimePoint before = now();
    const Receiver<Lease> second = feed.receiver(1);
    EXPECT_EQ(now(), before);
    EXPECT_THROW(static_cast<void>(first.recv()), Error);
    EXPECT_EQ(second.recv()->epoch(), 1U);
  });
}

}  // namespace receiver_exact_test
}  // namespace leat::feeder
