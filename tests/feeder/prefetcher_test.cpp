// What a prefetcher delivers, in every place that it may run in: which samples, in which order, and
// how it ends.
#include "leat/feeder/prefetcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/tests/support/numbers.h"
#include "leat/tests/support/places.h"
#include "leat/tests/support/plain_threads.h"

namespace leat::feeder {
namespace {

using namespace std::chrono_literals;
using support::expected_samples;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersOptions;
using support::NumbersView;
using support::on_plain_threads;
using support::Place;
using support::place_title;

using Batches = std::vector<std::vector<std::uint64_t>>;

// The batches that are left of an epoch, as the CPU reads them.
Batches rest_of(Prefetcher& feed) {
  Batches batches;
  while (std::optional<Lease> batch = feed.next()) batches.push_back(NumbersView(*batch).samples());
  return batches;
}

Batches epoch_of(Prefetcher& feed, std::uint64_t number) {
  Batches batches;
  for (Lease& batch : feed.epoch(number)) {
    EXPECT_EQ(batch.epoch(), number);
    EXPECT_EQ(batch.index(), batches.size());
    batches.push_back(NumbersView(batch).samples());
    EXPECT_EQ(batch.size(), batches.back().size());
  }
  return batches;
}

Batches expected_epoch(const Dataset& data, const PrefetcherOptions& options,
                       std::uint64_t number) {
  Batches batches;
  for (std::uint64_t first = 0; first < data.size(); first += options.batch_size) {
    if (options.last_batch == LastBatch::kDrop && first + options.batch_size > data.size()) break;
    batches.push_back(expected_samples(data, options, number, batches.size()));
  }
  return batches;
}

void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* const part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << '"' << text << "\" lacks \"" << part << '"';
  }
}

class PrefetcherTest : public support::PlaceTest {
 protected:
  // Readers finish in another order than they began: in virtual time each sample takes its own, on
  // real workers each lets others go first.
  static std::function<void(std::uint64_t)> uneven_reads() {
    if (GetParam() == Place::kPlainThread) {
      return [](std::uint64_t sample) {
        for (std::uint64_t i = 0; i < sample % 5; ++i) yield();
      };
    }
    return [](std::uint64_t sample) { sleep_for(Duration(sample * 7919 % 97)); };
  }
};
INSTANTIATE_TEST_SUITE_P(Places, PrefetcherTest, testing::ValuesIn(kPlaces), place_title);

// Options.

TEST_P(PrefetcherTest, RefusesOptionsThatAreZeroAndNamesThem) {
  in_place([] {
    const Numbers data({.size = 8});
    const gpu::Device device = gpu::open("host");
    const auto expect_refused = [&](const PrefetcherOptions& options, const char* name) {
      try {
        const Prefetcher feed(data, device, options);
        ADD_FAILURE() << name << " of 0 was accepted";
      } catch (const std::invalid_argument& e) {
        expect_contains(e.what(), {name});
      }
    };
    expect_refused({}, "batch_size");
    expect_refused({.batch_size = 1, .prefetch_depth = 0}, "prefetch_depth");
    expect_refused({.batch_size = 1, .max_leases = 0}, "max_leases");
    expect_refused({.batch_size = 1, .workers = 0}, "workers");
  });
}

TEST_P(PrefetcherTest, RefusesADatasetWithoutFields) {
  class NoFields final : public Dataset {
   public:
    std::string_view name() const noexcept override { return "nothing"; }
    std::span<const Field> fields() const noexcept override { return {}; }
    std::uint64_t size() const noexcept override { return 1; }
    void read(std::uint64_t, std::span<const std::span<std::byte>>) const override {}
  };
  in_place([] {
    const NoFields data;
    EXPECT_THROW(Prefetcher(data, gpu::open("host"), {.batch_size = 1}), std::invalid_argument);
  });
}

// Which samples.

TEST_P(PrefetcherTest, DeliversEverySampleOnceInTheSamplersOrder) {
  in_place([] {
    for (const Order order : {Order::kSequential, Order::kShuffled}) {
      const Numbers data({.size = 103});
      const PrefetcherOptions options = {.batch_size = 8, .order = order, .seed = 5};
      Prefetcher feed(data, gpu::open("host"), options);
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        const Batches batches = epoch_of(feed, epoch);
        EXPECT_EQ(batches, expected_epoch(data, options, epoch));
        std::vector<int> seen(data.size(), 0);
        for (const auto& batch : batches) {
          for (const std::uint64_t sample : batch) ++seen.at(sample);
        }
        EXPECT_EQ(seen, std::vector<int>(data.size(), 1));
      }
    }
  });
}

