// What the log keeps over a long run; what it says of one, resume_test.cpp shows.
#include "leat/feeder/state/release_log.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/state.h"

namespace leat::feeder {
namespace release_log_test {

// The loop that evaluates, always over epoch 0. Were passes kept, each would be compared with each:
// these would take hours.
TEST(ReleaseLog, PassesOverOneEpochLeaveNothingBehind) {
  const BatchPlan plan(8, 2, 1, LastBatch::kPartial);
  ReleaseLog log(plan, {.samples = 8, .batch_size = 2, .epochs = {}}, false);
  constexpr std::uint64_t kPasses = 200'000;
  for (std::uint64_t generation = 1; generation <= kPasses; ++generation) {
    const PassId pass = log.begin(0, generation, 0, false);
    for (std::uint64_t batch = 0; batch < 3; ++batch) {
      log.leased(0, pass);
      log.ended(0, pass, {.epoch = 0, .index = batch}, true);
    }
  }
  const State state = log.state();
  ASSERT_EQ(state.epochs.size(), 1U);
  EXPECT_EQ(state.epochs[0].batches.intervals(), (std::vector<Interval>{{0, 3}}));
}

// A lease of the pass before says nothing of this one, nor is it lost sight of.
TEST(ReleaseLog, ALeaseOfAnEarlierPassOverTheEpochCountsForThatOne) {
  const BatchPlan plan(8, 2, 1, LastBatch::kPartial);
  ReleaseLog log(plan, {.samples = 8, .batch_size = 2, .epochs = {}}, false);
  const PassId first = log.begin(0, 1, 0, false);
  log.leased(0, first);
  const PassId second = log.begin(0, 2, 0, false);
  log.leased(0, second);
  log.ended(0, second, {.epoch = 0, .index = 1}, true);
  log.ended(0, first, {.epoch = 0, .index = 0}, true);
  EXPECT_EQ(log.state().epochs[0].batches.intervals(), (std::vector<Interval>{{1, 2}}));
  static_cast<void>(log.begin(0, 3, 1, false));
  ASSERT_EQ(log.state().epochs.size(), 1U);
  EXPECT_EQ(log.state().epochs[0].epoch, 1U);
}

// Packed: whichever batches are held meanwhile, a place before what is missing is known.
TEST(ReleaseLog, KeepsAPlaceBehindEachGap) {
  const BatchPlan plan(4000, 8, 1, LastBatch::kPartial);
  ReleaseLog log(plan, {.samples = 1000, .elements = 4000, .batch_size = 8, .epochs = {}}, false);
  const PassId pass = log.begin(0, 1, 0, false);
  const auto release = [&](std::uint64_t batch) {
    log.leased(0, pass);
    log.ended(0, pass, {.epoch = 0, .index = batch, .elements = 8, .carry = {.element = 8 * batch}},
              true);
  };
  const auto place = [&] { return log.state().epochs.at(0).carry.value_or(Carry{}).element; };
  for (std::uint64_t batch = 0; batch < 500; ++batch) {
    if (batch != 300 && batch != 302) release(batch);
  }
  EXPECT_EQ(place(), 8U * 299);
  release(300);
  EXPECT_EQ(place(), 8U * 301);
  release(302);
  EXPECT_EQ(place(), 8U * 499);
}

// While a lease of an epoch is held, the state lists the epochs after it, too.
TEST(ReleaseLog, ALeaseThatIsHeldForThousandsOfEpochs) {
  const BatchPlan plan(8, 2, 1, LastBatch::kPartial);
  ReleaseLog log(plan, {.samples = 8, .batch_size = 2, .epochs = {}}, false);
  const PassId held = log.begin(0, 1, 0, false);
  log.leased(0, held);
  constexpr std::uint64_t kEpochs = 4'000;
  for (std::uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    const PassId pass = log.begin(0, 1, epoch, false);
    for (std::uint64_t batch = 0; batch < 4; ++batch) {
      log.leased(0, pass);
      log.ended(0, pass, {.epoch = epoch, .index = batch}, true);
    }
  }
  const State state = log.state();
  ASSERT_EQ(state.epochs.size(), kEpochs + 1);
  EXPECT_TRUE(state.epochs[0].batches.empty());
  EXPECT_EQ(state.epochs[kEpochs].batches.count(), 4U);
  EXPECT_EQ(State::parse(state.text()), state);
  log.ended(0, held, {.epoch = 0, .index = 0}, true);
  static_cast<void>(log.begin(0, 1, kEpochs + 1, false));
  EXPECT_EQ(log.state().epochs.size(), 1U);
}

// Four ranks, each alone: one is two epochs ahead, the others somewhere in the first.
TEST(ReleaseLog, OfRanksFarApartSaysWhatEachHas) {
  constexpr std::uint64_t kBatches = 20'000;
  const BatchPlan plan(kBatches * 10, 10, 4, LastBatch::kPartial);
  ReleaseLog log(
      plan, {.samples = kBatches * 10, .batch_size = 10, .ranks = 4, .world_size = 4, .epochs = {}},
      false);
  const auto release = [&](std::size_t rank, std::uint64_t epoch, std::uint64_t batches) {
    const PassId pass = log.begin(rank, 1, epoch, false);
    for (std::uint64_t batch = 0; batch < batches; ++batch) {
      log.leased(rank, pass);
      log.ended(rank, pass, {.epoch = epoch, .index = batch}, true);
    }
  };
  release(0, 0, 7);
  release(1, 0, 15'000);
  release(2, 0, 19'000);
  release(3, 0, kBatches);
  release(3, 1, kBatches);
  release(3, 2, 1);
  const State state = log.state();
  // Of each batch of 10, ranks 0 and 1 have 3 positions, ranks 2 and 3 have 2.
  ASSERT_EQ(state.epochs.size(), 3U);
  const EpochReleases& first = state.epochs[0];
  ASSERT_EQ(first.batches.intervals(), (std::vector<Interval>{{0, 7}}));
  ASSERT_EQ(first.positions.intervals().size(), kBatches - 7);
  for (std::uint64_t batch = 7; batch < kBatches; ++batch) {
    const std::uint64_t from = batch < 15'000 ? 3 : batch < 19'000 ? 6 : 8;
    ASSERT_EQ(first.positions.intervals()[batch - 7],
              (Interval{batch * 10 + from, batch * 10 + 10}));
  }
  EXPECT_TRUE(state.epochs[1].batches.empty());
  EXPECT_EQ(state.epochs[1].positions.count(), 2 * kBatches);
  EXPECT_EQ(state.epochs[2].positions.intervals(), (std::vector<Interval>{{8, 10}}));
  EXPECT_EQ(State::parse(state.text()), state);
}

}  // namespace release_log_test
}  // namespace leat::feeder
