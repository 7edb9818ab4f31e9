// How a prefetcher ends: by an error, by its destruction, by the end of its consumer or of the run;
// in every place that it may run in.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/sources/function.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/plain_threads.h"

namespace leat::feeder {
namespace prefetcher_ends_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersView;
using support::on_plain_threads;
using support::Place;
using support::place_title;

class PrefetcherEnds : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, PrefetcherEnds, testing::ValuesIn(kPlaces), place_title);

// stop(): who waits for a batch is told, though the read that he waits for goes on.
TEST(PrefetcherEndsBy, AStopFromAnotherThread) {
  std::promise<void> go_on;
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  std::promise<void> reading;
  std::atomic_flag told;
  const FunctionDataset data(
      "slow", {{"number", DType::kInt64, {}}}, 16,
      [&](std::uint64_t index, Sample& out) {
        out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index);
        if (index < 4) return;
        if (!told.test_and_set()) reading.set_value();
        may_go_on.wait();
      },
      Blocking::kOften);
  Prefetcher feed(data, gpu::open("host"), {.batch_size = 4, .order = Order::kSequential});
  auto consumer = std::async(std::launch::async, [&] {
    std::string told_of;
    std::size_t batches = 0;
    try {
      for (Lease& batch : feed.epoch(0)) batches += batch.size() / 4;
    } catch (const Error& e) {
      told_of = e.what();
    }
    return std::pair(batches, told_of);
  });
  reading.get_future().wait();
  feed.stop();
  const auto [batches, told_of] = consumer.get();  // before the read goes on
  EXPECT_LE(batches, 1U);
  EXPECT_NE(told_of.find("was stopped"), std::string::npos) << told_of;
  EXPECT_THROW(static_cast<void>(feed.next()), Error);
  EXPECT_EQ(State::parse(feed.state()).epochs.at(0).batches.count(), batches);
  go_on.set_value();
}

// Errors.

struct Failure {
  std::uint64_t sample;
  std::uint64_t visit;  // from which the sample fails: 0 in the first epoch
};

TEST_P(PrefetcherEnds, AFailedSampleComesAfterTheBatchesBeforeItAndOnce) {
  in_place([] {
    constexpr std::uint64_t kSamples = 22;
    for (const std::size_t workers : {1U, 3U}) {
      for (const Failure fails : {Failure{0, 0}, Failure{3, 0}, Failure{13, 0}, Failure{21, 0},
                                  Failure{0, 1}, Failure{9, 1}}) {
        SCOPED_TRACE(testing::Message() << "sample " << fails.sample << " in epoch " << fails.visit
                                        << ", " << workers << " workers");
        std::atomic<std::uint64_t> visits{0};
        const Numbers data({.size = kSamples, .on_read = [&](std::uint64_t sample) {
                              uneven_reads()(sample);
                              if (sample == fails.sample && visits++ == fails.visit) {
                                throw std::range_error("the disk is on fire");
                              }
                            }});
        const PrefetcherOptions options = {
            .batch_size = 4, .workers = workers, .order = Order::kSequential};
        Prefetcher feed(data, gpu::open("host"), options);
        const std::uint64_t batch = fails.sample / 4;
        for (std::uint64_t epoch = 0; epoch < fails.visit; ++epoch) {
          EXPECT_EQ(rest_of(feed), expected_epoch(data, options, epoch));
        }
        for (std::uint64_t i = 0; i < batch; ++i) {
          std::optional<Lease> lease = feed.next();
          ASSERT_TRUE(lease.has_value());
          EXPECT_EQ(NumbersView(*lease).samples(), expected_samples(data, options, fails.visit, i));
        }
        try {
          static_cast<void>(feed.next());
          ADD_FAILURE() << "no error";
        } catch (const Error& e) {
          expect_contains(e.what(), {("sample " + std::to_string(fails.sample)).c_str(),
                                     ("epoch " + std::to_string(fails.visit)).c_str(),
                                     ("batch " + std::to_string(batch)).c_str(), "\"numbers\"",
                                     "the disk is on fire"});
          EXPECT_THROW(std::rethrow_if_nested(e), std::range_error);
        }
        for (int attempt = 0; attempt < 2; ++attempt) {
          try {
            static_cast<void>(feed.next());
            ADD_FAILURE() << "a batch after the error";
          } catch (const Error& e) {
            expect_contains(e.what(), {"stopped", "the disk is on fire"});
          }
          EXPECT_THROW(epoch_of(feed, 7), Error);
        }
      }
    }
  });
}

TEST_P(PrefetcherEnds, AnExceptionThatIsNoStdExceptionIsAnErrorToo) {
  in_place([] {
    const Numbers data({.size = 8, .on_read = [](std::uint64_t sample) {
                          if (sample == 6) throw 6;
                        }});
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 4, .order = Order::kSequential});
    EXPECT_TRUE(feed.next().has_value());
    try {
      static_cast<void>(feed.next());
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      expect_contains(e.what(), {"sample 6", "unknown exception"});
      EXPECT_THROW(std::rethrow_if_nested(e), int);
    }
  });
}

