// The buffers of Arrow's arrays, and bitmaps: bit i is bit i % 8 of byte i / 8.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "leat/feeder/sources/columns/arrow_abi.h"

namespace leat::feeder {

/// Returns the value at `from`, which need not be aligned.
template <class T>
[[nodiscard]] T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Returns buffer `i` < n_buffers.
[[nodiscard]] inline const std::byte* arrow_buffer(const ArrowArray& array,
                                                   std::int64_t i) noexcept {
  return static_cast<const std::byte*>(array.buffers[i]);
}

/// Returns whether two arrays of a type without children are the same one, exported twice.
[[nodiscard]] inline bool is_same_memory(const ArrowArray& a, const ArrowArray& b) noexcept {
  return a.length == b.length && a.offset == b.offset && a.n_buffers == b.n_buffers &&
         a.buffers != nullptr && b.buffers != nullptr &&
         std::equal(a.buffers, a.buffers + a.n_buffers, b.buffers);
}

/// Returns bit `i`.
[[nodiscard]] inline bool bit(const std::byte* bits, std::uint64_t i) noexcept {
  return (std::to_integer<unsigned>(bits[i / 8]) >> (i % 8) & 1U) != 0;
}

/// Returns the number, from 0, of the first of `count` bits from bit `first` on that is 0; `count`
/// if there is none.
[[nodiscard]] inline std::uint64_t first_zero(const std::byte* bits, std::uint64_t first,
                                              std::uint64_t count) noexcept {
  for (std::uint64_t i = 0; i < count;) {
    const std::uint64_t at = first + i;
    if (at % 8 == 0 && count - i >= 64) {
      const auto word = load<std::uint64_t>(bits + at / 8);
      if (word != ~std::uint64_t{0}) return i + static_cast<std::uint64_t>(std::countr_one(word));
      i += 64;
    } else if (bit(bits, at)) {
      ++i;
    } else {
      return i;
    }
  }
  return count;
}

}  // namespace leat::feeder
