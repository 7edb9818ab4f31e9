// Offsets: where the rows of variable length begin and end among the values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace leat::feeder {

/// A view of offsets of 32 or 64 bits, as Arrow's lists and the ragged arrays of other libraries
/// have them: row i is the values [at(i), at(i + 1)). Need not be aligned. A value.
struct Offsets {
  const std::byte* data = nullptr;  ///< null: there are none
  bool is_wide = false;             ///< int64 or uint64, else int32 or uint32

  /// Returns an offset. A negative one is beyond all values.
  [[nodiscard]] std::uint64_t at(std::uint64_t i) const noexcept {
    return is_wide ? load<std::uint64_t>(i) : load<std::uint32_t>(i);
  }
  [[nodiscard]] std::size_t width() const noexcept { return is_wide ? 8 : 4; }

  /// What one pass over the offsets of some rows finds.
  struct Found {
    std::uint64_t longest = 0;  ///< values of the longest row
    std::optional<std::uint64_t>
        bad;  ///< the first row that ends before it begins, or beyond `end`
  };
  /// Looks at rows [first, first + rows), which may have values up to `end`.
  [[nodiscard]] Found look(std::uint64_t first, std::uint64_t rows, std::uint64_t end) const {
    return is_wide ? look_at<std::uint64_t>(first, rows, end)
                   : look_at<std::uint32_t>(first, rows, end);
  }

 private:
  template <class T>
  [[nodiscard]] T load(std::uint64_t i) const noexcept {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    return value;
  }
  template <class T>
  [[nodiscard]] Found look_at(std::uint64_t first, std::uint64_t rows, std::uint64_t end) const {
    Found found;
    T longest = 0;
    bool falls = false;
    T before = rows == 0 ? T{0} : load<T>(first);
    for (std::uint64_t i = first; i < first + rows; ++i) {
      const T next = load<T>(i + 1);
      falls |= next < before;
      longest = std::max(longest, static_cast<T>(next - before));
      before = next;
    }
    found.longest = longest;
    if (!falls && before <= end) return found;
    std::uint64_t row = 0;
    while (load<T>(first + row) <= load<T>(first + row + 1) && load<T>(first + row + 1) <= end) {
      ++row;
    }
    found.bad = row;
    return found;
  }
};

}  // namespace leat::feeder
