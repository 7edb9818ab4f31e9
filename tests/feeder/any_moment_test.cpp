// What ends a prefetcher may come at any moment: its destruction, its consumer's end by a request
// or an exception, the end of the run. Of a loop over epoch(), and of a receiver.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace any_moment_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::in_virtual_time;
using support::launch_check;
using support::Numbers;
using support::NumbersView;

// begin(feed, stream, moment) takes a batch, and returns what is done once the prefetcher is gone.
template <class Begin>
void destroy_at_any_moment(const Begin& begin) {
  for (const int workers : {1, 2}) {
    for (int moment = 0; moment < 120; ++moment) {
      in_virtual_time({.workers = workers}, [&] {
        const Numbers data({.size = 64, .read_time = 10us});
        const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e7});  // Tx 12.8 us
        const gpu::Stream stream(device);
        std::optional<Prefetcher> feed;
        feed.emplace(data, device, PrefetcherOptions{.batch_size = 4, .workers = 2});
        const auto after = begin(*feed, stream, moment);
        sleep_for(moment * 1us);
        const TimePoint before = now();
        feed.reset();
        EXPECT_EQ(now(), before);
        after();
        expect_nobody_reads(data, 1h);
      });
    }
  }
}

TEST(PrefetcherEndsAnyMoment, DestructionTakesNoTimeAtAnyMoment) {
  destroy_at_any_moment([](Prefetcher& feed, const gpu::Stream& stream, int) {
    Lease first = *feed.next();
    launch_check(stream, first, expected_samples(Numbers({.size = 64}), {.batch_size = 4}, first));
    return [] {};
  });
}

TEST(FeedReceiverExact, DestructionTakesNoTimeAtAnyMoment) {
  destroy_at_any_moment([](Prefetcher& feed, const gpu::Stream&, int moment) {
    const Receiver<Lease> batches = feed.receiver(0);
    std::optional<Lease> first = batches.recv();
    if (moment % 2 == 0) first.reset();  // or else there is no credit
    return [batches, held = std::move(first)] {
      EXPECT_THROW(static_cast<void>(batches.recv()), Error);
    };
  });
}

// One consumer's life, different for each seed, until it is cancelled. May leave a lease in `kept`.
class Consumer {
 public:
  Consumer(const Numbers& data, std::uint64_t seed, std::vector<Lease>& kept)
      : data_(data),
        kept_(kept),
        random_(seed),
        options_({.batch_size = 1 + random_() % 5,
                  .prefetch_depth = 1 + random_() % 3,
                  .max_leases = 2 + random_() % 2,
                  .workers = 1 + random_() % 3,
                  .seed = seed,
                  .read_across_epochs = random_() % 2 == 0,
                  .sample_every = random_() % 4}),
        feed_(data, device_, options_) {}

  void loop_for_ever() {
    for (;;) loop();
  }
  void loop_and_receive_for_ever() {
    for (;;) random_() % 4 == 0 ? loop() : receive();
  }

 private:
  void loop() {
    for (Lease& batch : feed_.epoch(random_() % 3)) {
      use(batch, [&](const auto& want) { EXPECT_EQ(NumbersView(batch).samples(), want); });
      if (random_() % 20 == 0) break;
    }
  }

