// The counts and the places are those that a model in another language has computed.
#include "leat/feeder/plan/apportion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/texts.h"

namespace leat::feeder {
namespace apportion_test {

using support::expect_throws;

using Counts = std::vector<std::uint64_t>;

constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

Counts counts_of(const std::vector<double>& weights, std::uint64_t total) {
  return apportioned(integer_weights(weights), total);
}

TEST(Apportion, CountsAreByTheLargestRemainder) {
  EXPECT_EQ(counts_of({.5, .3, .2}, 10), (Counts{5, 3, 2}));
  EXPECT_EQ(counts_of({1, 1, 1}, 10), (Counts{4, 3, 3}));
  EXPECT_EQ(counts_of({.7, .2, .1}, 7), (Counts{5, 1, 1}));
  EXPECT_EQ(counts_of({.1, .2, .7}, 10), (Counts{1, 2, 7}));
  EXPECT_EQ(counts_of({3, 1}, 6), (Counts{5, 1})) << "the first of equal remainders";
  EXPECT_EQ(counts_of({1, 2, 3, 4}, 9), (Counts{1, 2, 3, 3}));
  EXPECT_EQ(counts_of({.4, .35, .25}, 3), (Counts{1, 1, 1}));
  EXPECT_EQ(counts_of({1, 0, 1}, 3), (Counts{2, 0, 1}));
}

TEST(Apportion, CountsAreExactForTheSmallestAndTheLargestNumbers) {
  EXPECT_EQ(counts_of({5e-324, 1e-323}, 9), (Counts{3, 6}));
  EXPECT_EQ(counts_of({1e308, 1.5e308}, 5), (Counts{2, 3}));
  EXPECT_EQ(counts_of({.693584, .306416}, 1'000'000), (Counts{693584, 306416}));
  EXPECT_EQ(counts_of({1, 1e-9}, 1'000'000'000'000), (Counts{999999999000, 1000}));
  EXPECT_EQ(counts_of({2, 3, 5}, kLargest),
            (Counts{3689348814741910323U, 5534023222112865485U, 9223372036854775807U}));
  EXPECT_EQ(apportioned(Counts{kLargest - 3, 3, kLargest}, kLargest - 1),
            (Counts{9223372036854775806U, 1, 9223372036854775807U}));
}

TEST(Apportion, WeightsThatAreNoSharesAreRefused) {
  for (const double bad : {-1., std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_throws<std::invalid_argument>(
        [&] {
          static_cast<void>(counts_of({1, bad}, 5));
        },
        {"weight 1 is "});
  }
  EXPECT_THROW(static_cast<void>(counts_of({0, -0.}, 5)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(counts_of({}, 5)), std::invalid_argument);
}

TEST(Interleaving, PlacesAreThoseOfTheModel) {
  const auto expect_places = [](const std::vector<double>& weights, const std::string& parts,
                                const Counts& numbers) {
    SCOPED_TRACE(parts);
    const Interleaving places(counts_of(weights, parts.size()));
    std::string found;
    Counts within;
    for (std::uint64_t place = 0; place < parts.size(); ++place) {
      const auto [part, number] = places.find(place);
      found += static_cast<char>('A' + part);
      within.push_back(number);
    }
    EXPECT_EQ(found, parts);
    EXPECT_EQ(within, numbers);
  };
  expect_places({1, 1}, "ABABABAB", {0, 0, 1, 1, 2, 2, 3, 3});
  expect_places({.5, .3, .2}, "ABACABACAB", {0, 0, 1, 0, 2, 1, 3, 1, 4, 2});
  expect_places({1, 1, 1}, "BACBACBAC", {0, 0, 0, 1, 1, 1, 2, 2, 2});
  expect_places({.7, .2, .1}, "ABAAACAABA", {0, 0, 1, 2, 3, 0, 4, 5, 1, 6});
  expect_places({.9, .1}, "AAAAABAAAA", {0, 1, 2, 3, 4, 0, 5, 6, 7, 8});
  expect_places({1, 2, 3, 4}, "DBCDACDCBD", {0, 0, 0, 1, 0, 1, 2, 2, 1, 3});
  expect_places({1}, "AAA", {0, 1, 2});
  expect_places({0, 1, 0}, "BBB", {0, 1, 2});
}

TEST(Interleaving, PlacesOfTheLargestEpochAreThoseOfTheModel) {
  const Interleaving places(counts_of({2, 3, 5}, kLargest));
  const auto expect = [&](std::uint64_t place, std::size_t part, std::uint64_t number) {
    EXPECT_EQ(places.find(place).part, part) << place;
    EXPECT_EQ(places.find(place).number, number) << place;
  };
  expect(0, 2, 0);
  expect(1, 1, 0);
  expect(std::uint64_t{1} << 63, 2, 4611686018427387903);
  expect(kLargest - 1, 2, 9223372036854775806);
}

// Epochs below 2^32 places take arithmetic of 64 bits, others of 128.
TEST(Interleaving, PlacesFollowTheFormulaInBothWidthsOfArithmetic) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    Counts counts(1 + random() % 9);
    std::uint64_t all = 0;
    for (std::uint64_t& count : counts) {
      count = random() % 3 == 0 ? random() % 3 : random() % (round < 100 ? 40 : 1'000'000'000);
      all += count;
    }
    if (all == 0) continue;
    const Interleaving places(counts);
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t place = random() % all;
      std::size_t first = 0;
      std::size_t end = counts.size();
      std::uint64_t at = place;
      while (end - first > 1) {
        const std::size_t middle = (first + end) / 2;
        const auto sum = [&](std::size_t from, std::size_t to) {
          Uint128 total = 0;
          for (std::size_t k = from; k < to; ++k) total += counts[k];
          return total;
        };
        const Uint128 n = sum(first, end);
        const Uint128 a = sum(first, middle);
        const Uint128 t = (at * a + n / 2) / n;
        const Uint128 u = ((at + Uint128{1}) * a + n / 2) / n;
        at = static_cast<std::uint64_t>(u > t ? t : at - t);
        (u > t ? end : first) = middle;
      }
      EXPECT_EQ(places.find(place).part, first);
      EXPECT_EQ(places.find(place).number, at);
    }
  }
}

TEST(Interleaving, PrefixesAndWindowsDifferFromTheSharesByLittle) {
  std::vector<double> weights;
  for (int i = 0; i < 100; ++i) weights.push_back(std::pow(.95, i));
  constexpr std::uint64_t kPlaces = 20'000;
  constexpr std::size_t kWindow = 256;
  const Counts counts = counts_of(weights, kPlaces);
  const Interleaving places(counts);
  std::vector<std::vector<std::uint64_t>> before(weights.size());  // by part and place
  Counts so_far(weights.size());
  double worst_prefix = 0;
  double worst_window = 0;
  std::uint64_t sum = 0;
  for (std::uint64_t place = 0; place < kPlaces; ++place) {
    const auto [part, number] = places.find(place);
    ASSERT_EQ(number, so_far[part]) << "ascending, each once";
    ++so_far[part];
    sum += (part + 1) * (place + 1);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      before[k].push_back(so_far[k]);
      const double share = static_cast<double>(counts[k]) / kPlaces;
      const auto off = [&](std::uint64_t found, std::uint64_t of) {
        return std::abs(static_cast<double>(found) - share * static_cast<double>(of));
      };
      worst_prefix = std::max(worst_prefix, off(so_far[k], place + 1));
      if (place < kWindow) continue;
      worst_window = std::max(worst_window, off(so_far[k] - before[k][place - kWindow], kWindow));
    }
  }
  EXPECT_EQ(so_far, counts);
  EXPECT_EQ(sum, 3881186388U) << "as the model";
  EXPECT_LT(worst_prefix, 1.01);
  EXPECT_LT(worst_window, 1.62);
}

}  // namespace apportion_test
}  // namespace leat::feeder
