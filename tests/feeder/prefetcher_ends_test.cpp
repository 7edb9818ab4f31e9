// How a prefetcher ends: by an error, by stop(), by its destruction; in every place that it may run
// in. That it may end at any moment has its own file.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/sources/function.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/child.h"
#include "tests/support/plain_threads.h"
#include "tests/support/thread_limit.h"

namespace leat::feeder {
namespace prefetcher_ends_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersView;
using support::on_plain_threads;
using support::place_title;

class PrefetcherEnds : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, PrefetcherEnds, testing::ValuesIn(kPlaces), place_title);

// In the child, the fiber that sends to an open receiver never ends: to wait for it would hang.
TEST(PrefetcherEndsBy, AForkIsToldInTheChild) {
  for (const bool receives : {false, true}) {
    const Numbers data({.size = 40});
    auto feed =
        std::make_unique<Prefetcher>(data, gpu::open("host"), PrefetcherOptions{.batch_size = 4});
    std::optional<Receiver<Lease>> batches;
    if (receives) batches = feed->receiver(0);
    const auto next = [&] { return receives ? batches->recv() : feed->next(); };
    EXPECT_TRUE(next().has_value());
    EXPECT_EQ(support::in_child([&]() -> std::string {
                const std::string epoch = support::text_thrown_by<std::logic_error>([&] {
                  for (Lease& batch : feed->epoch(1)) static_cast<void>(batch);
                });
                const std::string receiver = support::text_thrown_by<std::logic_error>(
                    [&] { static_cast<void>(feed->receiver(1)); });
                const std::string told = support::text_thrown_by<std::logic_error>(
                    [&] { static_cast<void>(feed->next()); });
                feed->stop();
                feed.reset();
                // While a receiver is open, it is that which next() tells.
                for (const std::string& text : {epoch, receiver, receives ? epoch : told}) {
                  if (text.find("a Prefetcher of process ") == std::string::npos) return text;
                }
                return "";
              }),
              "");
    EXPECT_TRUE(next().has_value());
  }
}

// Its batches keep the memory of their slots, and none of the devices' threads.
TEST(PrefetcherEndsBy, ItsDestructionWhileLeasesLive) {
  for (const CheckSlots checks : {CheckSlots::kNo, CheckSlots::kYes}) {
    const std::size_t before = support::threads();
    const Numbers data({.size = 40});
    const PrefetcherOptions options{.batch_size = 4, .world_size = 2, .check_slots = checks};
    std::vector<Lease> leases;
    {
      const std::vector<gpu::Device> devices = {gpu::open("host:0"), gpu::open("host:1")};
      Prefetcher feed(data, devices, options);
      for (std::size_t i = 0; i < devices.size(); ++i) leases.push_back(*feed.rank(i).next());
    }
    EXPECT_TRUE(support::threads_become(before));
    for (Lease& lease : leases) {
      EXPECT_EQ(NumbersView(lease).samples().size(), lease.size());
      EXPECT_THROW(gpu::Stream(lease.device()), gpu::GpuError);
    }
    std::thread([&] { leases.clear(); }).join();
  }
}

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
    for (const std::size_t workers : {1U, 3U}) {
      for (const Failure fails : {Failure{0, 0}, Failure{3, 0}, Failure{13, 0}, Failure{21, 0},
                                  Failure{0, 1}, Failure{9, 1}}) {
        SCOPED_TRACE(testing::Message() << "sample " << fails.sample << " in epoch " << fails.visit
                                        << ", " << workers << " workers");
        std::atomic<std::uint64_t> visits{0};
        const auto on_read = [&](std::uint64_t sample) {
          uneven_reads()(sample);
          if (sample == fails.sample && visits++ == fails.visit) {
            throw std::range_error("the disk is on fire");
          }
        };
        NumbersFeed feed({.size = 22, .on_read = on_read},
                         {.batch_size = 4, .workers = workers, .order = Order::kSequential});
        const std::uint64_t batch = fails.sample / 4;
        for (std::uint64_t epoch = 0; epoch < fails.visit; ++epoch) {
          EXPECT_EQ(rest_of(feed), feed.want_epoch(epoch));
        }
        for (std::uint64_t i = 0; i < batch; ++i) {
          std::optional<Lease> lease = feed.next();
          ASSERT_TRUE(lease.has_value());
          EXPECT_EQ(NumbersView(*lease).samples(), feed.want(fails.visit, i));
        }
        try {
          static_cast<void>(feed.next());
          ADD_FAILURE() << "no error";
        } catch (const Error& e) {
          expect_contains(
              e.what(),
              {"sample " + std::to_string(fails.sample), "epoch " + std::to_string(fails.visit),
               "batch " + std::to_string(batch), "\"numbers\"", "the disk is on fire"});
          EXPECT_THROW(std::rethrow_if_nested(e), std::range_error);
        }
        for (int attempt = 0; attempt < 2; ++attempt) {
          expect_throws<Error>([&] { static_cast<void>(feed.next()); },
                               {"stopped", "the disk is on fire"});
          EXPECT_THROW(epoch_of(feed, 7), Error);
        }
      }
    }
  });
}

TEST_P(PrefetcherEnds, AFailedKernelEndsTheLoopWithTheDevicesError) {
  in_place([] {
    NumbersFeed feed({.size = 64});
    const auto train = [&] {
      for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) {
        for (const Lease& batch : feed.epoch(epoch, feed.stream)) {
          const bool fails = batch.epoch() == 0 && batch.index() == 3;
          feed.stream.launch_host([fails] {
            if (fails) throw std::runtime_error("kernel 3 is broken");
          });
        }
      }
    };
    expect_throws<gpu::GpuError>(train, {"kernel 3 is broken"});
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
      EXPECT_THROW(Prefetcher(data, device, {.batch_size = 16, .prefetch_depth = 8}), OutOfMemory);
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