  void receive() {
    const std::uint64_t epoch = random_() % 3;
    const Receiver<Lease> batches =
        random_() % 2 == 0 ? feed_.receiver(epoch, stream_) : feed_.receiver(epoch);
    for (bool more = true; more && random_() % 20 != 0;) {
      select(on_recv(batches,
                     [&](std::optional<Lease> batch) {
                       more = batch.has_value();
                       if (more) use(*batch, [&](const auto&) { batch->await(); });
                     }),
             on_timeout(Duration(random_() % 2'000)));
    }
  }

  template <class Look>
  void use(Lease& batch, const Look& look) {
    const auto want = expected_samples(data_, options_, batch);
    if (kept_.empty() && random_() % 20 == 0) {
      kept_.push_back(std::move(batch));
      return;
    }
    switch (random_() % 4) {
      case 0: look(want); break;
      case 1: sleep_for(Duration(random_() % 3'000)); break;
      default: launch_check(stream_, batch, want, Duration(random_() % 2'000)); break;
    }
  }

  const Numbers& data_;
  std::vector<Lease>& kept_;
  std::mt19937_64 random_;
  const PrefetcherOptions options_;
  const gpu::Device device_ = gpu::open_host({.h2d_bandwidth = 1e8, .copy_latency = 100ns});
  const gpu::Stream stream_{device_};
  Prefetcher feed_;
};

void cancel_at_any_moment(void (Consumer::*live)()) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Duration cancelled_at = Duration(std::mt19937_64(~seed)() % 60'000);
    const Duration time = in_virtual_time({.workers = seed % 20 == 0 ? 2 : 1, .seed = seed}, [&] {
      const Numbers data({.size = 37, .read_time = 300ns});
      std::vector<Lease> kept;
      TaskGroup group;
      group.go([&] { (Consumer(data, seed, kept).*live)(); });
      sleep_for(cancelled_at);
      group.stop();
      group.wait();
      expect_nobody_reads(data, 1ms);
    });
    // The device's work that is enqueued takes its time: less than 10 us for the batches ahead.
    EXPECT_LE(time, cancelled_at + 20us + 1ms);
  }
}

TEST(PrefetcherEndsAnyMoment, TheConsumerMayBeCancelledAtAnyMoment) {
  cancel_at_any_moment(&Consumer::loop_for_ever);
}
TEST(FeedReceiverExact, TheConsumerMayBeCancelledAtAnyMoment) {
  cancel_at_any_moment(&Consumer::loop_and_receive_for_ever);
}

// The exception is the consumer's own; a second stream, which nobody waits for, has work enqueued
// that uses the batches.
TEST(PrefetcherEndsAnyMoment, TheLoopMayThrowWithWorkPendingOnTwoStreams) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const std::uint64_t last = random() % 10;
    const auto body = [&] {
      const Numbers data({.size = 40, .read_time = 50ns});
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      const gpu::Stream stream(device);
      const gpu::Stream second(device);
      const PrefetcherOptions options = {.batch_size = 4,
                                         .prefetch_depth = 1 + random() % 2,
                                         .max_leases = 2,
                                         .workers = 1 + random() % 2};
      std::vector<gpu::Event> staged;
      std::optional<Lease> kept;
      Prefetcher feed(data, device, options);
      for (Lease& batch : feed.epoch(0, stream)) {
        const auto want = expected_samples(data, options, batch);
        launch_check(stream, batch, want, Duration(random() % 500));
        launch_check(second, batch, want, Duration(random() % 50'000));
        staged.emplace_back(device, gpu::Timing::kOn).record(second);
        if (batch.index() < last) continue;
        if (random() % 2 == 0) kept = std::move(batch);
        throw std::domain_error("loss is not a number");
      }
      ADD_FAILURE() << "the loop came to its end";
    };
    EXPECT_THROW(in_virtual_time({.workers = seed % 10 == 0 ? 2 : 1, .seed = seed}, body),
                 std::domain_error);
  }
}

TEST(PrefetcherEndsAnyMoment, ARunMayEndAtAnyMoment) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    VirtualClock clock;
    const Duration ends_at = Duration(std::mt19937_64(~seed)() % 60'000);
    const Numbers data({.size = 37, .read_time = 300ns});
    std::vector<Lease> kept;
    const auto body = [&] {
      go([&] { Consumer(data, seed, kept).loop_for_ever(); });
      sleep_for(ends_at);
    };
    const int workers = seed % 20 == 0 ? 2 : 1;
    try {
      run(body, {.workers = workers, .clock = &clock, .seed = seed});
    } catch (const Error& e) {
      // On several workers the consumer may hear of the device's end before it hears of its own.
      EXPECT_EQ(workers, 2) << e.what();
    }
    EXPECT_EQ(clock.elapsed(), ends_at);
  }
}

}  // namespace any_moment_test
}  // namespace leat::feeder
