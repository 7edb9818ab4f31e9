// Packing: an epoch is one row of elements, cut into batches and shards wherever they end; against
// that row, written down.
#include "leat/feeder/plan/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace packing_test {

using support::in_virtual_time;
using support::kPlaces;
using support::place_title;
using support::rounds;

// Sample i: tokens i * 100 + j for j below its length, a flag for each, and a label of fixed size.
class Documents final : public Dataset {
 public:
  explicit Documents(std::vector<std::size_t> lengths) : lengths_(std::move(lengths)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "documents"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return lengths_.size(); }
  void read(std::uint64_t index, Sample& out) const override {
    if (fails.has_value() && index == *fails) throw Error("a torn page");
    const std::size_t length = lengths_[index] + (lies.has_value() && index == *lies ? 1 : 0);
    out.set_length(1, std::min(length, out.bytes(1).size() / 4));
    out.set_length(2, std::min(length, out.bytes(2).size() / 2));
    for (std::size_t j = 0; j < lengths_[index]; ++j) {
      out.as<std::int32_t>(1)[j] = static_cast<std::int32_t>(index * 100 + j);
      out.as<std::uint8_t>(2)[2 * j] = static_cast<std::uint8_t>(index);
      out.as<std::uint8_t>(2)[2 * j + 1] = static_cast<std::uint8_t>(j);
    }
    if (lies.has_value() && index == *lies) out.set_length(1, lengths_[index] - 1);
    out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index);
  }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t /*field*/) const override {
    if (silent) return std::nullopt;
    return lengths_[index];
  }
  [[nodiscard]] std::size_t length_of(std::uint64_t index) const { return lengths_[index]; }

  std::optional<std::uint64_t> fails;
  std::optional<std::uint64_t> lies;
  bool silent = false;

 private:
  std::vector<std::size_t> lengths_;
  std::vector<Field> fields_{
      {.name = "label", .dtype = DType::kInt64, .shape = {}},
      {.name = "tokens", .dtype = DType::kInt32, .shape = {50}, .variable_length = true},
      {.name = "flags", .dtype = DType::kUint8, .shape = {50, 2}, .variable_length = true}};
};

Documents random_documents(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> lengths(count);
  for (std::size_t& length : lengths) length = random() % 5 == 0 ? 0 : random() % 20;
  return Documents(std::move(lengths));
}

// One element: of which sample, and its number there.
using Element = std::pair<std::uint64_t, std::size_t>;
using Elements = std::vector<Element>;

Elements row_of(const Documents& data, const PrefetcherOptions& options, std::uint64_t epoch) {
  const Sampler sampler(data.size(), options.order, options.seed);
  Elements row;
  for (std::uint64_t position = 0; position < data.size(); ++position) {
    const std::uint64_t sample = sampler.at(epoch, position);
    for (std::size_t j = 0; j < data.length_of(sample); ++j) row.emplace_back(sample, j);
  }
  return row;
}

// What a batch holds; checks that its tensors agree with each other.
Elements elements_of(Lease& batch) {
  const Tensor tokens = batch["tokens"];
  const Tensor flags = batch["flags"];
  const Tensor offsets = batch["offsets"];
  const Tensor labels = batch["label"];
  EXPECT_EQ(tokens.shape().size(), 1U);
  EXPECT_EQ(flags.shape()[1], 2);
  EXPECT_EQ(offsets.shape()[0], static_cast<std::int64_t>(batch.size()) + 1);
  EXPECT_EQ(labels.shape()[0], static_cast<std::int64_t>(batch.size()));
  const auto* const offset = offsets.data<std::int32_t>();
  EXPECT_EQ(offset[0], 0);
  EXPECT_EQ(static_cast<std::size_t>(offset[batch.size()]), batch.elements());
  Elements elements;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_LT(offset[i], offset[i + 1]) << "a piece without elements";
    for (std::int32_t at = offset[i]; at < offset[i + 1]; ++at) {
      const auto token = static_cast<std::size_t>(tokens.data<std::int32_t>()[at]);
      elements.emplace_back(token / 100, token % 100);
      EXPECT_EQ(flags.data<std::uint8_t>()[2 * at], token / 100);
      EXPECT_EQ(flags.data<std::uint8_t>()[2 * at + 1], token % 100);
      EXPECT_EQ(labels.data<std::int64_t>()[i], static_cast<std::int64_t>(token / 100));
    }
  }
  return elements;
}

