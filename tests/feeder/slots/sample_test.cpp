// What a read is given: rooms, lengths, scratch memory, random numbers.
#include "leat/feeder/sample.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/csp/error.h"

namespace leat::feeder {
namespace sample_test {

const std::vector<Field> kFields = {
    {.name = "image", .dtype = DType::kUint8, .shape = {2, 3}},
    {.name = "tokens", .dtype = DType::kInt32, .shape = {5, 2}, .variable_length = true},
    {.name = "label", .dtype = DType::kFloat64, .shape = {}},
};

TEST(Sample, HasRoomForEachFieldAlignedForAnyType) {
  SampleBuffer buffer(kFields);
  const Sample& sample = buffer;
  EXPECT_EQ(sample.bytes(0).size(), 6U);
  EXPECT_EQ(sample.bytes(1).size(), 40U);
  EXPECT_EQ(sample.bytes(2).size(), 8U);
  for (std::size_t f = 0; f < 3; ++f) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(sample.bytes(f).data()) % 64, 0U);
  }
  EXPECT_EQ(sample.as<std::int32_t>(1).size(), 10U);
  EXPECT_THROW(static_cast<void>(sample.bytes(3)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(sample.as<std::uint32_t>(1)), std::invalid_argument);
}

TEST(Sample, AVariableLengthIsTheLongestUntilItIsSet) {
  SampleBuffer buffer(kFields);
  Sample& sample = buffer;
  EXPECT_EQ(sample.length(0), 2U);
  EXPECT_EQ(sample.length(1), 5U);
  EXPECT_EQ(sample.length(2), 1U);
  EXPECT_EQ(buffer.as<std::int32_t>(1).size(), 10U);
  for (const std::size_t length : {0U, 3U, 5U}) {
    sample.set_length(1, length);
    EXPECT_EQ(sample.length(1), length);
    EXPECT_EQ(buffer.as<std::int32_t>(1).size(), 2 * length);
  }
  EXPECT_THROW(sample.set_length(1, 6), Error);
  EXPECT_THROW(sample.set_length(0, 1), std::invalid_argument);
  EXPECT_THROW(sample.set_length(3, 1), std::out_of_range);
  EXPECT_EQ(sample.length(1), 5U) << "what was refused changed it";
}

TEST(Sample, FieldsThatNoMemoryHoldsAreRefused) {
  const std::vector<Field> one = {{"a", DType::kUint8, {std::int64_t{1} << 32, 1L << 32}}};
  EXPECT_THROW(SampleBuffer{one}, std::invalid_argument);  // a product of 2^64
  std::vector<Field> sum;
  for (int i = 0; i < 256; ++i) {
    sum.push_back({"f" + std::to_string(i), DType::kUint8, {std::int64_t{1} << 56}});
  }
  EXPECT_THROW(SampleBuffer{sum}, std::invalid_argument);  // a sum of 2^64
}

TEST(Scratch, GivesDisjointAlignedMemoryAndAllocatesNoMoreOnceItIsLargeEnough) {
  Scratch scratch;
  std::byte* last = nullptr;
  for (int round = 0; round < 4; ++round) {
    scratch.reset();
    std::vector<std::span<std::byte>> taken;
    for (const std::size_t bytes : {1U, 100U, 0U, 5000U, 64U, 70'000U}) {
      taken.push_back(scratch.take(bytes));
      ASSERT_EQ(taken.back().size(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken.back().data()) % 64, 0U);
      for (std::byte& byte : taken.back()) byte = static_cast<std::byte>(taken.size());
    }
    for (std::size_t i = 0; i < taken.size(); ++i) {
      for (const std::byte byte : taken[i]) ASSERT_EQ(byte, static_cast<std::byte>(i + 1));
    }
    if (round > 1) {
      EXPECT_EQ(taken.front().data(), last) << "memory was allocated anew";
    }
    last = taken.front().data();
  }
}

TEST(Random, IsAFunctionOfSeedEpochAndSample) {
  std::set<std::uint64_t> firsts;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
      for (std::uint64_t sample = 0; sample < 10; ++sample) {
        Random one(seed, epoch, sample);
        Random same(seed, epoch, sample);
        firsts.insert(one());
        static_cast<void>(same());
        for (int i = 0; i < 5; ++i) EXPECT_EQ(one(), same());
      }
    }
  }
  EXPECT_EQ(firsts.size(), 1000U) << "(seed, epoch, sample) must not stand for one another";
}

// Resumed runs rely on it: these are the numbers of this version and of all later ones.
TEST(Random, GivesTheSameNumbersForEver) {
  Random random(1, 2, 3);
  EXPECT_EQ(random(), 2399657773382937285U);
  EXPECT_EQ(random.below(1000), 437U);
  EXPECT_EQ(random.uniform(), 0x1.e8ebff222afe0p-1);
}

TEST(Random, BelowAndUniformAreEven) {
  Random random(7, 0, 0);
  std::array<int, 6> counts{};
  double sum = 0;
  constexpr int kDraws = 60'000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts.at(random.below(6));
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 6, 500);  // 5 sigma: 456
  EXPECT_NEAR(sum / kDraws, 0.5, 0.006);                               // 5 sigma: 0.0059
  EXPECT_EQ(random.below(0), 0U);
  EXPECT_EQ(random.below(1), 0U);
}

}  // namespace sample_test
}  // namespace leat::feeder
