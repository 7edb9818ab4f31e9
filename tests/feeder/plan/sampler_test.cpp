// The statistical tests have fixed seeds: they pass always or never. Their bound is on a z that is
// standard normal if the order is uniform, and |z| > 5 has a probability of 6e-7 then: a failure
// means bias and not bad luck. Below -5 the order is more even than chance, which is no shuffle
// either.
#include "leat/feeder/plan/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace sampler_test {

using leat::feeder::Order;
using leat::feeder::Sampler;

using Samples = std::vector<std::uint64_t>;

constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

Samples order_of(const Sampler& sampler, std::uint64_t epoch) {
  Samples order;
  order.reserve(sampler.size());
  for (std::uint64_t position = 0; position < sampler.size(); ++position) {
    order.push_back(sampler.at(epoch, position));
  }
  return order;
}

Samples shuffled(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  return order_of(Sampler(size, Order::kShuffled, seed), epoch);
}

bool is_permutation_of_all(const Samples& order) {
  std::vector<bool> seen(order.size(), false);
  for (const std::uint64_t sample : order) {
    if (sample >= order.size() || seen[sample]) return false;
    seen[sample] = true;
  }
  return true;
}

double chi_square(const Samples& counts, double expected) {
  double sum = 0;
  for (const std::uint64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    sum += difference * difference / expected;
  }
  return sum;
}

// Wilson and Hilferty, "The Distribution of Chi-Square", PNAS 1931: the cube root of chi^2 / dof is
// nearly normal, with mean 1 - 2 / (9 dof) and variance 2 / (9 dof).
double z_of(double chi_square, double dof) {
  const double variance = 2 / (9 * dof);
  return (std::cbrt(chi_square / dof) - (1 - variance)) / std::sqrt(variance);
}

// FNV-1a over whole numbers.
std::uint64_t fingerprint(const Samples& order) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint64_t sample : order) hash = (hash ^ sample) * 0x100000001b3;
  return hash;
}

TEST(Sampler, SequentialCountsInEveryEpoch) {
  const Sampler sampler(5, Order::kSequential, 1);
  EXPECT_EQ(order_of(sampler, 0), (Samples{0, 1, 2, 3, 4}));
  EXPECT_EQ(order_of(sampler, 9), (Samples{0, 1, 2, 3, 4}));
  EXPECT_EQ(Sampler(kLargest, Order::kSequential, 1).at(0, kLargest - 1), kLargest - 1);
}

TEST(Sampler, SeveralAtATimeAreTheSameAsOneByOne) {
  for (const Order order : {Order::kSequential, Order::kShuffled}) {
    for (const std::uint64_t size : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 64U, 65U, 300U, 1025U}) {
      const Sampler sampler(size, order, 7);
      for (const std::uint64_t first : {std::uint64_t{0}, size / 3, size - 1, size, 5 * size + 1}) {
        for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3},
                                          std::uint64_t{4}, std::uint64_t{5}, size, 2 * size + 3}) {
          Samples several(count, kLargest);
          sampler.at(3, first, several);
          for (std::uint64_t i = 0; i < count; ++i) {
            ASSERT_EQ(several[i], sampler.at(3, (first + i) % size))
                << size << ' ' << first << ' ' << count << ' ' << i;
          }
        }
      }
    }
  }
  const std::uint64_t large = (std::uint64_t{1} << 62) + 1;
  Samples several(1000);
  Sampler(large, Order::kShuffled, 7).at(3, large - 500, several);
  for (std::uint64_t i = 0; i < several.size(); ++i) {
    ASSERT_EQ(several[i], Sampler(large, Order::kShuffled, 7).at(3, (large - 500 + i) % large));
  }
  Sampler(0, Order::kShuffled, 7).at(3, 0, {});
}

TEST(Sampler, SizeIsWhatWasGiven) {
  EXPECT_EQ(Sampler(0, Order::kShuffled, 1).size(), 0U);
  EXPECT_EQ(Sampler(7, Order::kSequential, 1).size(), 7U);
  EXPECT_EQ(Sampler(kLargest, Order::kShuffled, 1).size(), kLargest);
}

TEST(Sampler, ShuffledVisitsEverySampleOnceForEverySizeUpTo600) {
  for (std::uint64_t size = 0; size <= 600; ++size) {
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_TRUE(is_permutation_of_all(shuffled(size, 1, epoch))) << size << ", epoch " << epoch;
    }
  }
}

TEST(Sampler, ShuffledVisitsEverySampleOnceAroundPowersOfTwo) {
  for (unsigned bits = 10; bits <= 18; ++bits) {
    const std::uint64_t power = std::uint64_t{1} << bits;
    for (const std::uint64_t size : {power - 1, power, power + 1}) {
      EXPECT_TRUE(is_permutation_of_all(shuffled(size, 3, 8))) << size;
    }
  }
  EXPECT_TRUE(is_permutation_of_all(shuffled(60000, kLargest, kLargest)));
}

