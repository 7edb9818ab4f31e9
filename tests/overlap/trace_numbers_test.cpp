// Numbers of traces from their text: exact, or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "leat/overlap/trace/model.h"
#include "leat/overlap/trace/readers/numbers.h"

namespace overlap::trace {
namespace trace_numbers_test {

TEST(TraceNumbers, RoundHalfToEvenFromAllDigits) {
  constexpr Time kMost = std::numeric_limits<Time>::max();
  const std::vector<std::pair<const char*, std::optional<Time>>> known = {
      {"0", 0},
      {"-0.0", 0},
      {"12", 12'000},
      {"4203669604595.407", 4'203'669'604'595'407},
      {"1661203462598738", 1'661'203'462'598'738'000},
      {"0.0005", 0},
      {"0.0015", 2},
      {"0.0025", 2},
      {"-0.0025", -2},
      {"0.00250000000000000000000000000000000000000000000001", 3},
      {"0.0024999999999999999999999999999999999999999999999999", 2},
      {"1e3", 1'000'000},
      {"1E+3", 1'000'000},
      {"2500e-6", 2},
      {"3500e-6", 4},
      {".5", 500},
      {"5.", 5'000},
      {"+5", 5'000},
      {"0e999999999999", 0},
      {"1e-999999999999", 0},
      {"15000000000000000000000000000000000000e-40", 2},
      {"9223372036854775.807", kMost},
      {"-9223372036854775.807", -kMost},
      {"9223372036854775.8074999", kMost},
      {"9223372036854775.8075", std::nullopt},
      {"1e400", std::nullopt},
      {"1e999999999999", std::nullopt},
      {"", std::nullopt},
      {"-", std::nullopt},
      {".", std::nullopt},
      {"1e", std::nullopt},
      {"1e+-5", std::nullopt},
      {"1.2.3", std::nullopt},
      {"12us", std::nullopt},
      {" 1", std::nullopt},
      {"inf", std::nullopt},
      {"nan", std::nullopt},
  };
  for (const auto& [text, value] : known) EXPECT_EQ(nanoseconds(text), value) << text;
  EXPECT_EQ(nanoseconds("0." + std::string(400, '0') + "1e400"), 100);
  EXPECT_EQ(nanoseconds("1" + std::string(400, '0') + "e-400"), 1000);
}

// Against integers: a fraction of q microseconds and a remainder, in every split into digits and
// exponent.
TEST(TraceNumbers, AgreeWithIntegers) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 2'000; ++i) {
    const std::uint64_t digits = random() >> (random() % 60 + 2);
    const int behind = static_cast<int>(random() % 18) + 4;  // so many digits behind the point
    std::string text = std::to_string(digits);
    text.insert(0, std::string(std::max<std::size_t>(24, text.size()) - text.size(), '0'));
    text.insert(text.size() - static_cast<std::size_t>(behind), ".");
    std::uint64_t divisor = 1;
    for (int k = 3; k < behind; ++k) divisor *= 10;
    const std::uint64_t quotient = digits / divisor;
    const std::uint64_t rest = digits % divisor;
    const bool is_up = rest > divisor / 2 || (rest == divisor / 2 && quotient % 2 == 1);
    const auto expected = static_cast<Time>(quotient + (is_up ? 1 : 0));
    ASSERT_EQ(nanoseconds(text), expected) << text;
    ASSERT_EQ(nanoseconds(std::to_string(digits) + "e-" + std::to_string(behind)), expected);
    ASSERT_EQ(nanoseconds("-" + text), -expected) << text;
  }
}

TEST(TraceNumbers, OfATextAreItselfOrItsEnd) {
  EXPECT_EQ(number_of<std::int64_t>("stream 7"), 7);
  EXPECT_EQ(number_of<std::int64_t>("-1"), -1);
  EXPECT_EQ(number_of<std::int64_t>("12.0"), 12);
  EXPECT_EQ(number_of<std::uint64_t>("1.5e6"), 1'500'000U);
  EXPECT_EQ(number_of<std::uint64_t>("18446744073709551615"), 18446744073709551615U);
  EXPECT_EQ(number_of<std::uint64_t>("18446744073709551616"), std::nullopt);
  EXPECT_EQ(number_of<std::uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(number_of<std::uint64_t>("1e400"), std::nullopt);
  EXPECT_EQ(number_of<std::uint64_t>("Spans"), std::nullopt);
  EXPECT_EQ(number_of<std::uint64_t>(""), std::nullopt);
}

}  // namespace trace_numbers_test
}  // namespace overlap::trace
