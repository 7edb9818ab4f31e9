// The two inner loops of a resize, for feeder/sources/resize.cpp: one that runs anywhere, and one
// for CPUs with AVX2. They compute the same.
//
// A weight has 22 bits behind the point and is split into two of 11, as
// weight = 2048 high + low, so that products with bytes can be summed in pairs by the instruction
// for 16-bit factors: sum = (sum of high products << 11) + (sum of low products), exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat::feeder::resize_kernels {

inline constexpr int kWeightBits = 22;
inline constexpr int kLowBits = 11;

/// The weights of two neighbouring source pixels. If the number of pixels is odd, the last weight
/// is 0.
struct WeightPair {
  std::int16_t high[2];
  std::int16_t low[2];
};

/// The source pixels and weights of one resulting pixel.
struct Taps {
  std::uint32_t first;  // the first source pixel
  std::uint32_t count;  // number of source pixels
  std::uint32_t pairs;  // index of its first WeightPair
};

/// Rows that are resized along x together, for their weights to be loaded once.
inline constexpr std::size_t kRows = 4;

/// One implementation of the loops.
struct Kernels {
  /// Resizes rows[r] to out[r], for r < kRows: pixels of three bytes. `taps[i].first` counts from
  /// the beginning of the rows. Reads up to 13 bytes behind a row. Writes up to 1 byte behind
  /// out[r].
  void (*along_x)(const std::uint8_t* const* rows, std::span<const Taps> taps,
                  const WeightPair* pairs, std::uint8_t* const* out);
  /// Computes one resulting row: the weighted sum of the rows from `rows` on, `stride` bytes apart.
  /// `bytes`, the length of each row and of `out`, is a multiple of 16. All of it is read and
  /// written.
  void (*along_y)(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
                  const WeightPair* pairs, std::uint8_t* out, std::size_t bytes);
};

/// Returns the kernels that run on every CPU.
[[nodiscard]] const Kernels& portable() noexcept;
/// Returns the fastest kernels that run on this CPU.
[[nodiscard]] const Kernels& fastest() noexcept;

}  // namespace leat::feeder::resize_kernels
