// What a prefetcher does with a last batch that is not full, with samples that fail, with batches
// that are read out of order.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/failures.h"
#include "leat/feeder/map.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/memory.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace policies_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::kPlaces;
using support::Numbers;
using support::NumbersView;
using support::place_title;

class Policies : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, Policies, testing::ValuesIn(kPlaces), place_title);

TEST_P(Policies, APaddedLastBatchHasAllRowsAndZerosBehindItsSamples) {
  in_place([] {
    for (const std::uint64_t size : {1U, 7U, 8U, 9U, 31U}) {
      for (const std::size_t ranks : {1U, 3U}) {
        SCOPED_TRACE(testing::Message() << size << " samples, " << ranks << " ranks");
        const Numbers data({.size = size});
        const PrefetcherOptions options = {.batch_size = 8, .last_batch = LastBatch::kPad};
        Prefetcher prefetcher(data, open_devices(ranks), options);
        std::uint64_t samples = 0;
        for (int epoch = 0; epoch < 2; ++epoch) {  // the slots have held other batches then
          for (std::size_t rank = 0; rank < ranks; ++rank) {
            std::uint64_t batches = 0;
            while (std::optional<Lease> batch = prefetcher.rank(rank).next()) {
              ++batches;
              samples += batch->size();
              const PositionRange rows = balanced_slice(8, rank, ranks);
              EXPECT_EQ(batch->rows(), rows.count);
              EXPECT_EQ((*batch)["number"].shape()[0], static_cast<std::int64_t>(rows.count));
              EXPECT_EQ((*batch)["pattern"].bytes(), rows.count * 24);
              EXPECT_EQ(NumbersView(*batch).samples(),
                        expected_shard(data, options, rank, ranks, *batch));
              const auto* const pattern = (*batch)["pattern"].data<std::uint8_t>();
              for (std::size_t i = batch->size() * 24; i < rows.count * 24; ++i) {
                ASSERT_EQ(pattern[i], 0) << "byte " << i;
              }
            }
            EXPECT_EQ(batches, (size + 7) / 8);
          }
        }
        EXPECT_EQ(samples, 2 * size);
      }
    }
  });
}

TEST(PolicyBools, ArePaddedWithFalseAndAnotherByteIsAnError) {
  std::vector<std::uint8_t> bytes(6 * 2, 1);
  const InMemory data({{{"mask", DType::kBool, {2}}, std::as_bytes(std::span(bytes))}}, "masks");
  const PrefetcherOptions options = {
      .batch_size = 4, .order = Order::kSequential, .last_batch = LastBatch::kPad};
  {
    Prefetcher feed(data, gpu::open("host"), options);
    for (Lease& batch : feed.epoch(0)) {
      const bool* const mask = batch["mask"].data<bool>();
      for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(mask[i], batch.index() == 0 || i < 4) << i;
      EXPECT_THROW(static_cast<void>(batch["mask"].data<std::uint8_t>()), std::invalid_argument);
    }
  }
  bytes[5] = 7;  // of sample 2
  Prefetcher again(data, gpu::open("host"), options);
  expect_throws<Error>([&] { static_cast<void>(again.next()); },
                       {"sample 2 of dataset \"masks\"", "element 1 of field \"mask\" is 7"});
}

TEST_P(Policies, ALastBatchThatWrapsGoesOnWithTheEpochsFirstSamples) {
  in_place([] {
    for (const std::uint64_t size : {1U, 3U, 7U, 8U, 9U, 31U}) {
      NumbersFeed feed({.size = size}, {.batch_size = 8, .last_batch = LastBatch::kWrap});
      EXPECT_EQ(feed.batches_per_epoch(), (size + 7) / 8);
      for (const std::uint64_t epoch : {0U, 1U}) {
        std::vector<std::uint64_t> all;
        for (Lease& batch : feed.epoch(epoch)) {
          EXPECT_EQ(batch.size(), 8U);
          for (const std::uint64_t sample : NumbersView(batch).samples()) all.push_back(sample);
        }
        const Sampler sampler(size, feed.options.order, feed.options.seed);
        for (std::uint64_t i = 0; i < all.size(); ++i) {
          EXPECT_EQ(all[i], sampler.at(epoch, i % size)) << "position " << i;
        }
      }
    }
    NumbersFeed nothing({.size = 0}, {.batch_size = 8, .last_batch = LastBatch::kWrap});
    EXPECT_EQ(nothing.next(), std::nullopt);
  });
}