Elements part(const Elements& row, std::uint64_t first, std::uint64_t count) {
  const auto begin = row.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

class Packed : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, Packed, testing::ValuesIn(kPlaces), place_title);

TEST_P(Packed, BatchesAndShardsAreTheRowOfElementsInPieces) {
  in_place([] {
    for (const std::size_t batch_size : {1U, 7U, 32U, 1000U}) {
      for (const std::size_t ranks : {1U, 3U}) {
        for (const LastBatch last : {LastBatch::kPartial, LastBatch::kDrop, LastBatch::kPad}) {
          SCOPED_TRACE(testing::Message() << "batches of " << batch_size << " over " << ranks
                                          << ", " << to_string(last));
          const Documents data = random_documents(batch_size, 40);
          const PrefetcherOptions options = {.batch_size = batch_size,
                                             .workers = 2,
                                             .seed = 5,
                                             .last_batch = last,
                                             .packing = Packing{}};
          Prefetcher prefetcher(data, open_devices(ranks), options);
          for (const std::uint64_t epoch : {0U, 1U}) {
            const Elements row = row_of(data, options, epoch);
            const BatchPlan plan(row.size(), batch_size, ranks, last);
            EXPECT_EQ(prefetcher.batches_per_epoch(), plan.batches());
            for (std::size_t rank = 0; rank < ranks; ++rank) {
              std::uint64_t batches = 0;
              for (Lease& batch : prefetcher.rank(rank).epoch(epoch)) {
                const PositionRange shard = plan.shard(batch.index(), rank);
                EXPECT_EQ(elements_of(batch), part(row, shard.first, shard.count));
                EXPECT_EQ(batch.step_size(), plan.positions(batch.index()).count);
                if (last == LastBatch::kPad) {
                  const Tensor tokens = batch["tokens"];
                  ASSERT_EQ(tokens.shape()[0], static_cast<std::int64_t>(plan.rows(rank)));
                  for (std::size_t i = batch.elements(); i < plan.rows(rank); ++i) {
                    EXPECT_EQ(tokens.data<std::int32_t>()[i], 0);
                  }
                }
                ++batches;
              }
              EXPECT_EQ(batches, plan.batches());
            }
          }
        }
      }
    }
  });
}

TEST_P(Packed, WhatIsCarriedOverIsInTheState) {
  in_place([] {
    const Documents data({5, 5, 5, 5});
    PrefetcherOptions options = {
        .batch_size = 7, .order = Order::kSequential, .packing = Packing{.most_samples = 4}};
    Prefetcher feed(data, gpu::open("host"), options);
    static_cast<void>(feed.next());
    EXPECT_NE(feed.state().find(R"("elements":20,)"), std::string::npos) << feed.state();
    EXPECT_NE(feed.state().find(R"("carry":[0,0,0])"), std::string::npos) << feed.state();
    static_cast<void>(feed.next());
    EXPECT_NE(feed.state().find(R"("batches":[[0,2]],"positions":[],"carry":[7,1,2])"),
              std::string::npos)
        << feed.state();
    EXPECT_EQ(State::parse(feed.state()).text(), feed.state());
  });
}