TEST_P(PrefetcherTest, TheBatchesAreTheSameForAnyWorkersSlotsAndDepth) {
  in_place([] {
    const Numbers data({.size = 41, .on_read = uneven_reads()});
    const gpu::Device device = gpu::open("host");
    for (const std::size_t workers : {1U, 2U, 5U}) {
      for (const std::size_t pinned_slots : {0U, 1U, 2U, 7U}) {
        for (const std::size_t depth : {1U, 2U, 4U}) {
          SCOPED_TRACE(testing::Message() << workers << " workers, " << pinned_slots
                                          << " pinned slots, depth " << depth);
          const PrefetcherOptions options = {.batch_size = 3,
                                             .prefetch_depth = depth,
                                             .workers = workers,
                                             .pinned_slots = pinned_slots,
                                             .seed = 11};
          Prefetcher feed(data, device, options);
          const gpu::Stream stream(device);
          ASSERT_EQ(epoch_of(feed, 0), expected_epoch(data, options, 0));
          std::uint64_t batches = 0;
          for (Lease& batch : feed.epoch(1, stream)) {
            ASSERT_EQ(batch.index(), batches++);
            launch_check(stream, batch, expected_samples(data, options, 1, batch.index()));
          }
          stream.sync();
          ASSERT_EQ(batches, feed.batches_per_epoch());
        }
      }
    }
  });
}

TEST_P(PrefetcherTest, TheLastBatchIsPartialOrDropped) {
  in_place([] {
    const gpu::Device device = gpu::open("host");
    for (const std::uint64_t size : {1U, 7U, 8U, 9U, 31U, 32U}) {
      for (const LastBatch last : {LastBatch::kPartial, LastBatch::kDrop}) {
        SCOPED_TRACE(testing::Message() << size << " samples");
        const Numbers data({.size = size});
        const PrefetcherOptions options = {.batch_size = 8, .last_batch = last};
        Prefetcher feed(data, device, options);
        const bool partial = last == LastBatch::kPartial;
        EXPECT_EQ(feed.batches_per_epoch(), partial ? (size + 7) / 8 : size / 8);
        for (const std::uint64_t epoch : {0U, 1U}) {
          const Batches batches = epoch_of(feed, epoch);
          EXPECT_EQ(batches.size(), feed.batches_per_epoch());
          EXPECT_EQ(batches, expected_epoch(data, options, epoch));
        }
      }
    }
  });
}

TEST_P(PrefetcherTest, AnEmptyDatasetHasEmptyEpochs) {
  in_place([] {
    const Numbers data({.size = 0});
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 8});
    EXPECT_EQ(feed.batches_per_epoch(), 0U);
    for (const std::uint64_t epoch : {0U, 1U, 2U, 9U, 9U, 0U}) {
      EXPECT_EQ(epoch_of(feed, epoch), Batches{});
    }
    for (int i = 0; i < 100; ++i) EXPECT_EQ(feed.next(), std::nullopt);
  });
}

// Epochs.

TEST_P(PrefetcherTest, EpochsComeInAnyOrderThatIsAskedFor) {
  in_place([] {
    const Numbers data({.size = 29, .on_read = uneven_reads()});
    const PrefetcherOptions options = {.batch_size = 4, .workers = 2};
    Prefetcher feed(data, gpu::open("host"), options);
    for (const std::uint64_t epoch : {3U, 4U, 0U, 0U, 17U, 18U, 19U, 1U, 0U}) {
      EXPECT_EQ(epoch_of(feed, epoch), expected_epoch(data, options, epoch)) << "epoch " << epoch;
    }
  });
}