bool is_bad(std::uint64_t sample) { return sample % 10 == 3; }
const std::function<void(std::uint64_t)> kBadSectors = failing_reads(is_bad, "a bad sector");

TEST_P(Policies, SamplesThatFailWithinTheBudgetAreSetAsideAndNoOtherMoves) {
  in_place([] {
    for (const std::size_t workers : {1U, 3U}) {
      const auto on_read = [](std::uint64_t sample) {
        uneven_reads()(sample);
        kBadSectors(sample);
      };
      NumbersFeed feed({.size = 60, .on_read = on_read},
                       {.batch_size = 8, .workers = workers, .read_failures = {.count = 12}});
      std::multiset<std::uint64_t> failed;
      for (const std::uint64_t epoch : {0U, 1U}) {
        std::uint64_t batches = 0;
        for (Lease& batch : feed.epoch(epoch)) {
          std::vector<std::uint64_t> want = feed.want(batch);
          for (const std::uint64_t sample : want) {
            if (is_bad(sample)) failed.insert(sample);
          }
          std::erase_if(want, is_bad);
          EXPECT_EQ(NumbersView(batch).samples(), want);
          EXPECT_EQ(batch.size(), want.size());
          EXPECT_EQ(batch["number"].shape()[0], static_cast<std::int64_t>(want.size()));
          ++batches;
        }
        EXPECT_EQ(batches, 8U);
      }
      std::multiset<std::uint64_t> told;
      for (const FailedSample& one : feed.failed_samples()) {
        EXPECT_LE(one.epoch, 1U) << "read ahead";
        told.insert(one.sample);
        EXPECT_EQ(one.stage, FailingStage::kRead);
        EXPECT_EQ(one.error, "a bad sector");
        const auto batch = feed.want(one.epoch, one.batch);
        EXPECT_NE(std::ranges::find(batch, one.sample), batch.end());
      }
      EXPECT_EQ(told, failed);
    }
  });
}

// However far readers are ahead: the bad samples of an epoch that nobody has asked for are not
// charged.
TEST_P(Policies, WhatIsReadAheadIsChargedWhenItIsHandedOut) {
  in_place([] {
    for (const std::size_t workers : {1U, 2U, 8U}) {
      for (int repetition = 0; repetition < 20; ++repetition) {
        NumbersFeed feed({.size = 60, .on_read = kBadSectors}, {.batch_size = 4,
                                                                .prefetch_depth = 4,
                                                                .workers = workers,
                                                                .read_failures = {.count = 6}});
        EXPECT_EQ(count_samples(feed.epoch(0)), 54U);
        EXPECT_EQ(feed.failed_samples().size(), 6U);
        EXPECT_THROW(count_samples(feed.epoch(1)), Error);
        EXPECT_EQ(feed.failed_samples().size(), 6U);
      }
    }
  });
}

TEST_P(Policies, WhatIsOfAnotherTypeOrHasNoWordsIsAFailureOnceToo) {
  in_place([] {
    struct Wordless : std::exception {
      [[nodiscard]] const char* what() const noexcept override { return ""; }
    };
    for (const bool has_type : {true, false}) {
      NumbersFeed feed({.size = 8},
                       {.batch_size = 4,
                        .device_transform = {.fields = {{"nothing", DType::kUint8, {}}},
                                             .function = [&](const TensorSet&, const TensorSet&,
                                                             const gpu::StreamRef&) {
                                               if (has_type) throw Wordless{};
                                               throw 7;
                                             }}});
      EXPECT_ANY_THROW(static_cast<void>(feed.next()));
      EXPECT_THROW(static_cast<void>(feed.next()), Error);
      EXPECT_THROW(static_cast<void>(feed.next()), Error);
    }
  });
}

TEST_P(Policies, OneFailureTooManyIsTheConsumersErrorAndSaysHowManyAreAllowed) {
  in_place([] {
    NumbersFeed feed({.size = 60, .on_read = kBadSectors},  // 3, 13, and 23 is one too many
                     {.batch_size = 5, .order = Order::kSequential, .read_failures = {.count = 2}});
    for (std::uint64_t i = 0; i < 4; ++i) {
      std::optional<Lease> batch = feed.next();
      ASSERT_TRUE(batch.has_value());
      auto want = feed.want(0, i);
      std::erase_if(want, is_bad);
      EXPECT_EQ(NumbersView(*batch).samples(), want);
    }
    expect_throws<Error>(
        [&] { static_cast<void>(feed.next()); },
        {"sample 23", "a bad sector", "2 samples failed before it", "read_failures allows 2"});
    EXPECT_EQ(feed.failed_samples().size(), 2U);
  });
}