// As independent draws, 200,000 of 2^32 would hold 4.7 equal pairs on average.
TEST(Sampler, ShuffledStaysInRangeAndRepeatsNothingAbove32Bits) {
  const std::uint64_t power = std::uint64_t{1} << 32;
  for (const std::uint64_t size :
       {power - 1, power, power + 1, power << 8, (std::uint64_t{1} << 62) + 1, kLargest}) {
    const Sampler sampler(size, Order::kShuffled, 1);
    const std::uint64_t step = size / 200000;
    Samples samples;
    for (std::uint64_t i = 0; i < 200000; ++i) samples.push_back(sampler.at(0, i * step));
    EXPECT_LT(*std::max_element(samples.begin(), samples.end()), size);
    // Spread over the whole range, and not only over its lower part.
    EXPECT_GT(*std::max_element(samples.begin(), samples.end()), size - size / 1000);
    std::sort(samples.begin(), samples.end());
    EXPECT_EQ(std::adjacent_find(samples.begin(), samples.end()), samples.end()) << size;
  }
}

TEST(Sampler, SameKeyGivesSameOrder) {
  const Sampler sampler(1000, Order::kShuffled, 17);
  const Sampler copy = sampler;
  EXPECT_EQ(order_of(sampler, 4), order_of(copy, 4));
  EXPECT_EQ(order_of(sampler, 4), shuffled(1000, 17, 4));
  const Samples order = order_of(sampler, 4);
  for (std::uint64_t position = 1000; position-- > 0;) {
    EXPECT_EQ(sampler.at(4, position), order[position])
        << "must not depend on what was asked before";
  }
}

// Two independent orders agree in one position on average, Poisson distributed: more than 12 has a
// probability below 1e-9. Exchanging seed and epoch is another key, too.
TEST(Sampler, EpochsAndSeedsGiveUnrelatedOrders) {
  const std::vector<Samples> orders = {
      shuffled(1000, 0, 0),        shuffled(1000, 0, 1),        shuffled(1000, 1, 0),
      shuffled(1000, 1, 1),        shuffled(1000, 2, 1),        shuffled(1000, 1, 2),
      shuffled(1000, kLargest, 0), shuffled(1000, 0, kLargest), shuffled(1000, kLargest, kLargest),
  };
  for (std::size_t a = 0; a < orders.size(); ++a) {
    for (std::size_t b = a + 1; b < orders.size(); ++b) {
      int equal = 0;
      for (std::size_t i = 0; i < 1000; ++i) equal += orders[a][i] == orders[b][i];
      EXPECT_LE(equal, 12) << a << " and " << b;
    }
  }
}

TEST(Sampler, EveryOrderOfAFewSamplesIsEquallyFrequent) {
  const std::uint64_t epochs = 20000;
  for (const std::uint64_t size : {2U, 3U, 4U, 5U, 6U}) {
    std::uint64_t orders = 1;
    for (std::uint64_t i = 2; i <= size; ++i) orders *= i;
    const Sampler sampler(size, Order::kShuffled, 5);
    std::map<Samples, std::uint64_t> seen;
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) ++seen[order_of(sampler, epoch)];
    ASSERT_EQ(seen.size(), orders) << size;
    Samples counts;
    for (const auto& [order, count] : seen) counts.push_back(count);
    const double expected = static_cast<double>(epochs) / static_cast<double>(orders);
    const double z = z_of(chi_square(counts, expected), static_cast<double>(orders - 1));
    EXPECT_LT(std::abs(z), 5) << size;
  }
}

// Over the epochs: a table of how often sample s stood at position p. Its rows and columns add up
// to the number of epochs, which leaves (n-1)^2 degrees of freedom and scales chi^2 by n / (n-1).
TEST(Sampler, EverySampleIsEquallyFrequentAtEveryPosition) {
  const std::uint64_t epochs = 10000;
  for (const std::uint64_t size : {7U, 16U, 17U, 60U, 64U, 100U}) {
    const Sampler sampler(size, Order::kShuffled, 11);
    Samples counts(size * size, 0);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      for (std::uint64_t position = 0; position < size; ++position) {
        ++counts[position * size + sampler.at(epoch, position)];
      }
    }
    const double n = static_cast<double>(size);
    const double chi2 = chi_square(counts, static_cast<double>(epochs) / n) * (n - 1) / n;
    EXPECT_LT(std::abs(z_of(chi2, (n - 1) * (n - 1))), 5) << size;
  }
}

// The position of one sample of 60,000, in 100 classes of 600, over 20,000 epochs.
TEST(Sampler, ASampleOfALargeDatasetStandsAnywhere) {
  const std::uint64_t epochs = 20000;
  for (const std::uint64_t position : {0U, 1U, 31337U, 59999U}) {
    const Sampler sampler(60000, Order::kShuffled, 1);
    Samples counts(100, 0);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      ++counts[sampler.at(epoch, position) / 600];
    }
    EXPECT_LT(std::abs(z_of(chi_square(counts, epochs / 100.0), 99)), 5) << position;
  }
}

