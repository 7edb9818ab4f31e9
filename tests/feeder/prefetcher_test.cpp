// What a prefetcher delivers, in every place that it may run in: which samples, in which order.
// How it ends has its own file.
#include "leat/feeder/prefetcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace prefetcher_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::in_virtual_time;
using support::kPlaces;
using support::launch_check;
using support::Numbers;
using support::NumbersView;
using support::place_title;

INSTANTIATE_TEST_SUITE_P(Places, PrefetcherTest, testing::ValuesIn(kPlaces), place_title);

TEST_P(PrefetcherTest, ABatchLargerThanTheDatasetIsTheWholeDataset) {
  in_place([] {
    for (const std::size_t batch_size : {std::size_t{9}, ~std::size_t{0}}) {
      NumbersFeed feed({.size = 8}, {.batch_size = batch_size});
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
      NumbersFeed feed({.size = 8, .on_read = [&](std::uint64_t) { opened.wait(); }});
      const auto body = [&] {
        go([&] {  // with one worker: once the consumer waits
          open.set_value();
        });
        EXPECT_EQ(epoch_of(feed, 0), feed.want_epoch(0));
      };
      run(body, {.workers = workers});
    }
  }
}

// Which samples.

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
    for (const std::uint64_t size : {1U, 7U, 8U, 9U, 31U, 32U}) {
      for (const LastBatch last : {LastBatch::kPartial, LastBatch::kDrop}) {
        SCOPED_TRACE(testing::Message() << size << " samples");
        NumbersFeed feed({.size = size}, {.batch_size = 8, .last_batch = last});
        const bool partial = last == LastBatch::kPartial;
        EXPECT_EQ(feed.batches_per_epoch(), partial ? (size + 7) / 8 : size / 8);
        for (const std::uint64_t epoch : {0U, 1U}) {
          const Batches batches = epoch_of(feed, epoch);
          EXPECT_EQ(batches.size(), feed.batches_per_epoch());
          EXPECT_EQ(batches, feed.want_epoch(epoch));
        }
      }
    }
  });
}

TEST_P(PrefetcherTest, AnEmptyDatasetHasEmptyEpochs) {
  in_place([] {
    NumbersFeed feed({.size = 0}, {.batch_size = 8});
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
    NumbersFeed feed({.size = 29, .on_read = uneven_reads()}, {.batch_size = 4, .workers = 2});
    for (const std::uint64_t epoch : {3U, 4U, 0U, 0U, 17U, 18U, 19U, 1U, 0U}) {
      EXPECT_EQ(epoch_of(feed, epoch), feed.want_epoch(epoch)) << "epoch " << epoch;
    }
  });
}

// By `break` or by an exception.
TEST_P(PrefetcherTest, AfterALoopThatWasLeftAnyEpochIsWholeAgain) {
  in_place([] {
    NumbersFeed feed({.size = 29, .on_read = uneven_reads()}, {.batch_size = 4, .workers = 2});
    for (std::uint64_t taken = 1; taken <= feed.batches_per_epoch(); ++taken) {
      for (const std::uint64_t after : {5U, 6U, 2U}) {
        try {
          for (Lease& batch : feed.epoch(5)) {
            if (batch.index() + 1 < taken) continue;
            if (after == 6) throw std::domain_error("loss is not a number");
            break;
          }
        } catch (const std::domain_error&) {
        }
        EXPECT_EQ(epoch_of(feed, after), feed.want_epoch(after))
            << "epoch " << after << " after " << taken << " batches of epoch 5";
      }
    }
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

TEST_P(PrefetcherTest, NextGoesOnInAnEpochWhoseLoopWasLeft) {
  in_place([] {
    NumbersFeed feed({.size = 20});
    for (Lease& batch : feed.epoch(6)) {
      if (batch.index() == 1) break;
    }
    Batches rest = feed.want_epoch(6);
    rest.erase(rest.begin(), rest.begin() + 2);
    EXPECT_EQ(rest_of(feed), rest);
  });
}

// Time stands still while any fiber can run, so after an hour everybody waits.
TEST(PrefetcherAhead, ReadsTheNextEpochIntoEverySlotBeforeItIsAskedFor) {
  in_virtual_time({.workers = 2}, [] {
    NumbersFeed feed({.size = 100},
                     {.batch_size = 4, .prefetch_depth = 3, .workers = 2, .pinned_slots = 5});
    sleep_for(1h);
    EXPECT_EQ(feed.data.reads(), 0U);  // which epoch, nobody has said yet
    EXPECT_EQ(epoch_of(feed, 0).size(), 25U);
    sleep_for(1h);
    // A batch in each pinned and each device slot.
    EXPECT_EQ(feed.data.reads(), 100U + 4 * (5 + 3));
  });
}

TEST(PrefetcherAhead, EpochsFollowEachOtherWithoutAPause) {
  for (const int workers : {1, 2}) {
    in_virtual_time({.workers = workers}, [] {
      constexpr int kBatches = 10;
      constexpr Duration kTx = 320ns;  // of 10 samples of 32 bytes
      constexpr Duration kTc = 500ns;
      NumbersFeed feed({.size = 10 * kBatches}, {.batch_size = 10}, {.h2d_bandwidth = 1e9});
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        for (Lease& batch : feed.epoch(epoch, feed.stream)) {
          feed.launch_check(batch, kTc);
        }
      }
      feed.stream.sync();
      EXPECT_EQ(now().time_since_epoch(), kTx + 3 * kBatches * kTc);
    });
  }
}

// Leases.

TEST_P(PrefetcherTest, NextBeyondMaxLeasesThrowsAndLosesNothing) {
  in_place([] {
    for (const std::size_t max_leases : {1U, 2U, 3U}) {
      NumbersFeed feed({.size = 32}, {.batch_size = 4, .max_leases = max_leases});
      std::vector<Lease> held;
      while (held.size() < max_leases) held.push_back(*feed.next());
      for (int attempt = 0; attempt < 3; ++attempt) {
        expect_throws<std::logic_error>([&] { static_cast<void>(feed.next()); },
                                        {"max_leases", std::to_string(max_leases)});
      }
      Batches got;
      for (Lease& lease : held) got.push_back(NumbersView(lease).samples());
      held.clear();
      for (auto& batch : rest_of(feed)) got.push_back(std::move(batch));
      EXPECT_EQ(got, feed.want_epoch(0));
    }
  });
}

}  // namespace prefetcher_test
}  // namespace leat::feeder