TEST_P(Policies, TheErrorThatEndsARunHasItsSampleAndTheCauseInIt) {
  in_place([] {
    struct Bad : std::runtime_error {
      using std::runtime_error::runtime_error;
    };
    for (const std::uint64_t budget : {0U, 2U}) {
      const std::uint64_t last = 10 * budget + 3;
      const bool is_std = budget == 0;
      const auto on_read = [=](std::uint64_t sample) {
        if (sample == last && !is_std) throw 6;
        if (is_bad(sample)) throw Bad("a bad sector");
      };
      NumbersFeed feed(
          {.size = 60, .on_read = on_read},
          {.batch_size = 5, .order = Order::kSequential, .read_failures = {.count = budget}});
      try {
        count_samples(feed.epoch(0));
        FAIL() << "the epoch ended";
      } catch (const SampleError& error) {
        EXPECT_EQ(error.sample().stage, FailingStage::kRead);
        EXPECT_EQ(error.sample().epoch, 0U);
        EXPECT_EQ(error.sample().sample, last);
        EXPECT_EQ(error.sample().batch, last / 5);
        EXPECT_EQ(error.sample().error, is_std ? "a bad sector" : "unknown exception");
        if (is_std) {
          EXPECT_THROW(std::rethrow_if_nested(error), Bad);
        } else {
          EXPECT_THROW(std::rethrow_if_nested(error), int);
        }
      }
    }
  });
}

TEST_P(Policies, ABudgetMayBeAShareOfTheSamplesRead) {
  in_place([] {
    PrefetcherOptions options = {
        .batch_size = 10, .order = Order::kSequential, .read_failures = {.count = 3, .rate = 0.12}};
    NumbersFeed enough({.size = 1000, .on_read = kBadSectors}, options);
    EXPECT_EQ(count_samples(enough.epoch(0)), 900U);
    // The fourth failure is sample 33: 34 were read by then, or a few more. An epoch may have two.
    options.read_failures.rate = 0.05;
    NumbersFeed few({.size = 50, .on_read = kBadSectors}, options);
    for (int batch = 0; batch < 3; ++batch) EXPECT_EQ(few.next()->size(), 9U);
    expect_throws<Error>([&] { static_cast<void>(few.next()); },
                         {"3 samples failed before it", "read_failures allows 3 of the "});
  });
}

// One sample in ten is bad, the first ones too, and one in five may be: at the start, and again
// after a resume.
TEST_P(Policies, AShareAloneIsABudgetFromTheFirstSampleOn) {
  in_place([] {
    const auto is_bad = [](std::uint64_t sample) { return sample % 50 < 5; };
    PrefetcherOptions options = {
        .batch_size = 10, .order = Order::kSequential, .read_failures = {.rate = 0.2}};
    for (int run = 0; run < 2; ++run) {
      NumbersFeed feed({.size = 100, .on_read = failing_reads(is_bad, "torn")}, options);
      std::size_t samples = 0;
      for (Lease& batch : feed.epoch(0)) {
        samples += batch.size();
        if (batch.index() == 4 && run == 0) break;
      }
      EXPECT_EQ(samples, 45U) << "run " << run;
      options.resume = feed.state();
    }
  });
}

TEST_P(Policies, ABatchOfWhichNothingIsLeftIsAnEmptyBatch) {
  in_place([] {
    const auto on_read = [](std::uint64_t sample) {
      if (sample / 4 == 1) throw 4;
    };
    NumbersFeed feed({.size = 12, .on_read = on_read},
                     {.batch_size = 4, .order = Order::kSequential, .read_failures = {.rate = 1}});
    std::vector<std::size_t> sizes;
    for (Lease& batch : feed.epoch(0)) sizes.push_back(batch.size());
    EXPECT_EQ(sizes, (std::vector<std::size_t>{4, 0, 4}));
    EXPECT_EQ(feed.failed_samples().at(0).error, "unknown exception");
  });
}

