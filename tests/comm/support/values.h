// What ranks put into collectives, and what must come out: by plain loops of the test's own.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "leat/comm/communicator.h"

namespace leat::comm::support {

[[nodiscard]] inline float widen(gpu::BFloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}
[[nodiscard]] inline float widen(gpu::Float16 x) {
  const int exponent = (x.bits >> 10) & 31;
  const int fraction = x.bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (x.bits & 0x8000) != 0 ? -size : size;
}
[[nodiscard]] inline float widen(float x) { return x; }
[[nodiscard]] inline double widen(double x) { return x; }
[[nodiscard]] inline std::int32_t widen(std::int32_t x) { return x; }
[[nodiscard]] inline std::int64_t widen(std::int64_t x) { return x; }

/// To the nearest, ties to even; finite ones.
template <class T, class Wide>
[[nodiscard]] T narrow(Wide x) {
  return x;
}
template <>
[[nodiscard]] inline gpu::BFloat16 narrow(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}
template <>
[[nodiscard]] inline gpu::Float16 narrow(float x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (x == 0) return {sign};
  const int lowest = std::max(std::ilogb(x), -14) - 10;  // the power of two of the last place
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(std::abs(x), -lowest)));
  // A normal one has the implicit bit at 1024 steps, which carries into the exponent.
  const int bits = steps < 1024 ? steps : ((lowest + 24) << 10) + steps;
  return {static_cast<std::uint16_t>(sign | bits)};
}

/// Element `index` of what rank `rank` has: sums of these depend on the order.
template <class T>
[[nodiscard]] T value(int rank, std::uint64_t index) {
  std::uint64_t z =
      (index * 0x9E3779B97F4A7C15U) + static_cast<std::uint64_t>(rank + 1) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 31)) * 0x94D049BB133111EBU;
  z ^= z >> 29;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(z);
  } else {
    const double fraction = static_cast<double>(z >> 40) / static_cast<double>(1 << 24) - 0.5;
    const auto wide =
        static_cast<decltype(widen(T{}))>(std::ldexp(fraction, static_cast<int>(z % 9)));
    return narrow<T>(wide);
  }
}

template <class T>
[[nodiscard]] std::vector<T> values(int rank, std::uint64_t count, std::uint64_t first = 0) {
  std::vector<T> all;
  all.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(value<T>(rank, first + i));
  return all;
}

/// From rank 0 up, rounded once.
template <class T>
[[nodiscard]] T combined(int ranks, std::uint64_t index, Reduction reduction) {
  auto sum = widen(value<T>(0, index));
  for (int rank = 1; rank < ranks; ++rank) {
    const auto x = widen(value<T>(rank, index));
    if (reduction == Reduction::kMax) {
      sum = std::max(sum, x);
    } else if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;  // wraps around
      sum = static_cast<T>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(x));
    } else {
      sum = sum + x;
    }
  }
  return narrow<T>(sum);
}

template <class T>
[[nodiscard]] std::vector<T> all_combined(int ranks, std::uint64_t count, Reduction reduction,
                                          std::uint64_t first = 0) {
  std::vector<T> all;
  all.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    all.push_back(combined<T>(ranks, first + i, reduction));
  }
  return all;
}

/// Whether all bits are the same.
template <class T>
[[nodiscard]] bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace leat::comm::support
