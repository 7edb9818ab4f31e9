// The order of mixtures and of weighted draws is that of a model in another language. It must never
// change: a run that resumes relies on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

#include "leat/csp/error.h"
#include "leat/feeder/compose.h"
#include "tests/feeder/compose/composed.h"

namespace leat::feeder {
namespace mixture_test {

using Stages = std::vector<MixtureStage>;

// "A1 B0 ...": the parts and samples of an epoch, as the reads see them.
std::string parts_of_epoch(const Dataset& mixture, std::uint64_t seed, std::uint64_t epoch) {
  std::string text;
  for (const std::int64_t value : values_of(mixture, seed, epoch)) {
    text += (text.empty() ? "" : " ") + std::string(1, static_cast<char>('A' + value / 100)) +
            std::to_string(value % 100);
  }
  return text;
}

class ModelMixture : public testing::Test {
 protected:
  const Values a{3, 0, "a"};
  const Values b{5, 100, "b"};
  const Values c{2, 200, "c"};
};

TEST_F(ModelMixture, EpochsAreThoseOfTheModel) {
  const Mixture mixture({{a, .5}, {b, .3}, {c, .2}}, {.samples = 10});
  EXPECT_EQ(parts_of_epoch(mixture, 1, 0), "A1 B0 A2 C0 A0 B1 A1 C1 A0 B4");
  EXPECT_EQ(parts_of_epoch(mixture, 1, 1), "A2 B2 A1 C0 A0 B3 A2 C1 A1 B4");
  EXPECT_EQ(parts_of_epoch(mixture, 1, 2), "A2 B3 A0 C1 A0 B2 A2 C0 A1 B0");
  EXPECT_EQ(parts_of_epoch(mixture, 1, 3), "A0 B1 A2 C0 A1 B3 A1 C1 A2 B2");
}

TEST_F(ModelMixture, StagesGoOnWithThePassesOfTheStagesBefore) {
  const auto expect_model = [](const Mixture& mixture) {
    EXPECT_EQ(parts_of_epoch(mixture, 1, 1), "A2 B2 A1 C0 A0 B3 A2 C1 A1 B4");
    EXPECT_EQ(parts_of_epoch(mixture, 1, 2), "C1 B3 A2 C0 C0 C1 B2 A0 C0 C1");
    EXPECT_EQ(parts_of_epoch(mixture, 1, 3), "C1 B0 A0 C0 C0 C1 B1 A2 C0 C1");
  };
  expect_model(
      Mixture({{a, .5}, {b, .3}, {c, .2}}, {.samples = 10, .stages = {{2, {.2, .2, .6}}}}));
  expect_model(
      Mixture({{a}, {b}, {c}}, {.samples = 10, .stages = {{0, {.5, .3, .2}}, {2, {.2, .2, .6}}}}));
}

TEST_F(ModelMixture, ByDefaultEachSampleComesOnceAnEpoch) {
  const Mixture mixture({{a}, {b}, {c}});
  EXPECT_EQ(parts_of_epoch(mixture, 1, 0), "B0 A1 C0 B1 A2 B4 B2 C1 A0 B3");
  EXPECT_EQ(parts_of_epoch(mixture, 1, 1), "B4 A1 C0 B3 A0 B2 B0 C1 A2 B1");
}

TEST_F(ModelMixture, WithoutShuffleEachPassIsInTheOrderOfTheNumbers) {
  const Mixture mixture({{a, .5}, {b, .3}, {c, .2}}, {.samples = 10, .shuffle = false});
  EXPECT_EQ(parts_of_epoch(mixture, 1, 1), "A2 B3 A0 C0 A1 B4 A2 C1 A0 B0");
  EXPECT_EQ(parts_of_epoch(mixture, 2, 1), "A2 B3 A0 C0 A1 B4 A2 C1 A0 B0");
}

TEST(Mixture, TheLargestPartsAndEpochsAreThoseOfTheModel) {
  const Values a((std::uint64_t{1} << 62) + 7);
  const Values b(3);
  const Values c(std::uint64_t{1} << 63);
  const std::uint64_t last = (std::uint64_t{1} << 63) + 12344;
  const Mixture mixture({{a}, {b}, {c}},
                        {.samples = last + 1, .stages = {{0, {.5, .3, .2}}, {2, {.2, .2, .6}}}});
  const auto expect = [&](std::uint64_t epoch, std::uint64_t index, std::size_t part,
                          std::uint64_t number, std::uint64_t pass) {
    const Mixture::Place place = mixture.at(index, 1, epoch);
    EXPECT_EQ(place.part, part) << epoch << " " << index;
    EXPECT_EQ(place.number, number) << epoch << " " << index;
    EXPECT_EQ(place.pass, pass) << epoch << " " << index;
  };
  expect(0, 1, 0, 2415960093294281601U, 0);
  expect(0, std::uint64_t{1} << 62, 1, 1, 461168601842738858U);
  expect(1, 1, 0, 4062147525274230353U, 1);
  expect(1, last, 1, 0, 1844674407370957903U);
  expect(2, 12345, 2, 8210397973845589898U, 0);
  expect(2, last, 2, 8311386783854061727U, 1);
  expect(1000, std::uint64_t{1} << 62, 1, 0, 7071251894922750784U);
  expect(1000, last, 2, 6341829076085461680U, 599);
  expect(18446744073709551613U, 1, 2, 2725270621176774349U, 11068046444225746599U);
  expect(18446744073709551613U, std::uint64_t{1} << 62, 1, 0, 5226577487551038558U);
}

// The promise of passes, for mixtures of any weights, sizes and stages.
TEST(Mixture, APartIsPassedThroughCompletelyBeforeItBeginsAgain) {
  std::mt19937_64 random(2);
  const auto weights_for = [&](std::size_t parts) {
    std::vector<double> weights;
    for (std::size_t k = 0; k < parts; ++k) {
      weights.push_back(.05 + static_cast<double>(random() % 1000) / 1000);
    }
    return weights;
  };
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const std::size_t parts = 1 + random() % 6;
    std::deque<Values> data;
    for (std::size_t k = 0; k < parts; ++k) data.emplace_back(1 + random() % 30);
    Stages stages = {{0, weights_for(parts)}};
    if (round % 2 == 0) stages.push_back({2, weights_for(parts)});
    std::vector<MixturePart> list(data.begin(), data.end());
    const Mixture mixture(list, {.samples = 40 * parts + random() % 20, .stages = stages});
    std::vector<std::vector<std::uint64_t>> visits;
    for (const Values& one : data) visits.emplace_back(one.size());
    std::vector<std::uint64_t> all(parts);
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
      for (std::uint64_t i = 0; i < mixture.size(); ++i) {
        const Mixture::Place place = mixture.at(i, static_cast<std::uint64_t>(round), epoch);
        ASSERT_EQ(place.pass, all[place.part] / data[place.part].size());
        ASSERT_EQ(visits[place.part][place.number]++, place.pass) << "once in each pass";
        ++all[place.part];
      }
    }
  }
}