// As many samples and elements, but elsewhere: what is carried over names no place there.
TEST_P(Packed, AStateOfOtherLengthsIsRefused) {
  in_place([] {
    const gpu::Device device = gpu::open("host");
    PrefetcherOptions options = {
        .batch_size = 7, .order = Order::kSequential, .packing = Packing{.most_samples = 4}};
    const Documents data({5, 5, 4, 6});
    {
      Prefetcher feed(data, device, options);
      static_cast<void>(feed.next());
      static_cast<void>(feed.next());
      options.resume = feed.state();
    }
    const auto error_of = [&](const Dataset& of) -> std::string {
      try {
        const Prefetcher feed(of, device, options);
      } catch (const Error& e) {
        return e.what();
      }
      return "none";
    };
    EXPECT_EQ(error_of(data), "none");
    EXPECT_EQ(error_of(Documents({5, 5, 6, 4})), "none");  // what lies before it is the same
    const std::string error = error_of(Documents({6, 4, 5, 5}));
    EXPECT_NE(
        error.find("is of other data: in epoch 0, element 7 is not element 2 of the sample at "
                   "position 1"),
        std::string::npos)
        << error;
    const State good = State::parse(*options.resume);
    for (const Carry& wrong : {Carry{7, 1, 3}, Carry{7, 2, 0}, Carry{7, 4, 0}, Carry{0, 1, 0},
                               Carry{0, 0, 6}, Carry{12, 1, 7}, Carry{20, 4, 1}, Carry{1, 0, 0}}) {
      State bad = good;
      bad.epochs[0].carry = wrong;
      options.resume = bad.text();
      EXPECT_NE(error_of(data).find("is of other data"), std::string::npos) << *options.resume;
    }
  });
}

// Walks to any element, from the beginning or from a place known, end at the same one.
TEST(PackedWalk, FindsEveryElementFromAnywhere) {
  const Documents data = random_documents(3, 30);
  const PrefetcherOptions options = {.seed = 2};
  const Sampler sampler(data.size(), options.order, options.seed);
  const Elements row = row_of(data, options, 4);
  EXPECT_EQ(packed_elements(data), row.size());
  PackWalk walk(data, sampler);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t known = random() % (row.size() + 1);
    walk.enter(4, std::nullopt);
    const Carry place = walk.seek(known);
    EXPECT_EQ(place.element, known);
    PackWalk other(data, sampler);
    other.enter(4, place);
    const std::uint64_t first = random() % (row.size() + 1);  // perhaps before the place
    const std::uint64_t count = random() % (row.size() - first + 1);
    std::vector<Piece> pieces;
    other.take({.first = first, .count = count}, pieces);
    Elements got;
    for (const Piece& piece : pieces) {
      EXPECT_GT(piece.count, 0U);
      for (std::uint64_t j = 0; j < piece.count; ++j) {
        got.emplace_back(sampler.at(4, piece.position), piece.first + j);
      }
    }
    ASSERT_EQ(got, part(row, first, count));
  }
}

