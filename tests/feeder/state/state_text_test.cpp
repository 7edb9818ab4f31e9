// A state and its text.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/state.h"
#include "leat/feeder/state/intervals.h"

namespace leat::feeder {
namespace state_text_test {

IntervalSet set_of(std::initializer_list<Interval> intervals) {
  IntervalSet set;
  for (const Interval& one : intervals) set.add(one);
  return set;
}

const State kState = {
    .samples = 60'000,
    .batch_size = 64,
    .seed = 1,
    .order = Order::kShuffled,
    .last_batch = LastBatch::kWrap,
    .rank = 1,
    .ranks = 2,
    .world_size = 4,
    .epochs = {
        {.epoch = 3, .batches = set_of({{0, 12}, {13, 14}}), .positions = set_of({{768, 784}})},
        {.epoch = 4, .batches = {}, .positions = {}}}};

TEST(State, ItsTextIsForEver) {
  EXPECT_EQ(kState.text(),
            "leat-state/1 samples=60000 batch_size=64 seed=1 order=shuffled last_batch=wrap "
            "ranks=1-2/4 epoch=3 batches=0-11,13 positions=768-783 epoch=4 batches=- positions=- "
            "sum=a3f6fa90");
  EXPECT_EQ(State::parse(kState.text()), kState);
  EXPECT_EQ(State::parse(kState.text() + "\n"), kState);
  const State fresh{.samples = 1, .batch_size = 1, .epochs = {}};
  EXPECT_EQ(State::parse(fresh.text()), fresh);
  EXPECT_EQ(fresh.next_epoch(), 0U);
  EXPECT_EQ(kState.next_epoch(), 3U);
}

TEST(State, ATextThatIsNotWholeIsRefused) {
  const std::string text = kState.text();
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(static_cast<void>(State::parse(text.substr(0, length))), Error) << length;
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = changed[at] == '7' ? '8' : '7';
    if (changed == text) continue;
    EXPECT_THROW(static_cast<void>(State::parse(changed)), Error) << changed;
  }
  EXPECT_THROW(static_cast<void>(State::parse(text + "0")), Error);
}

std::string with_sum(const std::string& text) {
  std::uint32_t sum = 2166136261U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  char hex[9];
  std::snprintf(hex, sizeof hex, "%08x", sum);
  return text + " sum=" + hex;
}

TEST(State, ATextThatMakesNoSenseIsRefusedAndTheByteNamed) {
  const std::string good =
      "leat-state/1 samples=60 batch_size=4 seed=1 order=shuffled last_batch=drop ranks=0-0/1";
  EXPECT_NO_THROW(static_cast<void>(State::parse(with_sum(good))));
  const auto expect_refused = [&](const std::string& text, const std::string& why) {
    try {
      static_cast<void>(State::parse(with_sum(text)));
      ADD_FAILURE() << text << " was accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("at byte "), std::string::npos) << e.what();
    }
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  expect_refused(with("samples=60", "samples=many"), "\"many\" is no number");
  expect_refused(with("samples=60", "samples="), "no number");
  expect_refused(with("samples=60 ", ""), "expected \"samples=\"");
  expect_refused(with("shuffled", "shaken"), "\"shaken\" is no order");
  expect_refused(with("drop", "lose"), "\"lose\" is no last_batch");
  expect_refused(with("0-0/1", "0"), "\"0\" are no ranks");
  expect_refused(with("0-0/1", "0-1/1"), "make no sense");
  expect_refused(with("batch_size=4", "batch_size=0"), "make no sense");
  expect_refused(good + " epoch=1", "expected \"batches=\"");
  expect_refused(good + " epoch=1 batches=3-2 positions=-", "\"3-2\" is no interval");
  expect_refused(good + " epoch=1 batches=0-18446744073709551615 positions=-", "is no interval");
  for (const char* bits : {"0+0:8", "0+1:", "0+:8", "0+1", "0+1:8g", "0+1:-8", "+1:8",
                           "0+4611686018427387904:8", "18446744073709551615+1:8"}) {
    expect_refused(
        good + " epoch=1 batches=" + bits + " positions=-",
        *bits == '+' || std::string(bits) == "0+:8" ? "\"\" is no number" : "are no bits");
  }
  expect_refused(good + " epoch=1 batches=14+1:c positions=-", "does not have");
  const auto expect_no_part = [&](const std::string& part, const std::string& why) {
    expect_refused(good + " epoch=1 batches=- positions=" + part, why);
    expect_refused(good + " epoch=1 batches=- positions=- before=0@1;" + part, why);
  };
  expect_no_part("0@1;1", "there is no @");
  expect_no_part("@1", "it is empty");
  expect_no_part("0@", "it is empty");
  expect_no_part("-@1", "it is empty");
  expect_no_part("x@1", "\"x\" is no number");
  expect_no_part("0@14-15", "an epoch has fewer batches");
  expect_no_part("3-4@0", "its batches have fewer positions");
  expect_no_part("0/@1", "\"\" is no number");
  expect_no_part("0/0@1", "no such shards");
  expect_no_part("2/2@1", "no such shards");
  expect_refused(
      "leat-state/1 samples=1000000000000 batch_size=4 seed=1 order=shuffled "
      "last_batch=drop ranks=0-0/1 epoch=1 batches=- positions=0@0-99999999999",
      "more than memory holds");
  expect_refused(good + " epoch=18446744073709551615 batches=- positions=-", "there is no epoch");
  const std::string epoch = " epoch=1 batches=- positions=- carry=";
  expect_refused(good + epoch + "0:0+0", "does not have that carry");  // it is not packed
  const std::string packed = with("samples=60", "samples=60 elements=100");
  EXPECT_NO_THROW(static_cast<void>(State::parse(with_sum(packed + epoch + "100:60+0"))));
  expect_refused(packed + epoch + "101:60+0", "does not have that carry");
  expect_refused(packed + epoch + "100:61+0", "does not have that carry");
  expect_refused("leat-state/2" + good.substr(12), "leat-state/1");
  expect_refused(with("0-0/1", "0-0/1048577"), "make no sense");
  expect_refused(with("drop", "partial") + " epoch=1 batches=- positions=60", "does not have");
  expect_refused(good + " epoch=2-1 batches=- positions=-", "\"2-1\" are no epochs");
  expect_refused(good + " epoch=1- batches=- positions=-", "\"\" is no number");
  expect_refused(good + " epoch=1-18446744073709551615 batches=- positions=-", "there is no epoch");
  expect_refused(good + " epoch=1-300000 batches=- positions=-", "more than memory holds");
  expect_refused(good + " epoch=1-3 batches=- positions=- epoch=3 batches=- positions=-",
                 "epoch 3 follows 3");
}

TEST(State, ManyGapsAreBits) {
  State state{.samples = 1'000'000, .batch_size = 64, .seed = 1, .epochs = {{.epoch = 3}}};
  IntervalSet& batches = state.epochs[0].batches;
  batches.add({.first = 0, .end = 1000});
  for (std::uint64_t batch = 1001; batch < 1257; batch += 2) batches.add(batch);
  EXPECT_EQ(state.text(),
            "leat-state/1 samples=1000000 batch_size=64 seed=1 order=shuffled last_batch=partial "
            "ranks=0-0/1 epoch=3 batches=0-999,1001+1:" +
                std::string(64, 'a') + " positions=- sum=26652af8");
  EXPECT_EQ(State::parse(state.text()), state);
}

// Whatever the set, and whichever form is the shortest.
TEST(State, EverySetComesBack) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3'000; ++round) {
    State state{.samples = ~std::uint64_t{0} - 1, .batch_size = 1, .epochs = {{.epoch = 0}}};
    const std::uint64_t unit = random() % 4 == 0 ? 1 : 1 + random() % 40;
    const std::uint64_t from = random() % 3 == 0 ? 0 : random() % (1ULL << random() % 60);
    std::size_t listed = 0;
    for (IntervalSet* set : {&state.epochs[0].batches, &state.epochs[0].positions}) {
      const std::uint64_t pieces = random() % 60;
      for (std::uint64_t i = 0; i < pieces; ++i) {
        const std::uint64_t first = from + random() % 200 * unit;
        set->add({.first = first, .end = first + unit * (1 + random() % 3)});
      }
      if (random() % 5 == 0) set->add(random() % 1000);
      for (const Interval& one : set->intervals()) {
        listed += std::to_string(one.first).size() + 1;
        if (one.end - one.first > 1) listed += std::to_string(one.end - 1).size() + 1;
      }
    }
    const std::string text = state.text();
    ASSERT_EQ(State::parse(text), state) << text;
    ASSERT_LE(text.size(), listed + 150) << "longer than the intervals one by one";
  }
}