TEST_P(PrefetcherTest, AfterALoopThatWasLeftAnyEpochIsWholeAgain) {
  in_place([] {
    const Numbers data({.size = 29, .on_read = uneven_reads()});
    const PrefetcherOptions options = {.batch_size = 4, .workers = 2};
    Prefetcher feed(data, gpu::open("host"), options);
    for (std::uint64_t taken = 1; taken <= feed.batches_per_epoch(); ++taken) {
      for (const std::uint64_t after : {5U, 6U, 2U}) {
        for (Lease& batch : feed.epoch(5)) {
          if (batch.index() + 1 == taken) break;
        }
        EXPECT_EQ(epoch_of(feed, after), expected_epoch(data, options, after))
            << "epoch " << after << " after " << taken << " batches of epoch 5";
      }
    }
  });
}

TEST_P(PrefetcherTest, AfterALoopThatThrewTheNextEpochIsWholeAgain) {
  in_place([] {
    const Numbers data({.size = 29});
    const PrefetcherOptions options = {.batch_size = 4};
    const gpu::Device device = gpu::open("host");
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, options);
    const auto train = [&] {
      for (Lease& batch : feed.epoch(0, stream)) {
        if (batch.index() == 3) throw std::domain_error("loss is not a number");
      }
    };
    EXPECT_THROW(train(), std::domain_error);
    EXPECT_EQ(epoch_of(feed, 0), expected_epoch(data, options, 0));
  });
}

TEST_P(PrefetcherTest, AnEpochThatIsNeverBegunReadsNothing) {
  in_place([] {
    const Numbers data({.size = 8});
    {
      Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
      static_cast<void>(feed.epoch(0));
    }
    EXPECT_EQ(data.reads(), 0U);
  });
}

TEST_P(PrefetcherTest, NextGivesBatchAfterBatchAndTheEndBetweenEpochs) {
  in_place([] {
    const Numbers data({.size = 10});
    const PrefetcherOptions options = {.batch_size = 4};
    Prefetcher feed(data, gpu::open("host"), options);
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      EXPECT_EQ(rest_of(feed), expected_epoch(data, options, epoch));
    }
    EXPECT_EQ(epoch_of(feed, 9), expected_epoch(data, options, 9));
    EXPECT_EQ(rest_of(feed), expected_epoch(data, options, 10));
  });
}

TEST_P(PrefetcherTest, NextGoesOnInAnEpochWhoseLoopWasLeft) {
  in_place([] {
    const Numbers data({.size = 20});
    const PrefetcherOptions options = {.batch_size = 4};
    Prefetcher feed(data, gpu::open("host"), options);
    for (Lease& batch : feed.epoch(6)) {
      if (batch.index() == 1) break;
    }
    Batches rest = expected_epoch(data, options, 6);
    rest.erase(rest.begin(), rest.begin() + 2);
    EXPECT_EQ(rest_of(feed), rest);
  });
}

// Time stands still while any fiber can run, so after an hour everybody waits.
TEST(PrefetcherAhead, ReadsTheNextEpochIntoEverySlotBeforeItIsAskedFor) {
  VirtualClock clock;
  const auto body = [] {
    const Numbers data({.size = 100});
    Prefetcher feed(data, gpu::open("host"),
                    {.batch_size = 4, .prefetch_depth = 3, .workers = 2, .pinned_slots = 5});
    sleep_for(1h);
    EXPECT_EQ(data.reads(), 0U);  // which epoch, nobody has said yet
    EXPECT_EQ(epoch_of(feed, 0).size(), 25U);
    sleep_for(1h);
    EXPECT_EQ(data.reads(), 100U + 4 * (5 + 3));  // a batch in each pinned and each device slot
  };
  run(body, {.workers = 2, .clock = &clock});
}

TEST(PrefetcherAhead, EpochsFollowEachOtherWithoutAPause) {
  for (const int workers : {1, 2}) {
    VirtualClock clock;
    const auto body = [] {
      constexpr int kBatches = 10;
      constexpr Duration kTx = 320ns;  // of 10 samples of 32 bytes
      constexpr Duration kTc = 500ns;
      const Numbers data({.size = 10 * kBatches});
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      const PrefetcherOptions options = {.batch_size = 10};
      Prefetcher feed(data, device, options);
      const gpu::Stream stream(device);
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        for (Lease& batch : feed.epoch(epoch, stream)) {
          launch_check(stream, batch, expected_samples(data, options, batch), kTc);
        }
      }
      stream.sync();
      EXPECT_EQ(now().time_since_epoch(), kTx + 3 * kBatches * kTc);
    };
    run(body, {.workers = workers, .clock = &clock});
  }
}

// Leases.

