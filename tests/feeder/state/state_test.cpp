// Sets of intervals against sets; states of several ranks.
#include "leat/feeder/state.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "leat/feeder/state/epoch_plan.h"
#include "leat/feeder/state/intervals.h"

namespace leat::feeder {
namespace state_test {

std::set<std::uint64_t> numbers(const IntervalSet& set) {
  std::set<std::uint64_t> found;
  std::uint64_t end = 0;
  bool first = true;
  for (const Interval& one : set.intervals()) {
    EXPECT_LT(one.first, one.end);
    EXPECT_TRUE(first || one.first > end) << "intervals that touch are one";
    first = false;
    end = one.end;
    for (std::uint64_t n = one.first; n < one.end; ++n) found.insert(n);
  }
  return found;
}

TEST(IntervalSet, IsASet) {
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    IntervalSet a;
    IntervalSet b;
    std::set<std::uint64_t> set_a;
    std::set<std::uint64_t> set_b;
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t first = random() % 30;
      const std::uint64_t end = first + random() % 5;
      (i % 2 == 0 ? a : b).add({.first = first, .end = end});
      for (std::uint64_t n = first; n < end; ++n) (i % 2 == 0 ? set_a : set_b).insert(n);
    }
    ASSERT_EQ(numbers(a), set_a);
    ASSERT_EQ(a.count(), set_a.size());
    std::set<std::uint64_t> both;
    std::set<std::uint64_t> rest;
    for (std::uint64_t n = 0; n < 40; ++n) {
      ASSERT_EQ(a.contains(n), set_a.contains(n)) << n;
      if (set_a.contains(n)) (set_b.contains(n) ? both : rest).insert(n);
    }
    ASSERT_EQ(numbers(intersection(a, b)), both);
    ASSERT_EQ(numbers(difference(a, b)), rest);
  }
}

IntervalSet set_of(std::initializer_list<Interval> intervals) {
  IntervalSet set;
  for (const Interval& one : intervals) set.add(one);
  return set;
}

TEST(State, RanksThatAreTooFarApartAreNotMerged) {
  State first{.samples = ~std::uint64_t{0} - 1,
              .batch_size = 1,
              .rank = 0,
              .world_size = 2,
              .epochs = {{.epoch = 5, .batches = set_of({{0, 1ULL << 40}}), .positions = {}}}};
  State second = first;
  second.rank = 1;
  second.epochs[0].batches = {};
  EXPECT_THROW(static_cast<void>(State::merge(std::vector{first, second})), std::invalid_argument);
  // Whole batches are not gone through one by one.
  first.epochs[0].batches = {};
  first.epochs[0].positions = set_of({{5, 1ULL << 60}});
  const State merged = State::merge(std::vector{first, second});
  EXPECT_EQ(merged.epochs[0].batches, set_of({{5, 1ULL << 60}}));
  EXPECT_TRUE(merged.epochs[0].positions.empty());
}

// Two ranks that are not in step: of 6 batches of 4, one has 0, 1 and 3, the other 0 and 2.
TEST(State, OfRanksOutOfStepSayWhatEachHas) {
  State first{.samples = 24,
              .batch_size = 4,
              .rank = 0,
              .world_size = 2,
              .epochs = {{.epoch = 5, .batches = set_of({{0, 2}, {3, 4}}), .positions = {}}}};
  State second = first;
  second.rank = 1;
  second.epochs[0].batches = set_of({{0, 1}, {2, 3}});
  const State both = State::merge(std::vector{first, second});
  EXPECT_EQ(both.ranks, 2U);
  ASSERT_EQ(both.epochs.size(), 1U);
  EXPECT_EQ(both.epochs[0].batches, set_of({{0, 1}}));
  // Batch 1 is positions 4..7, of which the first rank had 4 and 5; the second had 10, 11 of batch
  // 2; the first had 12, 13 of batch 3.
  EXPECT_EQ(both.epochs[0].positions, set_of({{4, 6}, {10, 14}}));

  const BatchPlan plan(24, 4, 1, LastBatch::kPartial);
  const EpochPlan left(plan, &both.epochs[0]);
  EXPECT_FALSE(left.has(0));
  std::vector<PositionRange> shard;
  left.shard(1, 0, shard);
  EXPECT_EQ(shard, (std::vector<PositionRange>{{6, 2}}));
  left.shard(2, 0, shard);
  EXPECT_EQ(shard, (std::vector<PositionRange>{{8, 2}}));
  left.shard(4, 0, shard);
  EXPECT_EQ(shard, (std::vector<PositionRange>{{16, 4}}));
  EXPECT_EQ(left.count(1), 2U);
}