// What of each batch was released is the same for many, and in shards of equal size or not.
TEST(State, WhateverTheShardsEveryPartOfBatchesComesBack) {
  std::mt19937_64 random(11);
  std::size_t in_parts = 0;
  for (int round = 0; round < 1'000; ++round) {
    const std::size_t batch_size = 1 + random() % 100;
    const std::size_t world = 1 + random() % 40;
    const auto last = static_cast<LastBatch>(random() % 4);
    State state{.samples = 1 + random() % (300 * batch_size),
                .batch_size = batch_size,
                .last_batch = last,
                .world_size = world,
                .epochs = {{.epoch = 0}}};
    const BatchPlan cut(state.samples, batch_size, random() % 3 == 0 ? 1 + random() % 40 : world,
                        last);
    for (IntervalSet* set : {&state.epochs[0].positions, &state.epochs[0].before}) {
      for (std::size_t rank = 0; rank < cut.ranks() && cut.batches() > 0; ++rank) {
        if (random() % 2 == 0) continue;
        const std::uint64_t from = random() % cut.batches();
        const std::uint64_t end = from + random() % (cut.batches() - from + 1);
        for (std::uint64_t batch = from; batch < end; ++batch) {
          const PositionRange shard = cut.shard(batch, rank);
          set->add({.first = shard.first, .end = shard.first + shard.count});
        }
      }
    }
    const std::string text = state.text();
    ASSERT_EQ(State::parse(text), state) << text;
    if (text.find('@') != std::string::npos) ++in_parts;
  }
  EXPECT_GT(in_parts, 300U);
}

