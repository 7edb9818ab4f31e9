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
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
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

TEST(State, ItsTextIsJsonOnOneLine) {
  EXPECT_EQ(kState.text(),
            R"({"leat_state":2,"samples":60000,"batch_size":64,"seed":1,"order":"shuffled",)"
            R"("last_batch":"wrap","rank":1,"ranks":2,"world_size":4,"epochs":[)"
            R"({"epoch":3,"batches":[[0,12],[13,14]],"positions":[[768,784]]},)"
            R"({"epoch":4,"batches":[],"positions":[]}],"sum":"4f46b37e"})");
  EXPECT_EQ(State::parse(kState.text()), kState);
  EXPECT_EQ(State::parse(kState.text() + "\n"), kState);
  const State fresh{.samples = 1, .batch_size = 1, .epochs = {}};
  EXPECT_EQ(State::parse(fresh.text()), fresh);
  EXPECT_EQ(fresh.next_epoch(), 0U);
  EXPECT_EQ(kState.next_epoch(), 3U);
}

TEST(State, TheTextOfPackedRanksThatAreToBeMergedHasAllKeys) {
  State state{.samples = 60, .elements = 100, .batch_size = 10, .world_size = 2, .epochs = {}};
  state.epochs.push_back({.epoch = 1,
                          .batches = set_of({{0, 2}}),
                          .positions = set_of({{20, 25}}),
                          .before = set_of({{20, 22}}),
                          .carry = Carry{.element = 9, .position = 5, .offset = 3}});
  EXPECT_EQ(state.text(),
            R"({"leat_state":2,"samples":60,"elements":100,"batch_size":10,"seed":0,)"
            R"("order":"shuffled","last_batch":"partial","rank":0,"ranks":1,"world_size":2,)"
            R"("epochs":[{"epoch":1,"batches":[[0,2]],"positions":[[20,25]],"before":[[20,22]],)"
            R"("carry":[9,5,3]}],"sum":"b35dc1c4"})");
  EXPECT_EQ(State::parse(state.text()), state);
}

TEST(State, ItsTextKnowsTheDatasetWhereThatIsKnown) {
  const State state{
      .samples = 60, .dataset = ~std::uint64_t{0}, .elements = 9, .batch_size = 10, .epochs = {}};
  EXPECT_EQ(state.text(),
            R"({"leat_state":2,"samples":60,"dataset":18446744073709551615,"elements":9,)"
            R"("batch_size":10,"seed":0,"order":"shuffled","last_batch":"partial","rank":0,)"
            R"("ranks":1,"world_size":1,"epochs":[],"sum":"e7ec7132"})");
  EXPECT_EQ(State::parse(state.text()), state);
  std::vector<State> ranks(2, state);
  for (State& one : ranks) one.world_size = 2;
  ranks[1].rank = 1;
  EXPECT_EQ(State::merge(ranks).dataset, state.dataset);
  ranks[1].dataset = 7;
  try {
    static_cast<void>(State::merge(ranks));
    ADD_FAILURE() << "states of two datasets";
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("differ in the dataset's files"), std::string::npos);
  }
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

// `body` is all of a text before its sum.
std::string with_sum(const std::string& body) {
  std::uint32_t sum = 2166136261U;
  for (const char c : body) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  char hex[9];
  std::snprintf(hex, sizeof hex, "%08x", sum);
  return body + R"(,"sum":")" + hex + "\"}";
}

void expect_refused(const std::string& text, const std::string& why) {
  try {
    static_cast<void>(State::parse(text));
    ADD_FAILURE() << text.substr(0, 1'000) << " was accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("this is no state of a prefetcher: at "),
              std::string::npos)
        << e.what();
    EXPECT_LT(std::string(e.what()).size(), 400U);
  }
}

const std::string kBegin =
    R"({"leat_state":2,"samples":60,"batch_size":4,"seed":1,"order":"shuffled",)"
    R"("last_batch":"drop","rank":0,"ranks":1,"world_size":1,"epochs":[)";

// kBegin, where `from` is replaced.
std::string begin_with(const std::string& from, const std::string& to) {
  std::string text = kBegin;
  return text.replace(text.find(from), from.size(), to);
}

