// What a prefetcher delivers, in every place that it may run in: which samples, in which order.
// How it ends has its own file.
#include "leat/feeder/prefetcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"

namespace leat::feeder {
namespace prefetcher_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersView;
using support::Place;
using support::place_title;

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

TEST_P(PrefetcherTest, RefusesAbsurdNumbersAndSaysHowManyAreAllowed) {
  in_place([] {
    const Numbers data({.size = 8});
    const gpu::Device device = gpu::open("host");
    const auto expect_refused = [&](const PrefetcherOptions& options, const char* name) {
      try {
        const Prefetcher feed(data, device, options);
        ADD_FAILURE() << name << " was accepted";
      } catch (const std::invalid_argument& e) {
        expect_contains(e.what(), {name, "at most 4096"});
      }
    };
    for (const std::size_t many : {std::size_t{4097}, std::size_t{1} << 32, ~std::size_t{0}}) {
      expect_refused({.batch_size = 1, .prefetch_depth = many}, "prefetch_depth");
      expect_refused({.batch_size = 1, .max_leases = many}, "max_leases");
      expect_refused({.batch_size = 1, .workers = many}, "workers");
      expect_refused({.batch_size = 1, .pinned_slots = many}, "pinned_slots");
    }
  });
}

TEST_P(PrefetcherTest, ABatchLargerThanTheDatasetIsTheWholeDataset) {
  in_place([] {
    const Numbers data({.size = 8});
    for (const std::size_t batch_size : {std::size_t{9}, ~std::size_t{0}}) {
      const PrefetcherOptions options = {.batch_size = batch_size};
      Prefetcher feed(data, gpu::open("host"), options);
      EXPECT_EQ(feed.batches_per_epoch(), 1U);
      EXPECT_EQ(epoch_of(feed, 0).at(0).size(), 8U);
    }
  });
}

// Its stages then run on a scheduler of their own, which the consumer's does not see: that nobody
// in run can wake the consumer is no deadlock.
TEST(PrefetcherElsewhere, MadeOnAPlainThreadItMayBeUsedInsideRun) {
  for (const int workers : {1, 2}) {
    for (int i = 0; i < 20; ++i) {
      std::promise<void> open;
      const std::shared_future<void> opened(open.get_future());
      const Numbers data({.size = 8, .on_read = [&](std::uint64_t) { opened.wait(); }});
      const PrefetcherOptions options = {.batch_size = 4};
      Prefetcher feed(data, gpu::open("host"), options);
      const auto body = [&] {
        go([&] {  // with one worker: once the consumer waits
          open.set_value();
        });
        EXPECT_EQ(epoch_of(feed, 0), expected_epoch(data, options, 0));
      };
      run(body, {.workers = workers});
    }
  }
}

TEST_P(PrefetcherTest, RefusesADatasetWithoutFields) {
  class NoFields final : public Dataset {
   public:
    std::string_view name() const noexcept override { return "nothing"; }
    std::span<const Field> fields() const noexcept override { return {}; }
    std::uint64_t size() const noexcept override { return 1; }
    void read(std::uint64_t, Sample&) const override {}
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

}  // namespace prefetcher_test
}  // namespace leat::feeder
