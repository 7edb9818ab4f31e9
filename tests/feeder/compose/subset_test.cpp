// Subsets, splits, sequences and numbers of datasets.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

#include "leat/csp/error.h"
#include "leat/feeder/batch_source.h"
#include "leat/feeder/compose.h"
#include "leat/feeder/map.h"
#include "leat/feeder/plan/packing.h"
#include "tests/feeder/compose/composed.h"

namespace leat::feeder {
namespace subset_test {

using List = std::vector<std::int64_t>;

constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

TEST(Subset, HasTheSamplesOfItsNumbersInTheirOrder) {
  const Values from(10);
  const Subset some(from, {7, 0, 7, 9});
  EXPECT_EQ(values_of(some), (List{7, 0, 7, 9}));
  EXPECT_EQ(some.name(), "values, subset");
  EXPECT_EQ(some.fields()[0], from.fields()[0]);
  EXPECT_EQ(Subset(from, std::vector<std::uint64_t>{}).size(), 0U);
  expect_throws<Error>([&] { static_cast<void>(value_of(some, 4)); },
                       {"values, subset has no sample 4; it has 4"});
}

TEST(Subset, ARangeIsAProgressionUpOrDown) {
  const Values from(10);
  EXPECT_EQ(values_of(Subset::range(from, 2, 3)), (List{2, 3, 4}));
  EXPECT_EQ(values_of(Subset::range(from, 1, 3, 4)), (List{1, 5, 9}));
  EXPECT_EQ(values_of(Subset::range(from, 9, 4, -3)), (List{9, 6, 3, 0}));
  EXPECT_EQ(values_of(Subset::range(from, 5, 2, 0)), (List{5, 5}));
  EXPECT_EQ(Subset::range(from, 50, 0).size(), 0U);
  const Values large(kLargest);
  EXPECT_EQ(value_of(Subset::range(large, kLargest - 1, kLargest, -1), kLargest - 1), 0);
}

TEST(Subset, NumbersBeyondTheDatasetAreRefused) {
  const Values from(10);
  expect_throws<std::invalid_argument>(
      [&] {
        const Subset some(from, {3, 10});
      },
      {"leat: Subset: number 10, at place 1, is beyond the 10 samples of \"values\""});
  for (const auto& [first, count, step] :
       {std::tuple<std::uint64_t, std::uint64_t, std::int64_t>{8, 3, 1},
        {10, 1, 1},
        {5, 3, -3},
        {0, 3, std::numeric_limits<std::int64_t>::max()},
        {9, kLargest, std::numeric_limits<std::int64_t>::min()}}) {
    expect_throws<std::invalid_argument>(
        [&, first = first, count = count, step = step] {
          static_cast<void>(Subset::range(from, first, count, step));
        },
        {"leat: Subset: a range of ", "leaves the 10 samples of \"values\""});
  }
}

TEST(Split, PartsAreThoseOfTheModel) {
  const Values from(10);
  const auto two = split(from, {.8, .2});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(values_of(two[0]), (List{5, 6, 0, 2, 7, 3, 1, 4}));
  EXPECT_EQ(values_of(two[1]), (List{8, 9}));
  const auto three = split(from, {.7, .2, .1}, 1);
  EXPECT_EQ(values_of(three[0]), (List{5, 8, 6, 4, 3, 7, 9}));
  EXPECT_EQ(values_of(three[1]), (List{2, 1}));
  EXPECT_EQ(values_of(three[2]), (List{0}));
}

TEST(Split, NothingLeaksAcrossEpochsAndSeedsOfTheRun) {
  const Values from(1000);
  const auto parts = split(from, {3, 1}, 5);
  List all = values_of(parts[0], 1, 0);
  const List rest = values_of(parts[1], 2, 7);
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 1000U);
  EXPECT_EQ(rest.size(), 250U);
}

TEST(Split, SharesThatCannotBeAreRefused) {
  const Values from(10);
  expect_throws<std::invalid_argument>(
      [&] {
        static_cast<void>(split(from, {1, -1}));
      },
      {"leat: split: weight 1 is -1"});
  expect_throws<std::invalid_argument>(
      [&] {
        static_cast<void>(split(from, {0, 0}));
      },
      {"no weight is above 0"});
  expect_throws<std::invalid_argument>(
      [&] {
        static_cast<void>(split(from, {.99, .01}));
      },
      {"part 1, of 0.01", "none of the 10 samples", "leave it"});
  const Mixture mixture({{from}});
  expect_throws<std::invalid_argument>(
      [&] {
        static_cast<void>(split(mixture, {1, 1}));
      },
      {"\"mixture\"", "leak", "split its parts"});
}

TEST(Concat, HasThePartsOneAfterTheOther) {
  const Values a(2);
  const Values none(0);
  const Values b(3, 100);
  const Concat all({a, b, none, a});
  EXPECT_EQ(values_of(all), (List{0, 1, 100, 101, 102, 0, 1}));
  EXPECT_EQ(all.name(), "concat");
  EXPECT_EQ(values_of(Concat({a})), (List{0, 1}));
  expect_throws<Error>([&] { static_cast<void>(value_of(all, 7)); }, {"concat has no sample 7"});
}

TEST(Concat, OfVariableLengthTheLongestCounts) {
  const Rows shorter(4, {4, 2}, 1);
  const Rows longer(6, {6, 4}, 2);
  const Concat all({shorter, longer});
  EXPECT_EQ(all.fields()[0].shape, std::vector<std::int64_t>{6});
  EXPECT_EQ(Concat({longer, shorter}).fields()[0].shape, std::vector<std::int64_t>{6});
  for (const auto& [index, length] : {std::pair{0, 4}, {1, 2}, {2, 6}, {3, 4}}) {
    SampleBuffer sample(all.fields());
    all.read(static_cast<std::uint64_t>(index), sample);
    EXPECT_EQ(sample.bytes(0).size(), static_cast<std::size_t>(length)) << index;
    EXPECT_EQ(sample.as<std::uint8_t>(0)[0], index < 2 ? 1 : 2);
  }
  EXPECT_EQ(packed_elements(all), 16U);
}

TEST(Concat, PartsThatCannotBeTogetherAreRefused) {
  const Values a(2, 0, "a");
  const Rows rows(4, {4}, 1);
  expect_throws<std::invalid_argument>(
      [&] {
        const Concat all({a, rows});
      },
      {"leat: Concat: part 1, \"rows\", has the fields bytes uint8 (up to 4)",
       "part 0, \"a\", value int64 ()", "equal: names, types and shapes"});
  expect_throws<std::invalid_argument>([&] { const Concat all({}); }, {"no dataset is given"});
  const Values huge(kLargest);
  expect_throws<std::invalid_argument>([&] { const Concat all({huge, a}); }, {"2^64 samples"});
  const Mixture mixture({{a}});
  expect_throws<std::invalid_argument>(
      [&] {
        const Concat all({a, mixture});
      },
      {"part 1, \"mixture\", brings an order along, and part 0, \"a\", does not", "one Mixture"});
  EXPECT_TRUE(Concat({mixture, mixture}).is_ordered());
}

TEST(Numbered, AddsTheNumberBehindTheOtherFields) {
  const Values from(5, 100);
  const Numbered numbered(from);
  ASSERT_EQ(numbered.fields().size(), 2U);
  EXPECT_EQ(numbered.fields()[1], (Field{"number", DType::kInt64, {}}));
  SampleBuffer sample(numbered.fields());
  numbered.read(3, sample);
  EXPECT_EQ(sample.as<std::int64_t>(0)[0], 103);
  EXPECT_EQ(sample.as<std::int64_t>(1)[0], 3);
  expect_throws<std::invalid_argument>(
      [&] { const Numbered twice{static_cast<const Dataset&>(numbered)}; },
      {"\"values, numbered\" has a field \"number\" already"});
}

TEST(Numbered, OfAMixtureAddsPartAndNumberInIt) {
  const Values a(3);
  const Values b(5, 100);
  const Mixture mixture({{a, .5}, {b, .5}}, {.samples = 10});
  const Numbered numbered(mixture);
  for (std::uint64_t i = 0; i < 10; ++i) {
    SampleBuffer sample(numbered.fields(), 4, 3, i);
    numbered.read(i, sample);
    EXPECT_EQ(sample.as<std::int64_t>(0)[0],
              100 * sample.as<std::int64_t>(2)[0] + sample.as<std::int64_t>(1)[0]);
  }
  EXPECT_EQ(numbered.fields()[2].name, "source");
  EXPECT_TRUE(numbered.is_ordered());
  const Map mapped(numbered, [](Sample&) {});
  EXPECT_TRUE(mapped.is_ordered() && mapped.varies_by_epoch());
}

TEST(Compose, RandomNumbersGoOnBehindThePart) {
  Values from(4);
  std::uint64_t first = 0;
  from.on_read = [&](std::uint64_t, Sample& out) { first = out.random()(); };
  const Numbered numbered(from);  // a sample of its own
  const Map drawing(numbered, [&](Sample& out) { EXPECT_NE(out.random()(), first); });
  static_cast<void>(value_of(drawing, 2, 6, 1));
  EXPECT_EQ(first, Random(6, 1, 2)());
}

TEST(Compose, HintsReachThePart) {
  const Values a(4);
  const Values b(4);
  const Concat all({a, b});
  const Subset some(all, {5});
  const Numbered numbered(some);
  numbered.will_read(0, 8, 9);
  EXPECT_EQ(b.hint(), (Values::Hint{1, 8, 9}));
  EXPECT_EQ(numbered.announce(0, 6, 7), 101U);
  EXPECT_EQ(b.hint(), (Values::Hint{1, 6, 7}));
  EXPECT_EQ(numbered.origin(0, 0, 0), "number 5 of \"concat\": number 1 of part 1, \"values\"");
}

TEST(Compose, BlocksAsThePartThatBlocksMost) {
  const Values a(4);
  Values b(4);
  b.blocks = Blocking::kSeldom;
  EXPECT_EQ(Concat({a, b, a}).blocking(), Blocking::kSeldom);
  EXPECT_EQ(Mixture({{b}, {a}}).blocking(), Blocking::kSeldom);
  EXPECT_EQ(Subset(b, {1}).blocking(), Blocking::kSeldom);
}

TEST(Compose, DigestsTellWhatIsComposedApart) {
  const Values a(4);
  const Values same(4);
  Values other(4);
  other.files = 7;
  const Values larger(5);
  const auto stage = [](std::uint64_t from, std::vector<double> weights) {
    return MixtureStage{from, std::move(weights)};
  };
  const auto mixture = [&](const Dataset& of, const MixtureOptions& options = {}) {
    return Mixture({{of, 1}, {a, 1}}, options).digest();
  };
  const std::vector<double> weights = {1, 1, 1, 1};
  const std::vector<double> others = {1, 1, 1, 2};
  const std::vector<std::uint64_t> digests = {
      a.digest(),  // 0
      Subset(a, {1, 2}).digest(),
      Subset(a, {2, 1}).digest(),
      Subset(other, {1, 2}).digest(),
      Subset::range(a, 1, 2).digest(),
      Subset::range(a, 2, 2, -1).digest(),
      split(a, {.5, .5}, 0)[0].digest(),
      split(a, {.5, .5}, 0)[1].digest(),
      split(a, {.5, .5}, 1)[0].digest(),
      Concat({a, other}).digest(),
      Concat({other, a}).digest(),
      Concat({a, same}).digest(),
      Concat({a, larger}).digest(),
      Numbered(a).digest(),
      Numbered(other).digest(),
      mixture(a),
      mixture(other),
      mixture(larger),
      mixture(a, {.samples = 10}),
      mixture(a, {.shuffle = false}),
      mixture(a, {.stages = {stage(1, {1, 3})}}),
      mixture(a, {.stages = {stage(2, {1, 3})}}),
      mixture(a, {.stages = {stage(1, {1, 7})}}),
      Weighted(a, weights).digest(),
      Weighted(a, others).digest(),
      Weighted(a, weights, {.samples = 5}).digest(),
      Weighted(a, weights, {.replacement = true}).digest(),
  };
  EXPECT_EQ(std::set<std::uint64_t>(digests.begin(), digests.end()).size(), digests.size());
  EXPECT_EQ(mixture(same), mixture(a)) << "the same composition of the same";
}

class Source final : public BatchSource {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "source"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return 8; }
  void fill(BatchFill&) const override {}
};

TEST(Compose, ABatchSourceIsNoPart) {
  const Source source;
  const std::vector<double> weights(8, 1.0);
  const auto expect_refused = [](const auto& compose) {
    expect_throws<std::invalid_argument>(compose, {"\"source\", makes its batches as a whole"});
  };
  expect_refused([&] { const Subset some(source, {1}); });
  expect_refused([&] { static_cast<void>(split(source, {1, 1})); });
  expect_refused([&] { const Concat all({source}); });
  expect_refused([&] { const Mixture mixture({{source}}); });
  expect_refused([&] { const Weighted weighted(source, weights); });
  expect_refused([&] { const Numbered numbered(source); });
}

}  // namespace subset_test
}  // namespace leat::feeder