TEST(Mixture, WithoutWeightsAndSamplesEachEpochHasEachSampleOnceAtAnySize) {
  const Values a(std::uint64_t{1} << 62);
  const Values b((std::uint64_t{1} << 61) + 1);  // too many bits for a double
  const Mixture mixture({{a}, {b}});
  EXPECT_EQ(mixture.size(), a.size() + b.size());
  EXPECT_EQ(mixture.at(0, 1, 1).pass, 1U);
  EXPECT_EQ(mixture.at(mixture.size() - 1, 1, 0).pass, 0U);
  EXPECT_EQ(mixture.at(mixture.size() - 1, 1, 1).pass, 1U);
}

TEST(Mixture, AStageThatIsAppendedChangesNothingBeforeIt) {
  const Values a(7);
  const Values b(11, 100);
  const MixtureOptions before = {.samples = 12, .stages = {{2, {1, 3}}}};
  MixtureOptions after = before;
  after.stages.push_back({4, {5, 1}});
  const Mixture shorter({{a, 1}, {b, 1}}, before);
  const Mixture longer({{a, 1}, {b, 1}}, after);
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(values_of(longer, 3, epoch), values_of(shorter, 3, epoch));
  }
  EXPECT_NE(values_of(longer, 3, 4), values_of(shorter, 3, 4));
}

TEST(Mixture, ReadsAndHintsOfAPartHaveTheRunsSeedAndEpoch) {
  Values a(1);
  a.on_read = [](std::uint64_t, Sample& out) {
    EXPECT_EQ(out.seed(), 5U);
    EXPECT_EQ(out.epoch(), 6U);
    EXPECT_EQ(out.random()(), Random(5, 6, 3)());
  };
  const Mixture mixture({{a, 1}}, {.samples = 4});
  EXPECT_EQ(value_of(mixture, 3, 5, 6), 0);
  mixture.will_read(3, 5, 6);
  EXPECT_EQ(a.hint(), (Values::Hint{0, 5, 6}));
  EXPECT_EQ(mixture.announce(3, 7, 8), 100U);
  EXPECT_EQ(a.hint(), (Values::Hint{0, 7, 8}));
}