TEST_P(PrefetcherTest, NextBeyondMaxLeasesThrowsAndLosesNothing) {
  in_place([] {
    for (const std::size_t max_leases : {1U, 2U, 3U}) {
      const Numbers data({.size = 32});
      const PrefetcherOptions options = {.batch_size = 4, .max_leases = max_leases};
      Prefetcher feed(data, gpu::open("host"), options);
      std::vector<Lease> held;
      while (held.size() < max_leases) held.push_back(*feed.next());
      for (int attempt = 0; attempt < 3; ++attempt) {
        try {
          static_cast<void>(feed.next());
          ADD_FAILURE() << "a lease beyond " << max_leases;
        } catch (const std::logic_error& e) {
          expect_contains(e.what(), {"max_leases", std::to_string(max_leases).c_str()});
        }
      }
      Batches got;
      for (Lease& lease : held) got.push_back(NumbersView(lease).samples());
      held.clear();
      for (auto& batch : rest_of(feed)) got.push_back(std::move(batch));
      EXPECT_EQ(got, expected_epoch(data, options, 0));
    }
  });
}

TEST_P(PrefetcherTest, SeveralLeasesAreReleasedInAnyOrder) {
  in_place([] {
    std::mt19937 random(3);
    for (const std::size_t max_leases : {2U, 3U}) {
      for (const std::size_t depth : {1U, 2U}) {
        const Numbers data({.size = 400, .on_read = uneven_reads()});
        const gpu::Device device = gpu::open("host");
        const PrefetcherOptions options = {
            .batch_size = 4, .prefetch_depth = depth, .max_leases = max_leases, .workers = 2};
        Prefetcher feed(data, device, options);
        const gpu::Stream stream(device);
        std::vector<Lease> held;
        std::uint64_t batches = 0;
        while (std::optional<Lease> batch = feed.next()) {
          ASSERT_EQ(batch->index(), batches++);
          const auto want = expected_samples(data, options, *batch);
          const bool virtual_time = GetParam() != Place::kPlainThread;
          if (random() % 3 == 0) {
            ASSERT_EQ(NumbersView(*batch).samples(), want);
          } else {
            launch_check(stream, *batch, want, Duration(virtual_time ? random() % 64 : 0));
          }
          held.push_back(*std::move(batch));
          const std::size_t keep = random() % max_leases;
          while (held.size() > keep) {
            std::swap(held.back(), held[random() % held.size()]);
            held.pop_back();
          }
        }
        EXPECT_EQ(batches, feed.batches_per_epoch());
        stream.sync();
      }
    }
  });
}

// Errors.

struct Failure {
  std::uint64_t sample;
  std::uint64_t visit;  // from which the sample fails: 0 in the first epoch
};

TEST_P(PrefetcherTest, AFailedSampleComesAfterTheBatchesBeforeItAndOnce) {
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

TEST_P(PrefetcherTest, AnExceptionThatIsNoStdExceptionIsAnErrorToo) {
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

TEST_P(PrefetcherTest, AFailedKernelEndsTheLoopWithTheDevicesError) {
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

TEST_P(PrefetcherTest, TooLittleDeviceMemoryIsToldWhenItIsMadeAndLeavesTheDeviceUsable) {
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

TEST_P(PrefetcherTest, MayBeDestroyedBeforeItIsUsed) {
  in_place([] {
    const Numbers data({.size = 8});
    const gpu::Device device = gpu::open("host");
    for (int i = 0; i < 20; ++i) Prefetcher(data, device, {.batch_size = 4, .workers = 3});
  });
}

TEST_P(PrefetcherTest, DestructionEndsReadsThatWait) {
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

TEST_P(PrefetcherTest, MayBeDestroyedByAPlainThread) {
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

TEST_P(PrefetcherTest, ALeaseOutlivesThePrefetcherAndTheDevicesHandle) {
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
TEST_P(PrefetcherTest, EnqueuedWorkOutlivesThePrefetcherAndItsLeases) {
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

TEST(PrefetcherEnds, DestructionTakesNoTimeAtAnyMoment) {
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

TEST(PrefetcherEnds, TheConsumerMayBeCancelledAtAnyMoment) {
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

TEST(PrefetcherEnds, ARunMayEndAtAnyMoment) {
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

}  // namespace
}  // namespace leat::feeder