TEST_P(PrefetcherEnds, AFailedKernelEndsTheLoopWithTheDevicesError) {
  in_place([] {
    const Numbers data({.size = 64});
    const gpu::Device device = gpu::open("host");
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, {.batch_size = 4});
    const auto train = [&] {
      for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) {
        for (const Lease& batch : feed.epoch(epoch, stream)) {
          const bool fails = batch.epoch() == 0 && batch.index() == 3;
          stream.launch_host([fails] {
            if (fails) throw std::runtime_error("kernel 3 is broken");
          });
        }
      }
    };
    try {
      train();
      ADD_FAILURE() << "no error";
    } catch (const gpu::GpuError& e) {
      expect_contains(e.what(), {"kernel 3 is broken"});
    }
    // Batches that were staged before may still come, but not for ever, and no new ones.
    EXPECT_THROW(for (;;) rest_of(feed), Error);
    EXPECT_THROW(static_cast<void>(feed.next()), Error);
  });
}

TEST_P(PrefetcherEnds, TooLittleDeviceMemoryIsToldWhenItIsMadeAndLeavesTheDeviceUsable) {
  in_place([] {
    const Numbers data({.size = 64, .pattern_bytes = 1016});  // 1 KiB a sample
    const gpu::Device device = gpu::open_host({.memory_bytes = 96 << 10});
    const PrefetcherOptions fits = {.batch_size = 16, .prefetch_depth = 4};
    for (int attempt = 0; attempt < 3; ++attempt) {
      EXPECT_THROW(Prefetcher(data, device, {.batch_size = 16, .prefetch_depth = 8}),
                   gpu::GpuError);
      Prefetcher feed(data, device, fits);
      EXPECT_EQ(epoch_of(feed, 0), expected_epoch(data, fits, 0));
    }
  });
}

// Ends.

TEST_P(PrefetcherEnds, MayBeDestroyedBeforeItIsUsed) {
  in_place([] {
    const Numbers data({.size = 8});
    const gpu::Device device = gpu::open("host");
    for (int i = 0; i < 20; ++i) Prefetcher(data, device, {.batch_size = 4, .workers = 3});
  });
}

TEST_P(PrefetcherEnds, DestructionEndsReadsThatWait) {
  in_place([] {
    const Channel<std::uint64_t> began(16, "began");
    const Channel<int> never(0, "never");
    const Numbers data({.size = 64, .on_read = [&](std::uint64_t sample) {
                          if (sample < 8) return;
                          began.send(sample);
                          static_cast<void>(never.recv());
                        }});
    std::optional<Prefetcher> feed;
    feed.emplace(data, gpu::open("host"),
                 PrefetcherOptions{.batch_size = 4, .workers = 3, .order = Order::kSequential});
    const Lease first = *feed->next();
    for (int reader = 0; reader < 3; ++reader) began.recv();  // all are within read()
    feed.reset();
    EXPECT_EQ(first.index(), 0U);
  });
}

TEST_P(PrefetcherEnds, MayBeDestroyedByAPlainThread) {
  in_place([] {
    for (int i = 0; i < 20; ++i) {
      const Numbers data({.size = 64, .on_read = uneven_reads()});
      const gpu::Device device = gpu::open("host");
      auto feed = std::make_unique<Prefetcher>(data, device,
                                               PrefetcherOptions{.batch_size = 4, .workers = 2});
      std::optional<Lease> batch = feed->next();
      if (i % 2 == 0) batch.reset();
      on_plain_threads(1, [&](int) { feed.reset(); });
      if (batch.has_value()) {
        EXPECT_EQ(NumbersView(*batch).samples(), expected_samples(data, {.batch_size = 4}, *batch));
      }
    }
  });
}

TEST_P(PrefetcherEnds, ALeaseOutlivesThePrefetcherAndTheDevicesHandle) {
  in_place([] {
    for (const bool keeps_stream : {false, true}) {
      const PrefetcherOptions options = {.batch_size = 4, .max_leases = 2};
      const Numbers data({.size = 64});
      std::optional<gpu::Stream> stream;  // outlives the leases that it is bound to
      std::vector<Lease> leases;
      {
        const gpu::Device device = gpu::open("host");
        if (keeps_stream) stream.emplace(device);
        Prefetcher feed(data, device, options);
        leases.push_back(*feed.next());
        leases.push_back(*feed.next());
      }
      for (Lease& lease : leases) {
        const auto want = expected_samples(data, options, lease);
        if (keeps_stream) launch_check(*stream, lease, want);
        if (keeps_stream) stream->sync();
        EXPECT_EQ(NumbersView(lease).samples(), want);
      }
      leases.front().release();
      EXPECT_EQ(NumbersView(leases.back()).samples(), expected_samples(data, options, 0, 1));
    }
  });
}