// What varies by epoch is read as if each pass were an epoch: else two passes in one epoch would
// have the same samples.
TEST(Mixture, AMixtureOfAMixtureKeepsItsOrderAndItsPasses) {
  const Values a(3);
  const Values b(4, 100);
  const Values c(5, 200);
  const Mixture inner({{a, 1}, {b, 2}}, {.samples = 6});
  const Mixture outer({{inner, 3}, {c, 1}}, {.samples = 16});  // inner: 12 an epoch
  std::vector<std::int64_t> of_inner;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    for (const std::int64_t value : values_of(outer, 9, epoch)) {
      if (value < 200) of_inner.push_back(value);
    }
  }
  std::vector<std::int64_t> alone;
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
    const auto values = values_of(inner, 9, epoch);
    alone.insert(alone.end(), values.begin(), values.end());
  }
  EXPECT_EQ(of_inner, alone);
}

TEST(Mixture, NamesPartAndNumberOfASample) {
  const Values a(3, 0, "a");
  const Values b(4, 100, "photos");
  const Mixture mixture({{a, 1}, {b, 1}}, {.samples = 8});
  const Mixture::Place place = mixture.at(1, 2, 3);
  ASSERT_EQ(place.part, 1U);
  EXPECT_EQ(mixture.origin(1, 2, 3),
            "number " + std::to_string(place.number) + " of part 1, \"photos\"");
}

TEST(Mixture, WhatCannotBeMixedIsRefused) {
  const Values a(3, 0, "a");
  const Values b(5, 0, "b");
  const Values none(0, 0, "none");
  const auto expect_refused = [](const std::vector<MixturePart>& parts,
                                 const MixtureOptions& options,
                                 std::initializer_list<std::string_view> texts) {
    expect_throws<std::invalid_argument>([&] { const Mixture mixture(parts, options); }, texts);
  };
  expect_refused({}, {}, {"leat: Mixture: no dataset is given"});
  expect_refused({{a, std::nan("")}, {b, 1}}, {}, {"weight 0 is nan"});
  expect_refused({{a, 1}, {b, -1}}, {}, {"weight 1 is -1"});
  expect_refused({{a, 1}, {b, std::numeric_limits<double>::infinity()}}, {}, {"weight 1 is inf"});
  expect_refused({{a, 0}, {b, 0}}, {}, {"no weight is above 0"});
  expect_refused({{none}, {none}}, {}, {"no weight is above 0", "all parts are empty"});
  expect_refused({{a, 1}, {b}}, {}, {"part 1, \"b\", has no weight, and others have one"});
  expect_refused({{a}, {b, 1}}, {}, {"part 0, \"a\", has no weight, and others have one"});
  expect_refused(
      {{a, .999}, {b, .001}}, {.samples = 10},
      {"weight 0.001", "of part 1, \"b\"", "gives no sample in an epoch of 10", "raise `samples`"});
  expect_refused({{a, 1}, {b, 1e-9}}, {}, {"weight 1e-09 of part 1"});
  expect_refused({{a, 1}, {none, 1}}, {}, {"part 1, \"none\"", "the part has no samples"});
  expect_refused({{a, 1}}, {.samples = 0}, {"`samples` is 0"});
  expect_refused({{a, 1}, {b, 1}}, {.stages = {{3, {1}}}}, {"stage 0", "1 weights for 2 parts"});
  expect_refused({{a, 1}}, {.stages = {{3, {1}}, {3, {2}}}},
                 {"stage 1 of `stages` begins with epoch 3", "ascend"});
  expect_refused({{a, 1}}, {.stages = {{0, {1}}}}, {"the parts have weights, and `stages`"});
  expect_refused({{a, 1}, {b, 1}}, {.samples = 4, .stages = {{3, {1, .01}}}},
                 {"weight 0.01", "part 1, \"b\", from epoch 3 on", "no sample"});
  const Mixture with_an_empty_part({{a, 1}, {none, 0}}, {.samples = 5});
  EXPECT_EQ(with_an_empty_part.at(4, 0, 0).part, 0U);
}

