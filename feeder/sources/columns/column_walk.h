// The way from a column's rows down to its values, and what an array must have on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/feeder/sources/columns/arrow_abi.h"
#include "leat/feeder/sources/columns/arrow_type.h"
#include "leat/feeder/sources/mapped_memory.h"

namespace leat::feeder {

inline constexpr std::uint64_t kMostArraySlots = std::uint64_t{1} << 48;  // no memory has more
inline constexpr std::uint64_t kMostNarrow = 0x7fff'ffff;                 // an offset of 32 bits
inline constexpr std::int64_t kMostViewBuffers = std::int64_t{1} << 31;

/// The rows, or the slots of a list of variable length: `count` of them, each `per` slots of the
/// present level, the first from `first` on.
struct ColumnWalk {
  std::uint64_t first;
  std::uint64_t per;
  std::uint64_t count;
  FileMappings& mappings;
  std::vector<std::size_t>& files;

  /// Whether the array can be one of `type` that has all these slots.
  [[nodiscard]] bool is_within(const ArrowArray& array, const ArrowType& type) const noexcept {
    const std::int64_t more = type.kind == ArrowType::kViews ? kMostViewBuffers : 0;
    const bool has_buffers = array.buffers != nullptr && array.n_buffers >= type.buffers() &&
                             array.n_buffers <= type.buffers() + more;
    if (!has_buffers || array.offset < 0 || array.length < 0) return false;
    const auto length = static_cast<std::uint64_t>(array.length);
    if (static_cast<std::uint64_t>(array.offset) > kMostArraySlots || length > kMostArraySlots)
      return false;
    std::uint64_t end = 0;
    if (__builtin_mul_overflow(count, per, &end) || __builtin_add_overflow(end, first, &end)) {
      return false;
    }
    return end <= length && (type.buffers() == 1 || count == 0 || array.buffers[1] != nullptr);
  }
  /// Whether slots that are within an array may have `extent` values each.
  [[nodiscard]] bool may_have(std::uint64_t extent) const noexcept {
    return first <= kMostArraySlots / extent && count * per <= kMostArraySlots / extent;
  }
  /// Notes that bytes, or bits, will be read.
  void note(const std::byte* data, std::uint64_t from, std::uint64_t bytes) const {
    if (data != nullptr && bytes > 0) mappings.add({data + from, bytes}, files);
  }
  void note_bits(const std::byte* data, std::uint64_t from, std::uint64_t bits) const {
    note(data, from / 8, (from % 8 + bits + 7) / 8);
  }
};

/// Whether the array has child `i`.
[[nodiscard]] inline bool has_child(const ArrowArray& array, std::size_t i) noexcept {
  return array.n_children > static_cast<std::int64_t>(i) && array.children != nullptr &&
         array.children[i] != nullptr;
}

}  // namespace leat::feeder