// Each of 8 ranks somewhere else: some are through with the epoch, some at its beginning.
TEST(State, OfRanksThatAreFarApartIsAFewHundredBytes) {
  for (const std::size_t batch_size : {512U, 500U}) {  // shards of 64; of 63 and 62
    std::vector<State> states;
    for (std::size_t rank = 0; rank < 8; ++rank) {
      State& state = states.emplace_back();
      state = {.samples = 100'000'000,
               .batch_size = batch_size,
               .rank = rank,
               .world_size = 8,
               .epochs = {{.epoch = rank == 7 ? 13U : 12U}}};
      state.epochs[0].batches.add({.first = 0, .end = 1 + rank * 21'001 % 100'000});
    }
    const State merged = State::merge(states);
    ASSERT_EQ(merged.epochs.size(), 2U);
    EXPECT_GT(merged.epochs[0].positions.intervals().size(), 100'000U);
    EXPECT_LE(merged.text().size(), 500U) << merged.text();
    EXPECT_EQ(State::parse(merged.text()), merged);
  }
}

TEST(State, BatchesOfWhichRanksHaveTheSameAreOnePart) {
  State state{.samples = 1'000, .batch_size = 10, .world_size = 4, .epochs = {{.epoch = 3}}};
  state.ranks = 4;
  for (std::uint64_t batch = 7; batch < 100; ++batch) {
    state.epochs[0].positions.add({.first = batch * 10, .end = batch * 10 + 3});
    state.epochs[0].positions.add({.first = batch * 10 + 6, .end = batch * 10 + 8});
  }
  state.epochs[0].positions.add(68);
  EXPECT_EQ(state.text(),
            "leat-state/1 samples=1000 batch_size=10 seed=0 order=shuffled last_batch=partial "
            "ranks=0-3/4 epoch=3 batches=- positions=8@6;0,2/4@7-99 sum=f69aad46");
  EXPECT_EQ(State::parse(state.text()), state);
}

// What a short text may stand for is bounded over all of it.
TEST(State, ManyShortSetsAreMoreThanMemoryHolds) {
  const std::string begin =
      "leat-state/1 samples=40000000 batch_size=2 seed=1 order=shuffled last_batch=drop "
      "ranks=0-0/1";
  const std::string some = " epoch=0 batches=- positions=0@0-9999";
  EXPECT_NO_THROW(static_cast<void>(State::parse(with_sum(begin + some))));
  for (const char* const rest :
       {" epoch=1 batches=- positions=0@0-16777215",  // which alone are as many as there may be
        " epoch=1-2000 batches=- positions=0@0-9999", " epoch=1-10000000 batches=- positions=-"}) {
    EXPECT_THROW(static_cast<void>(State::parse(with_sum(begin + some + rest))), Error) << rest;
  }
}

// Were each shifted, this would take minutes.
TEST(State, AListInAnyOrderIsRead) {
  std::string text =
      "leat-state/1 samples=1000000000 batch_size=1 seed=1 order=shuffled "
      "last_batch=drop ranks=0-0/1 epoch=0 batches=";
  for (std::uint64_t batch = 1'000'000; batch > 0; --batch) text += std::to_string(2 * batch) + ",";
  text += "0 positions=-";
  EXPECT_EQ(State::parse(with_sum(text)).epochs[0].batches.count(), 1'000'001U);
}

TEST(State, EpochsThatAreAlikeAreToldOnce) {
  State state{.samples = 100, .batch_size = 10, .epochs = {}};
  for (std::uint64_t epoch = 3; epoch < 1'003; ++epoch) {
    state.epochs.push_back({.epoch = epoch, .batches = set_of({{0, 10}}), .positions = {}});
  }
  state.epochs[0].batches = set_of({{0, 9}});
  state.epochs.push_back({.epoch = 1'004, .batches = set_of({{0, 10}}), .positions = {}});
  EXPECT_EQ(state.text(),
            "leat-state/1 samples=100 batch_size=10 seed=0 order=shuffled last_batch=partial "
            "ranks=0-0/1 epoch=3 batches=0-8 positions=- epoch=4-1002 batches=0-9 positions=- "
            "epoch=1004 batches=0-9 positions=- sum=746b6c58");
  EXPECT_EQ(State::parse(state.text()), state);
}

// 64 ranks, anywhere in each of two epochs.
TEST(State, OfManyRanksInSeveralEpochsIsOfPartsAlone) {
  std::mt19937 random(3);
  std::vector<State> states;
  for (std::size_t rank = 0; rank < 64; ++rank) {
    State& state = states.emplace_back();
    state = {.samples = 100'000'000,
             .batch_size = 1'000,
             .rank = rank,
             .world_size = 64,
             .epochs = {{.epoch = 12 + rank % 2}}};
    state.epochs[0].batches.add({.first = 0, .end = random() % 1'000});
  }
  const State merged = State::merge(states);
  EXPECT_LE(merged.text().size(), 2'500U);
  EXPECT_EQ(State::parse(merged.text()), merged);
}

// 256 leases, given back in the worst order; and 32 devices out of step.
TEST(State, IsAFewHundredBytesAtWorst) {
  State state{.samples = 100'000'000, .batch_size = 512, .seed = 1, .epochs = {{.epoch = 12}}};
  state.epochs[0].batches.add({.first = 0, .end = 150'000});
  for (std::uint64_t batch = 150'001; batch < 150'513; batch += 2)
    state.epochs[0].batches.add(batch);
  EXPECT_LE(state.text().size(), 300U);

  State ranks{
      .samples = 100'000'000, .batch_size = 512, .world_size = 32, .epochs = {{.epoch = 12}}};
  ranks.ranks = 32;
  std::mt19937 random(5);
  IntervalSet& positions = ranks.epochs[0].positions;
  ranks.epochs[0].batches.add({.first = 0, .end = 150'000});
  for (std::uint64_t rank = 0; rank < 32; ++rank) {
    const std::uint64_t ahead = rank == 0 ? 0 : random() % 9;
    for (std::uint64_t batch = 150'000; batch < 150'000 + ahead; ++batch) {
      const std::uint64_t first = batch * 512 + rank * 16;
      positions.add({.first = first, .end = first + 16});
    }
  }
  EXPECT_GT(positions.intervals().size(), 40U);
  EXPECT_LE(ranks.text().size(), 300U);
  EXPECT_EQ(State::parse(ranks.text()), ranks);
}

// The sum keeps accidents out; this is made on purpose.
TEST(State, WhatNoRunCanHaveReleasedIsRefused) {
  const State good{.samples = 100, .batch_size = 10, .epochs = {}};
  const auto epoch = [](std::uint64_t number, Interval batches, Interval positions) {
    EpochReleases one{.epoch = number, .batches = {}, .positions = {}};
    one.batches.add(batches);
    one.positions.add(positions);
    return one;
  };
  const auto refused = [&](std::vector<EpochReleases> epochs) {
    State state = good;
    state.epochs = std::move(epochs);
    EXPECT_THROW(static_cast<void>(State::parse(state.text())), Error) << state.text();
  };
  State state = good;
  state.epochs = {epoch(1, {0, 9}, {90, 100}), epoch(2, {0, 10}, {0, 0})};
  EXPECT_EQ(State::parse(state.text()), state);
  constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  refused({epoch(1, {0, 11}, {0, 0})});
  refused({epoch(1, {0, kEnd}, {0, 0})});
  refused({epoch(1, {0, 1}, {10, 101})});
  refused({epoch(1, {0, 1}, {10, kEnd})});
  refused({epoch(1, {0, 1}, {0, 0}), epoch(1, {0, 1}, {0, 0})});
  refused({epoch(2, {0, 1}, {0, 0}), epoch(1, {0, 1}, {0, 0})});
  EpochReleases one = epoch(1, {0, 1}, {0, 0});
  one.before.add({.first = 10, .end = 101});
  refused({one});
}

}  // namespace state_text_test
}  // namespace leat::feeder