TEST(Weighted, SystematicDrawsAreThoseOfTheModel) {
  const Values four(4);
  const std::vector<double> weights = {1, 2, 3, 4};
  const Weighted drawn(four, weights, {.samples = 10});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(values_of(drawn, 1, epoch),
              (std::vector<std::int64_t>{0, 1, 1, 2, 2, 2, 3, 3, 3, 3}));
  }
  const Values five(5);
  const std::vector<double> one_is_heavy = {1, 1, 1, 1, 6};
  const Weighted seven(five, one_is_heavy, {.samples = 7});
  EXPECT_EQ(values_of(seven, 1, 0), (std::vector<std::int64_t>{0, 1, 3, 4, 4, 4, 4}));
  EXPECT_EQ(values_of(seven, 1, 1), (std::vector<std::int64_t>{1, 2, 4, 4, 4, 4, 4}));
  EXPECT_EQ(values_of(seven, 1, 2), (std::vector<std::int64_t>{0, 2, 3, 4, 4, 4, 4}));
  const Weighted huge(five, one_is_heavy, {.samples = (std::uint64_t{1} << 63) + 1});
  EXPECT_EQ(huge.at(0, 1, 1), 0U);
  EXPECT_EQ(huge.at(std::uint64_t{1} << 62, 1, 1), 4U);
}

TEST(Weighted, DrawsWithReplacementAreThoseOfTheModel) {
  const Values four(4);
  const std::vector<double> weights = {1, 2, 3, 4};
  const Weighted drawn(four, weights, {.samples = 10, .replacement = true});
  EXPECT_EQ(values_of(drawn, 1, 0), (std::vector<std::int64_t>{1, 3, 0, 2, 3, 3, 3, 3, 3, 3}));
  EXPECT_EQ(values_of(drawn, 1, 1), (std::vector<std::int64_t>{3, 3, 3, 1, 2, 3, 1, 1, 0, 0}));
}

TEST(Weighted, EqualWeightsTakeEachSampleOnce) {
  const Values thousand(1000);
  const std::vector<double> weights(1000, 1.0);
  const auto different = [&](bool replacement) {
    const auto values = values_of(Weighted(thousand, weights, {.replacement = replacement}), 1);
    return std::set<std::int64_t>(values.begin(), values.end()).size();
  };
  EXPECT_EQ(different(false), 1000U);
  EXPECT_EQ(different(true), 637U) << "as the model";
}

TEST(Weighted, ASampleOfWeightZeroNeverComes) {
  const Values from(4);
  const std::vector<double> weights = {0, 1, 0, 0};
  for (const bool replacement : {false, true}) {
    const Weighted drawn(from, weights, {.samples = 50, .replacement = replacement});
    EXPECT_EQ(values_of(drawn, 3), std::vector<std::int64_t>(50, 1));
  }
}

TEST(Weighted, HintsNumbersAndOriginAreOfTheSampleDrawn) {
  const Values from(4);
  const std::vector<double> weights = {0, 0, 1, 0};
  const Weighted drawn(from, weights);
  EXPECT_EQ(drawn.name(), "values, weighted");
  EXPECT_EQ(drawn.announce(1, 5, 6), 102U);
  EXPECT_EQ(from.hint(), (Values::Hint{2, 5, 6}));
  EXPECT_EQ(drawn.origin(1, 5, 6), "number 2 of \"values\"");
  const Numbered numbered(drawn);
  SampleBuffer sample(numbered.fields());
  numbered.read(1, sample);
  EXPECT_EQ(sample.as<std::int64_t>(1)[0], 2);
}

TEST(Weighted, WeightsThatAreNoneAreRefused) {
  const Values from(3);
  const auto expect_refused = [](const Dataset& data, const std::vector<double>& weights,
                                 std::initializer_list<std::string_view> texts) {
    expect_throws<std::invalid_argument>([&] { const Weighted drawn(data, weights); }, texts);
  };
  expect_refused(from, {1, 1}, {"leat: Weighted: 2 weights are given for the 3 samples"});
  expect_refused(from, {1, std::nan(""), 1}, {"weight 1 is nan"});
  expect_refused(from, {1, 1, -2}, {"weight 2 is -2"});
  expect_refused(from, {0, 0, 0}, {"no weight is above 0"});
  expect_refused(from, {1e308, 1e308, 0}, {"sum of the weights is infinite"});
  expect_refused(Values(0), {}, {"no weight is above 0"});
  const Mixture mixture({{from}});
  expect_refused(mixture, {1, 1, 1}, {"\"mixture\" stand for other samples", "weight its parts"});
  const std::vector<double> weights = {1, 1, 1};
  expect_throws<std::invalid_argument>([&] { const Weighted drawn(from, weights, {.samples = 0}); },
                                       {"`samples` is 0"});
}

}  // namespace mixture_test
}  // namespace leat::feeder