// Every tenth sample cannot be read, every seventh not be transformed: each has a budget.
TEST_P(Policies, ReadsAndTransformsHaveBudgetsOfTheirOwn) {
  in_place([] {
    const Numbers data({.size = 70, .on_read = kBadSectors});
    const Map mapped(data, [](Sample& sample) {
      if (sample.as<std::int64_t>(0)[0] % 7 == 5) throw std::domain_error("not a cat");
    });
    const auto options = [](std::uint64_t reads, std::uint64_t transforms) {
      return PrefetcherOptions{.batch_size = 10,
                               .order = Order::kSequential,
                               .read_failures = {.count = reads},
                               .transform_failures = {.count = transforms}};
    };
    Prefetcher feed(mapped, gpu::open("host"), options(20, 20));
    EXPECT_EQ(count_samples(feed.epoch(0)), 70U - 7 - 9);
    std::uint64_t reads = 0;
    std::uint64_t transforms = 0;
    for (const FailedSample& one : feed.failed_samples()) {
      if (one.epoch > 0) continue;
      const bool is_read = one.stage == FailingStage::kRead;
      ++(is_read ? reads : transforms);
      EXPECT_EQ(one.sample % 10 == 3, is_read);
      expect_contains(one.error, {is_read ? "a bad sector" : "not a cat"});
    }
    EXPECT_EQ(reads, 7U);
    EXPECT_EQ(transforms, 9U);  // 5, 12, 19, ..., 68 without 33, which cannot be read

    const auto expect_fails = [&](const PrefetcherOptions& these,
                                  std::initializer_list<std::string_view> says) {
      Prefetcher strict(mapped, gpu::open("host"), these);
      expect_throws<Error>([&] { count_samples(strict.epoch(0)); }, says);
    };
    expect_fails(options(20, 0), {"sample 5 ", "not a cat"});
    expect_fails(options(0, 20), {"sample 3 ", "a bad sector"});
    expect_fails(options(20, 3),
                 {"sample 26 ", "transform_failures allows 3", "3 samples failed before it"});
  });
}

// Batch 1 takes long; those behind it overtake it, but the next epoch's do not.
TEST(PoliciesDelivery, AsCompletedASlowBatchHoldsUpNoOtherOfItsEpoch) {
  for (const Delivery delivery : {Delivery::kInOrder, Delivery::kAsCompleted}) {
    in_virtual_time([&] {
      std::atomic<int> visits{0};
      const auto on_read = [&](std::uint64_t sample) {
        sleep_for(1us);
        if (sample == 4 && visits++ == 0) sleep_for(100us);
      };
      NumbersFeed feed({.size = 24, .on_read = on_read}, {.batch_size = 4,
                                                          .prefetch_depth = 2,
                                                          .workers = 2,
                                                          .pinned_slots = 12,
                                                          .order = Order::kSequential,
                                                          .delivery = delivery});
      std::vector<std::uint64_t> indices;
      std::optional<TimePoint> third;
      for (Lease& batch : feed.epoch(0)) {
        feed.check(batch);
        indices.push_back(batch.index());
        if (indices.size() == 3) third = now();
      }
      const Stats stats = feed.stats();
      if (delivery == Delivery::kInOrder) {
        EXPECT_EQ(indices, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5}));
        EXPECT_GE(third->time_since_epoch(), 100us);
        EXPECT_EQ(stats.reordered, 0U);
      } else {
        EXPECT_EQ(indices, (std::vector<std::uint64_t>{0, 2, 3, 4, 5, 1}));
        EXPECT_LE(third->time_since_epoch(), 20us);
        EXPECT_EQ(stats.reordered, 4U);
        EXPECT_EQ(stats.most_overtaken, 1U);
      }
      std::uint64_t batches = 0;
      for (const Lease& batch : feed.epoch(1)) batches += batch.epoch();
      EXPECT_EQ(batches, 6U);
    });
  }
}

TEST_P(Policies, AsCompletedEachBatchComesOnceInItsEpoch) {
  in_place([] {
    for (const std::size_t workers : {1U, 2U, 5U}) {
      NumbersFeed feed({.size = 41, .on_read = uneven_reads()},
                       {.batch_size = 3, .workers = workers, .delivery = Delivery::kAsCompleted});
      for (const std::uint64_t epoch : {0U, 1U, 2U, 9U}) {
        Batches got(14);
        for (Lease& batch : feed.epoch(epoch)) {
          EXPECT_EQ(batch.epoch(), epoch);
          EXPECT_TRUE(got.at(batch.index()).empty()) << "twice";
          got[batch.index()] = NumbersView(batch).samples();
        }
        EXPECT_EQ(got, feed.want_epoch(epoch));
      }
    }
  });
}

}  // namespace policies_test
}  // namespace leat::feeder