TEST(PackedLives, ResumedOnAnyRanksEachElementCountsOnce) {
  const auto lives = static_cast<std::uint64_t>(rounds(200));
  for (std::uint64_t seed = 0; seed < lives; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    in_virtual_time({.workers = 1, .seed = seed}, [&] {
      std::mt19937_64 random(seed);
      const Documents data = random_documents(seed, random() % 40 + 1);
      PrefetcherOptions options = {
          .batch_size = random() % 30 + 1, .seed = seed, .packing = Packing{}};
      std::map<std::uint64_t, std::map<std::uint64_t, Elements>> released;  // epoch, batch
      for (std::uint64_t resumes = seed % 4 + 1; resumes > 0; --resumes) {
        const std::size_t ranks = random() % 3 + 1;
        const bool is_last = resumes == 1;
        options.workers = random() % 3 + 1;
        Prefetcher prefetcher(data, open_devices(ranks), options);
        if (prefetcher.batches_per_epoch() == 0) return;
        bool goes_on = true;
        for (std::uint64_t steps = random() % 12; goes_on && (is_last || steps > 0); --steps) {
          for (std::size_t rank = 0; rank < ranks; ++rank) {
            std::optional<Lease> batch = prefetcher.rank(rank).next();
            if (!batch.has_value()) continue;
            goes_on = batch->epoch() < 2;
            if (!goes_on) {
              batch->abandon();
              continue;
            }
            const Elements elements = elements_of(*batch);
            Elements& all = released[batch->epoch()][batch->index()];
            all.insert(all.end(), elements.begin(), elements.end());
          }
        }
        options.resume = prefetcher.state();
        EXPECT_LE(options.resume->size(), 300U) << *options.resume;
      }
      for (const std::uint64_t epoch : {0U, 1U}) {
        Elements got;
        for (const auto& [index, elements] : released[epoch]) {
          got.insert(got.end(), elements.begin(), elements.end());
        }
        EXPECT_EQ(got, row_of(data, options, epoch)) << "epoch " << epoch;
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(Packed, ASampleThatFailsWithinTheBudgetLeavesNoGap) {
  in_place([] {
    Documents data({5, 3, 4, 6});
    data.fails = 1;
    Prefetcher feed(data, gpu::open("host"),
                    {.batch_size = 10,
                     .order = Order::kSequential,
                     .packing = Packing{},
                     .read_failures = {.count = 2}});
    Lease batch = *feed.next();
    EXPECT_EQ(elements_of(batch),
              (Elements{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {2, 0}, {2, 1}}));
    EXPECT_EQ(batch.elements(), 7U);
    EXPECT_EQ(feed.failed_samples().at(0).sample, 1U);
  });
}

TEST_P(Packed, WhatCannotBePackedIsRefusedAndToldWhy) {
  in_place([] {
    const gpu::Device device = gpu::open("host");
    const PrefetcherOptions options = {
        .batch_size = 8, .order = Order::kSequential, .packing = Packing{}};
    const auto error_of = [&](const Dataset& data, PrefetcherOptions these) -> std::string {
      try {
        Prefetcher feed(data, device, these);
        for (Lease& batch : feed.epoch(0)) static_cast<void>(batch);
      } catch (const std::exception& e) {
        return e.what();
      }
      return "none";
    };
    Documents silent({1, 2, 3});
    silent.silent = true;
    expect_contains(error_of(silent, options), {"sample 0", "Dataset::length()"});
    expect_contains(error_of(Documents({1, 51}), options),
                    {"sample 1", "length of 51", "\"tokens\"", "at most 50"});
    expect_contains(error_of(support::Numbers({.size = 4}), options), {"no field of variable"});
    Documents liar({4, 4});
    liar.lies = 1;
    expect_contains(error_of(liar, options), {"sample 1", "length of 3", "has told 4"});
    PrefetcherOptions few = options;
    few.packing->most_samples = 2;
    expect_contains(error_of(Documents({1, 1, 1, 50}), few),
                    {"batch 0", "packs 4 samples", "most_samples, 2"});
    PrefetcherOptions wraps = options;
    wraps.last_batch = LastBatch::kWrap;
    expect_contains(error_of(Documents({1}), wraps), {"packing", "wraps"});
    EXPECT_EQ(error_of(Documents({}), options), "none");
    EXPECT_EQ(error_of(Documents({0, 0}), options), "none");
  });
}

// It is known before the batches before it are read, and comes behind them all the same.
TEST(Packing, ABatchOfTooManySamplesFailsBehindThoseBeforeIt) {
  std::vector<std::size_t> lengths(20, 50);  // 20 batches of one sample; then one of 50
  lengths.resize(70, 1);
  in_virtual_time([&] {
    const Documents data(lengths);
    Prefetcher feed(data, gpu::open("host"),
                    {.batch_size = 50,
                     .prefetch_depth = 4,
                     .workers = 3,
                     .order = Order::kSequential,
                     .packing = Packing{.most_samples = 20}});
    std::size_t batches = 0;
    const auto consume = [&] {
      for (Lease& batch : feed.epoch(0)) {
        batch.release();
        ++batches;
      }
    };
    EXPECT_THROW(consume(), Error);
    EXPECT_EQ(batches, 20U);
  });
}

}  // namespace packing_test
}  // namespace leat::feeder