// Which sample follows which, over many epochs: all n (n-1) ordered pairs.
TEST(Sampler, AnySampleFollowsAnyOther) {
  const std::uint64_t epochs = 200000;
  for (const std::uint64_t size : {5U, 16U, 33U, 65U}) {
    const Sampler sampler(size, Order::kShuffled, 23);
    Samples table(size * size, 0);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      ++table[sampler.at(epoch, size / 2) * size + sampler.at(epoch, size / 2 + 1)];
    }
    Samples counts;
    for (std::uint64_t i = 0; i < table.size(); ++i) {
      if (i % (size + 1) != 0) counts.push_back(table[i]);  // not the diagonal
    }
    const double pairs = static_cast<double>(counts.size());
    EXPECT_LT(std::abs(z_of(chi_square(counts, epochs / pairs), pairs - 1)), 5) << size;
  }
}

// Within one epoch of 60,000: the classes (30 of 2,000) of the 30,000 pairs that share no sample.
TEST(Sampler, NeighboursOfOneEpochAreUnrelated) {
  for (const std::uint64_t epoch : {0U, 1U, 2U}) {
    const Samples order = shuffled(60000, 1, epoch);
    Samples counts(900, 0);
    for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
      ++counts[order[i] / 2000 * 30 + order[i + 1] / 2000];
    }
    EXPECT_LT(std::abs(z_of(chi_square(counts, 30000.0 / 900), 899)), 5) << epoch;
  }
}

// Which sample stands at a position says nothing about which one stands there in the next epoch.
TEST(Sampler, SuccessiveEpochsAreUnrelated) {
  const std::uint64_t size = 50;
  const Sampler sampler(size, Order::kShuffled, 7);
  Samples counts(size * size, 0);
  for (std::uint64_t epoch = 0; epoch < 100000; ++epoch) {
    ++counts[sampler.at(epoch, 3) * size + sampler.at(epoch + 1, 3)];
  }
  EXPECT_LT(std::abs(z_of(chi_square(counts, 100000.0 / 2500), 2499)), 5);
}

// Computed by an independent implementation. Do not change these numbers: runs that were stopped
// before the change would resume with another order.
TEST(Sampler, OrderIsForEver) {
  EXPECT_EQ(shuffled(1, 1, 0), (Samples{0}));
  EXPECT_EQ(shuffled(2, 1, 0), (Samples{1, 0}));
  EXPECT_EQ(shuffled(2, 1, 1), (Samples{0, 1}));
  EXPECT_EQ(shuffled(3, 1, 0), (Samples{1, 0, 2}));
  EXPECT_EQ(shuffled(3, 1, 1), (Samples{0, 1, 2}));
  EXPECT_EQ(shuffled(3, 1, 2), (Samples{2, 0, 1}));
  EXPECT_EQ(shuffled(10, 0, 0), (Samples{5, 9, 1, 7, 4, 0, 3, 6, 8, 2}));
  EXPECT_EQ(shuffled(10, 1, 0), (Samples{8, 1, 4, 7, 2, 3, 5, 9, 0, 6}));
  EXPECT_EQ(shuffled(10, 1, 1), (Samples{4, 7, 6, 5, 2, 0, 8, 1, 3, 9}));
  EXPECT_EQ(shuffled(20, 1, 0),
            (Samples{16, 6, 10, 11, 0, 4, 13, 1, 17, 5, 15, 7, 3, 19, 2, 8, 18, 9, 14, 12}));
  EXPECT_EQ(fingerprint(shuffled(64, 2, 3)), 0xb5176167869a0f29U);
  EXPECT_EQ(fingerprint(shuffled(65, 2, 3)), 0xafed7ebc910f57a9U);
  EXPECT_EQ(fingerprint(shuffled(1000, 42, 7)), 0xb6901ca28b0dd0adU);
  EXPECT_EQ(fingerprint(shuffled(60000, 1, 0)), 0xb6e41a85b24b2f8dU);
  EXPECT_EQ(fingerprint(shuffled(60000, 1, 1)), 0x11bd13763d2b5577U);
  const Sampler above_32_bits((std::uint64_t{1} << 32) + 1, Order::kShuffled, 1);
  EXPECT_EQ(above_32_bits.at(0, 0), 2699447565U);
  EXPECT_EQ(above_32_bits.at(0, 1), 3587608537U);
  EXPECT_EQ(above_32_bits.at(0, std::uint64_t{1} << 32), 2687054425U);
  const Sampler largest(kLargest, Order::kShuffled, kLargest);
  EXPECT_EQ(largest.at(kLargest, 0), 1107824403061612581U);
  EXPECT_EQ(largest.at(kLargest, 1), 1448342021895174624U);
  EXPECT_EQ(largest.at(kLargest, kLargest - 1), 15358000782680357768U);
}

TEST(SamplerDeathTest, APositionOutsideIsAsserted) {
  EXPECT_DEATH(static_cast<void>(Sampler(3, Order::kShuffled, 1).at(0, 3)), "below its size");
  EXPECT_DEATH(static_cast<void>(Sampler(0, Order::kSequential, 1).at(0, 0)), "below its size");
}

}  // namespace sampler_test
