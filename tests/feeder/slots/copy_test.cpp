// Copies through the caches and past them: which bytes are written, when, and by which way.
#include "leat/feeder/slots/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "leat/feeder/sample.h"

namespace leat::feeder {
namespace copy_test {

constexpr std::size_t kMost = std::size_t{40} << 10;
constexpr std::size_t kAround = 64;  // bytes before and behind, which a copy may not touch

constexpr std::array<std::byte, kAround> kZeros{};

struct alignas(64) Memory {
  std::array<std::byte, kAround + 64 + kMost + kAround> bytes;
};

std::vector<Stores> all_stores() {
  std::vector<Stores> all = {Stores::kCached};
  if (fastest_stores() != Stores::kCached) all.push_back(Stores::kSse2);
  if (fastest_stores() == Stores::kAvx) all.push_back(Stores::kAvx);
  return all;
}

// Sizes are in turns with places modulo 64, so that each pair of places occurs.
TEST(CopyBytes, CopiesAnySizeFromAndToAnyPlaceAndTouchesNothingElse) {
  static Memory source;
  static Memory target;
  for (std::size_t i = 0; i < source.bytes.size(); ++i) {
    source.bytes[i] = static_cast<std::byte>(1 + i % 251);  // never 0
  }
  std::vector<std::size_t> sizes;
  for (std::size_t size = 0; size <= 200; ++size) sizes.push_back(size);
  for (const std::size_t pages : {1U, 2U, 3U, 4U, 5U, 8U, 9U}) {
    for (const std::size_t more : {0U, 1U, 63U, 64U, 65U, 200U})
      sizes.push_back(pages * 4096 + more);
    sizes.push_back(pages * 4096 - 1);
  }
  for (const Stores stores : all_stores()) {
    for (std::size_t to = 0; to < 64; ++to) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const std::size_t size = sizes[i];
        const std::span from = std::span(source.bytes).subspan((7 * to + i) % 64, size);
        std::byte* const begin = target.bytes.data() + kAround + to;
        std::memset(begin - kAround, 0, kAround + size + kAround);
        copy_bytes(begin, from, stores);
        ASSERT_EQ(std::memcmp(begin, from.data(), size), 0) << size << " bytes to " << to;
        ASSERT_EQ(std::memcmp(begin - kAround, kZeros.data(), kAround), 0) << size << " to " << to;
        ASSERT_EQ(std::memcmp(begin + size, kZeros.data(), kAround), 0) << size << " to " << to;
      }
    }
  }
}

TEST(CopyBytes, AnEmptySpanMayBeNull) {
  for (const Stores stores : all_stores()) copy_bytes(nullptr, {}, stores);
}

class SampleCopy : public testing::Test {
 protected:
  const std::vector<Field> fields_ = {{"data", DType::kUint8, {16384}},
                                      {"flags", DType::kBool, {16384}}};
  std::vector<std::byte> memory_ = std::vector<std::byte>(2 * 16384);
  const std::vector<std::span<std::byte>> rooms_ = {std::span(memory_).first(16384),
                                                    std::span(memory_).last(16384)};
  std::vector<std::size_t> lengths_ = {0, 0};
  const std::vector<std::byte> ones_ = std::vector<std::byte>(16384, std::byte{1});
  Scratch scratch_;
  std::uint64_t past_cache_ = 0;
  Sample sample_{fields_, rooms_, lengths_, 0, 0, Random(0, 0, 0), scratch_, &past_cache_};
};

TEST_F(SampleCopy, WritesAtTheOffsetAndNothingElse) {
  sample_.copy(0, std::span(ones_).first(9000), 7000);
  EXPECT_EQ(std::ranges::count(memory_, std::byte{1}), 9000);
  EXPECT_EQ(memory_[6999], std::byte{0});
  EXPECT_EQ(memory_[7000], std::byte{1});
  sample_.copy(0, {}, 16384);
}

TEST_F(SampleCopy, BypassesTheCacheFrom8KiBOn) {
  const auto bypassing = [&](std::size_t bytes) {
    const std::uint64_t before = past_cache_;
    sample_.copy(0, std::span(ones_).first(bytes));
    return past_cache_ - before;
  };
  EXPECT_EQ(bypassing(8191), 0U);
  EXPECT_EQ(bypassing(8192), 8192U);
  EXPECT_EQ(bypassing(16384), 16384U);
}

TEST_F(SampleCopy, OfBoolsGoesThroughTheCacheBecauseTheyAreReadBack) {
  sample_.copy(1, ones_);
  EXPECT_EQ(past_cache_, 0U);
  EXPECT_EQ(rooms_[1].back(), std::byte{1});
}

TEST_F(SampleCopy, BeyondTheFieldThrowsAndWritesNothing) {
  const std::span<const std::byte> all(ones_);
  EXPECT_THROW(sample_.copy(0, all, 1), std::out_of_range);
  EXPECT_THROW(sample_.copy(0, all.first(1), 16384), std::out_of_range);
  EXPECT_THROW(sample_.copy(0, all.first(1), ~std::size_t{0}), std::out_of_range);
  EXPECT_THROW(sample_.copy(2, all.first(1)), std::out_of_range);
  EXPECT_EQ(std::ranges::count(memory_, std::byte{1}), 0);
}

}  // namespace copy_test
}  // namespace leat::feeder
