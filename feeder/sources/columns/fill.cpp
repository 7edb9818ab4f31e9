#include "leat/feeder/sources/columns/fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace leat::feeder {
namespace {

// Rounds halves to even, as nearbyint() by default.
std::uint16_t to_float16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::abs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size == 0) return sign;  // has no exponent
  if (size >= 65'520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);
  exponent = std::max(exponent - 1, -14);
  const auto digits = static_cast<unsigned>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // The leading 1 of the digits adds one to the exponent; numbers below 2^-14 have none.
  return static_cast<std::uint16_t>(sign | (digits + (static_cast<unsigned>(exponent + 14) << 10)));
}

}  // namespace

std::array<std::byte, 8> encode_fill(const std::variant<std::int64_t, double, std::uint64_t>& value,
                                     DType dtype, const std::string& column) {
  std::array<std::byte, 8> bytes{};
  const double number = std::visit([](auto given) { return static_cast<double>(given); }, value);
  const auto put = [&](const auto& element) {
    std::memcpy(bytes.data(), &element, sizeof element);
  };
  if (dtype == DType::kFloat64) return put(number), bytes;
  if (dtype == DType::kFloat32) return put(static_cast<float>(number)), bytes;
  if (dtype == DType::kFloat16) return put(to_float16(number)), bytes;

  const bool is_signed = dtype <= DType::kInt64;
  const auto bits = static_cast<int>(8 * size_of(dtype));
  const double end = std::ldexp(1, bits - (is_signed ? 1 : 0));
  // Compared as what they are: a double has 53 bits.
  const auto* const integer = std::get_if<std::int64_t>(&value);
  const auto* const large = std::get_if<std::uint64_t>(&value);
  const bool is_exact = integer != nullptr || large != nullptr;
  if (std::nearbyint(number) != number || number < (is_signed ? -end : 0) ||
      (number >= end && (!is_exact || bits < 64)) ||
      (large != nullptr && is_signed && *large > std::numeric_limits<std::int64_t>::max())) {
    const std::string text = std::visit([](auto given) { return std::to_string(given); }, value);
    throw std::invalid_argument("leat: the fill of column \"" + column + "\", " + text +
                                ", is no " + to_string(dtype));
  }
  // Little-endian: the first bytes are those of a narrower type.
  if (integer != nullptr) {
    put(*integer);
  } else if (large != nullptr) {
    put(*large);
  } else if (is_signed) {
    put(static_cast<std::int64_t>(number));
  } else {
    put(static_cast<std::uint64_t>(number));
  }
  return bytes;
}

}  // namespace leat::feeder