// A file of zeros, as a machine that loses its power leaves it.
TEST(State, ATextOfControlCharactersIsShownWhole) {
  expect_refused(std::string(1'000, '\0'), "begins with " + std::string(16, '?') + ", not {");
  expect_refused("\x1b[2J\r\a", "begins with ?[2J??, not {");
}

TEST(State, ATextThatMakesNoSenseIsRefusedAndItsPlaceNamed) {
  const auto refused = [](const std::string& body, const std::string& why) {
    expect_refused(with_sum(body), why);
  };
  const auto refused_head = [&](const std::string& from, const std::string& to,
                                const std::string& why) {
    refused(begin_with(from, to) + "]", why);
  };
  const auto epoch = [](const std::string& batches, const std::string& positions = "") {
    return R"({"epoch":1,"batches":[)" + batches + R"(],"positions":[)" + positions + "]";
  };
  EXPECT_NO_THROW(static_cast<void>(State::parse(with_sum(kBegin + "]"))));
  for (const std::string& most : {epoch("[0,15]"), epoch("[0,14]", "[56,60]")}) {
    EXPECT_NO_THROW(static_cast<void>(State::parse(with_sum(kBegin + most + "}]"))));
  }
  refused_head(":60", R"(:"many")", R"(at /samples, "many" is no whole number of 64 bits)");
  refused_head(":60", ":18446744073709551616", "at /samples, ");
  refused_head(":60", ":-1", "at /samples, -1 is no whole number");
  refused_head(":60", ":60.0", "at /samples, 60.0 is no whole number");
  refused_head(":60", ":6e1", "at /samples, 60.0 is no whole number");
  refused_head(":60", ":1e999", "a number is no whole number of 64 bits");
  refused_head(":60", ":null", "at /samples, null is no whole number");
  refused_head(":60", ":[60]", "at /samples, [60] is no whole number");
  refused_head(":60", ":", "at byte 26, it is no JSON");
  refused_head(R"("samples":60,)", "", R"(at the top, expected "samples")");
  refused_head(R"("seed":1)", R"("sowed":1)", R"(at the top, expected "seed")");
  refused_head("shuffled", "shaken", R"(at /order, "shaken" is no order)");
  refused_head("shuffled", "shuff\xff", "it is no JSON");
  refused_head("drop", "lose", R"(at /last_batch, "lose" is no last_batch)");
  refused_head(R"("ranks":1)", R"("ranks":0)", "make no sense");
  refused_head(R"("ranks":1)", R"("ranks":2)", "make no sense");
  refused_head(R"("rank":0)", R"("rank":1)", "make no sense");
  refused_head(R"("rank":0)", R"("rank":18446744073709551615)", "make no sense");
  refused_head(R"("batch_size":4)", R"("batch_size":0)", "make no sense");
  refused_head(R"("world_size":1)", R"("world_size":1048577)", "make no sense");
  refused_head(R"("epochs":[)", R"("epochs":[0)", "at /epochs/0, 0 is no object");
  refused(begin_with(R"("epochs":[)", R"("epochs":{})"), "at /epochs, {} is no array");
  refused(kBegin + R"({"epoch":1}])", R"(at /epochs/0, expected "batches")");
  refused(kBegin + epoch("3") + "}]", "at /epochs/0/batches/0, 3 is no interval");
  refused(kBegin + epoch("[0,1],[3,2]") + "}]", "at /epochs/0/batches/1, [3,2] is no interval");
  refused(kBegin + epoch("[3,3]") + "}]", "[3,3] is no interval");
  refused(kBegin + epoch("[3]") + "}]", "[3] is no interval");
  refused(kBegin + epoch("[3,4,5]") + "}]", "[3,4,5] is no interval");
  refused(kBegin + epoch("[3,4.0]") + "}]", "[3,4.0] is no interval");
  refused(kBegin + epoch("[-1,4]") + "}]", "[-1,4] is no interval");
  refused(kBegin + epoch("[0,18446744073709551616]") + "}]", "is no interval");
  refused(kBegin + epoch("[[0,1]]") + "}]", "array is no interval");
  refused(kBegin + epoch("[0,16]") + "}]", "there is something that epoch 1 does not have");
  refused(kBegin + epoch("[0,18446744073709551615]") + "}]", "does not have");
  refused(kBegin + epoch("", "[59,61]") + "}]", "does not have");
  refused(kBegin + epoch("", "[59,18446744073709551615]") + "}]", "does not have");
  refused(begin_with("drop", "partial") + epoch("", "[59,61]") + "}]", "does not have");
  refused(kBegin + epoch("") + R"(,"before":[[59,61]]}])", "does not have");
  refused(kBegin + R"({"epoch":18446744073709551615,"batches":[],"positions":[]}])",
          "there is no epoch 18446744073709551615");
  refused(kBegin + epoch("") + "}," + epoch("") + "}]", "at /epochs/1, epoch 1 follows 1");
  const std::string second = R"({"epoch":2,"batches":[],"positions":[]},)";
  refused(kBegin + second + epoch("") + "}]", "at /epochs/1, epoch 1 follows 2");
  const std::string carry = epoch("") + R"(,"carry":[)";
  refused(kBegin + carry + "0,0,0]}]", "does not have that carry");  // it is not packed
  const std::string packed = begin_with(":60", R"(:60,"elements":100)");
  EXPECT_NO_THROW(static_cast<void>(State::parse(with_sum(packed + carry + "100,60,0]}]"))));
  refused(packed + carry + "101,60,0]}]", "does not have that carry");
  refused(packed + carry + "100,61,0]}]", "does not have that carry");
  refused(packed + carry + "100,60]}]", "at /epochs/0/carry, [100,60] is no carry");
}

// A state has one text. What JSON takes for the same, or overlooks, is another text.
TEST(State, ATextThatItWouldNotWriteIsRefused) {
  const auto refused = [](const std::string& body, std::size_t byte) {
    expect_refused(with_sum(body), "at byte " + std::to_string(byte) + ", it is not written as");
  };
  const std::string twice = R"("samples":60,"samples":60)";
  refused(begin_with(R"("samples":60)", twice) + "]", kBegin.find("batch_size"));
  refused(begin_with(R"("seed":1)", R"("seed":1,"hue":1)") + "]", kBegin.find("order"));
  refused(begin_with(":60", ": 60") + "]", kBegin.find("60"));
  refused(begin_with(R"("rank":0,"ranks":1)", R"("ranks":1,"rank":0)") + "]",
          kBegin.find(R"("rank":)") + 5);
  const std::string epoch = R"({"epoch":1,"batches":[)";
  const std::string end = R"(],"positions":[]}])";
  const std::size_t at = kBegin.size() + epoch.size();
  refused(kBegin + epoch + "[4,5],[0,1]" + end, at + 1);
  refused(kBegin + epoch + "[0,1],[1,2]" + end, at + 3);
  refused(kBegin + epoch + "[0,3],[1,2]" + end, at + 5);
}

TEST(State, ATextOfAnotherVersionIsRefusedAndTheVersionNamed) {
  expect_refused(
      "leat-state/1 samples=60000 batch_size=64 seed=1 order=shuffled last_batch=wrap "
      "ranks=1-2/4 epoch=3 batches=0-11,13 positions=768-783 epoch=4 batches=- positions=- "
      "sum=a3f6fa90",
      "\"leat-state/1\": a Leat before 0.1.0 wrote it");
  for (const std::string version : {"3", "20", "1"}) {
    try {
      static_cast<void>(State::parse(with_sum(begin_with("2", version) + "]")));
      ADD_FAILURE() << "version " << version;
    } catch (const Error& e) {
      EXPECT_EQ(e.what(), "leat: this state has version " + version +
                              " of the format, and this Leat reads version 2: another Leat, most "
                              "likely " +
                              (version == "1" ? "an older" : "a newer") +
                              " one, wrote it; resume with that Leat");
    }
  }
  expect_refused(R"({"leat_state":2})", "at byte 0, it begins with");
  expect_refused(R"({"leat_state":3)", "at byte 0, it begins with");
  expect_refused("", "at byte 0, it is empty");
  expect_refused("\xff\xfe\x01", "at byte 0, it begins with ???, not");
}

// A text that is made to exhaust the stack or the memory: here on the small stack of a fiber.
TEST(State, DeepOrHugeJsonIsRefused) {
  constexpr std::size_t kMuch = 200'000;
  const std::string deep = std::string(kMuch, '[');
  const std::string closed = deep + std::string(kMuch, ']');
  std::string many = "[]";
  for (std::size_t i = 0; i < kMuch; ++i) many += ",[]";
  run([&] {
    TaskGroup group;
    group.go([&] {
      expect_refused(with_sum(kBegin + deep), "it is no JSON");
      expect_refused(with_sum(kBegin + closed + "]"), "at /epochs/0, array is no object");
      expect_refused(with_sum(begin_with(":60", ":" + closed) + "]"), "at /samples, array is no");
      expect_refused(with_sum(kBegin + many + "]"), "at /epochs/0, [] is no object");
      expect_refused(with_sum(begin_with(":60", ":" + std::string(kMuch, '9')) + "]"), "number");
      expect_refused(with_sum(begin_with("shuffled", std::string(kMuch, 'x')) + "]"),
                     "is no order");
      expect_refused(std::string(kMuch, 'x'), "it begins with");
      expect_refused(kBegin + std::string(kMuch, ' '), "it is cut off: there is no sum");
    });
    group.wait();
  });
}

TEST(State, EverySetComesBack) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3'000; ++round) {
    State state{.samples = ~std::uint64_t{0} - 1, .batch_size = 1, .epochs = {{.epoch = 0}}};
    const std::uint64_t unit = random() % 4 == 0 ? 1 : 1 + random() % 40;
    const std::uint64_t from = random() % 3 == 0 ? 0 : random() % (1ULL << random() % 60);
    EpochReleases& epoch = state.epochs[0];
    for (IntervalSet* set : {&epoch.batches, &epoch.positions, &epoch.before}) {
      const std::uint64_t pieces = random() % 60;
      for (std::uint64_t i = 0; i < pieces; ++i) {
        const std::uint64_t first = from + random() % 200 * unit;
        set->add({.first = first, .end = first + unit * (1 + random() % 3)});
      }
      if (random() % 5 == 0) set->add(random() % 1000);
    }
    const std::string text = state.text();
    ASSERT_EQ(State::parse(text), state) << text;
  }
}