// Work that was enqueued goes on reading after the lease, the prefetcher and its slots have gone.
TEST_P(PrefetcherEnds, EnqueuedWorkOutlivesThePrefetcherAndItsLeases) {
  in_place([] {
    const Numbers data({.size = 64});
    const PrefetcherOptions options = {.batch_size = 4};
    const gpu::Device device = gpu::open("host");
    const gpu::Stream stream(device);
    const Channel<int> opened(0, "opened");
    {
      Prefetcher feed(data, device, options);
      Lease batch = *feed.next();
      stream.launch_host([opened] { static_cast<void>(opened.recv()); });
      launch_check(stream, batch, expected_samples(data, options, batch));
    }
    opened.close();
    stream.sync();
  });
}

TEST(PrefetcherEndsAnyMoment, DestructionTakesNoTimeAtAnyMoment) {
  for (const int workers : {1, 2}) {
    for (int moment = 0; moment < 120; ++moment) {
      VirtualClock clock;
      const auto body = [&] {
        const Numbers data({.size = 64, .read_time = 10us});
        const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e7});  // Tx 12.8 us
        const gpu::Stream stream(device);
        std::optional<Prefetcher> feed;
        feed.emplace(data, device, PrefetcherOptions{.batch_size = 4, .workers = 2});
        Lease first = *feed->next();
        launch_check(stream, first, expected_samples(data, {.batch_size = 4}, first));
        first.release();
        sleep_for(moment * 1us);
        const TimePoint before = now();
        feed.reset();
        EXPECT_EQ(now(), before);
        const std::uint64_t reads = data.reads();
        sleep_for(1h);
        EXPECT_EQ(data.reads(), reads) << "somebody reads on";
      };
      run(body, {.workers = workers, .clock = &clock});
    }
  }
}

// One consumer's life, different for each seed, until it is cancelled.
void consume(const Numbers& data, std::uint64_t seed, std::vector<Lease>& kept) {
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
  for (;;) {
    const std::uint64_t epoch = random() % 3;
    for (Lease& batch : feed.epoch(epoch)) {
      const auto want = expected_samples(data, options, batch);
      if (kept.empty() && random() % 20 == 0) {
        kept.push_back(std::move(batch));
        continue;
      }
      switch (random() % 4) {
        case 0: EXPECT_EQ(NumbersView(batch).samples(), want); break;
        case 1: sleep_for(Duration(random() % 3'000)); break;
        default: launch_check(stream, batch, want, Duration(random() % 2'000)); break;
      }
      if (random() % 20 == 0) break;
    }
  }
}

TEST(PrefetcherEndsAnyMoment, TheConsumerMayBeCancelledAtAnyMoment) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    VirtualClock clock;
    const Duration cancelled_at = Duration(std::mt19937_64(~seed)() % 60'000);
    const auto body = [&] {
      const Numbers data({.size = 37, .read_time = 300ns});
      std::vector<Lease> kept;
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

// The exception is the consumer's own; a second stream, which nobody waits for, has work enqueued
// that uses the batches.
TEST(PrefetcherEndsAnyMoment, TheLoopMayThrowWithWorkPendingOnTwoStreams) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const std::uint64_t last = random() % 10;
    VirtualClock clock;
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
    EXPECT_THROW(run(body, {.workers = seed % 10 == 0 ? 2 : 1, .clock = &clock, .seed = seed}),
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
      go([&] { consume(data, seed, kept); });
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

// A dataset that never waits is told by nothing but the reader that it may stop: a batch of these
// would take some ten seconds.
TEST(PrefetcherEndsElsewhere, ABatchThatIsBeingReadIsNotReadToItsEnd) {
  constexpr std::uint64_t kSamples = std::uint64_t{1} << 20;
  std::atomic<std::uint64_t> reads = 0;
  const FunctionDataset data("slow", {{"nothing", DType::kUint8, {}}}, kSamples,
                             [&](std::uint64_t, Sample& out) {
                               const auto end = SteadyClock::instance().now() + 10us;
                               while (SteadyClock::instance().now() < end) {
                               }
                               out.as<std::uint8_t>(0)[0] = 0;
                               reads.fetch_add(1);
                             });
  for (const bool on_a_thread : {false, true}) {
    const FunctionDataset blocking(
        "slow", {{"nothing", DType::kUint8, {}}}, kSamples,
        [&](std::uint64_t index, Sample& out) { data.read(index, out); },
        on_a_thread ? Blocking::kOften : Blocking::kNever);
    reads = 0;
    {
      Prefetcher feed(blocking, gpu::open("host"), {.batch_size = kSamples, .workers = 1});
      const Receiver<Lease> batches = feed.receiver(0);  // begins the epoch
      while (reads < 100) std::this_thread::yield();
    }
    EXPECT_LT(reads, kSamples);
  }
}

}  // namespace prefetcher_ends_test
}  // namespace leat::feeder