// Of 5 samples in batches of 4, the last has one, which is the first rank's: so the shard that the
// other one lacks is empty, and no batch without samples is left to begin with.
TEST(State, OfWhichNoSampleIsMissingIsAWholeBatch) {
  State first{.samples = 5,
              .batch_size = 4,
              .rank = 0,
              .world_size = 2,
              .epochs = {{.epoch = 5, .batches = set_of({{0, 2}}), .positions = {}}}};
  State second = first;
  second.rank = 1;
  second.epochs[0].batches = set_of({{0, 1}});
  const State both = State::merge(std::vector{first, second});
  ASSERT_EQ(both.epochs.size(), 1U);
  EXPECT_EQ(both.epochs[0].batches, set_of({{0, 2}}));
  EXPECT_EQ(both.epochs[0].positions, IntervalSet{});
}

// The walk to what is missing begins where the rank that is least far may begin.
TEST(State, OfPackedRanksHasThePlaceOfTheOneLeastFar) {
  State first{.samples = 24,
              .elements = 240,
              .batch_size = 40,
              .rank = 0,
              .world_size = 2,
              .epochs = {{.epoch = 5, .batches = set_of({{0, 3}}), .positions = {}}}};
  first.epochs[0].carry = Carry{.element = 80, .position = 8, .offset = 3};
  State second = first;
  second.rank = 1;
  second.epochs[0].batches = set_of({{0, 2}});
  second.epochs[0].carry = Carry{.element = 60, .position = 6, .offset = 1};
  EXPECT_EQ(State::merge(std::vector{first, second}).epochs.at(0).carry, second.epochs[0].carry);
  first.epochs[0].carry.reset();
  EXPECT_EQ(State::merge(std::vector{first, second}).epochs.at(0).carry, std::nullopt);
}

TEST(State, OfARankThatIsAnEpochAheadCountsAsDoneWithTheOneBefore) {
  State first{.samples = 24,
              .batch_size = 4,
              .rank = 0,
              .world_size = 2,
              .epochs = {{.epoch = 6, .batches = {}, .positions = {}}}};
  State second = first;
  second.rank = 1;
  second.epochs = {{.epoch = 5, .batches = set_of({{0, 5}}), .positions = {}}};
  const State both = State::merge(std::vector{first, second});
  ASSERT_EQ(both.epochs.size(), 2U);
  EXPECT_EQ(both.epochs[0].epoch, 5U);
  EXPECT_EQ(both.epochs[0].batches, set_of({{0, 5}}));
  EXPECT_EQ(both.epochs[0].positions, set_of({{20, 22}}));
  EXPECT_EQ(both.epochs[1].epoch, 6U);
  EXPECT_TRUE(both.epochs[1].batches.empty());
}

TEST(State, OfDifferentRunsAreNotMerged) {
  State first{.samples = 24, .batch_size = 4, .rank = 0, .world_size = 2, .epochs = {}};
  State second = first;
  second.rank = 1;
  EXPECT_NO_THROW(static_cast<void>(State::merge(std::vector{first, second})));
  EXPECT_THROW(static_cast<void>(State::merge(std::vector{first, first})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(State::merge(std::vector{first})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(State::merge({})), std::invalid_argument);
  second.seed = 2;
  EXPECT_THROW(static_cast<void>(State::merge(std::vector{first, second})), std::invalid_argument);
}

}  // namespace state_test
}  // namespace leat::feeder