// Ranks that run independently of each other: each of 8 ranks somewhere else in an epoch of 20,000
// batches, some through with it, some at its beginning.
TEST(State, OfRanksThatAreFarApartListsEveryInterval) {
  std::vector<State> states;
  for (std::size_t rank = 0; rank < 8; ++rank) {
    State& state = states.emplace_back();
    state = {.samples = 10'240'000,
             .batch_size = 512,
             .rank = rank,
             .world_size = 8,
             .epochs = {{.epoch = rank == 7 ? 13U : 12U}}};
    state.epochs[0].batches.add({.first = 0, .end = 1 + rank * 4'201 % 20'000});
  }
  const State merged = State::merge(states);
  ASSERT_EQ(merged.epochs.size(), 2U);
  std::size_t intervals = 0;
  for (const EpochReleases& one : merged.epochs) intervals += one.positions.intervals().size();
  EXPECT_GT(intervals, 40'000U);
  EXPECT_LE(merged.text().size(), 20 * intervals + 300);
  EXPECT_EQ(State::parse(merged.text()), merged);
}

// With the largest numbers that there are: leat.h says how large a buffer has to be.
TEST(State, OfARankInOrderHasAtMost450Bytes) {
  const std::uint64_t most = ~std::uint64_t{0};
  State state{.samples = most,
              .dataset = most,
              .elements = most,
              .batch_size = 1,
              .seed = most,
              .order = Order::kSequential,
              .rank = kMostRanks - 1,
              .world_size = kMostRanks,
              .epochs = {{.epoch = kLastEpoch}}};
  state.epochs[0].batches.add({.first = 0, .end = most});
  state.epochs[0].carry = Carry{.element = most, .position = most, .offset = most};
  EXPECT_LT(state.text().size() + std::to_string(most).size(), 450U);  // of batch_size
  EXPECT_EQ(State::parse(state.text()), state);
}

// What state.h says of the size: 256 leases released in the worst order; 64 ranks out of step.
TEST(State, IsAFewThousandBytesWhereRanksAndLeasesAreOutOfOrder) {
  State state{.samples = 100'000'000, .batch_size = 512, .seed = 1, .epochs = {{.epoch = 12}}};
  EXPECT_LE(state.text().size(), 210U);
  state.epochs[0].batches.add({.first = 0, .end = 150'000});
  for (std::uint64_t batch = 150'001; batch < 150'513; batch += 2)
    state.epochs[0].batches.add(batch);
  EXPECT_LE(state.text().size(), 4'400U);

  State ranks{
      .samples = 100'000'000, .batch_size = 512, .world_size = 64, .epochs = {{.epoch = 12}}};
  ranks.ranks = 64;
  std::mt19937 random(5);
  IntervalSet& positions = ranks.epochs[0].positions;
  ranks.epochs[0].batches.add({.first = 0, .end = 150'000});
  for (std::uint64_t rank = 0; rank < 64; ++rank) {
    const std::uint64_t ahead = rank == 0 ? 0 : random() % 9;
    for (std::uint64_t batch = 150'000; batch < 150'000 + ahead; ++batch) {
      const std::uint64_t first = batch * 512 + rank * 8;
      positions.add({.first = first, .end = first + 8});
    }
  }
  EXPECT_GT(positions.intervals().size(), 100U);
  EXPECT_LE(ranks.text().size(), 5'000U);
  EXPECT_EQ(State::parse(ranks.text()), ranks);
}

}  // namespace state_text_test
}  // namespace leat::feeder
