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

/// The weights of two neighbouring source pixels. Of an odd number, the last one's second is 0.
struct WeightPair {
  std::int16_t high[2];
  std::int16_t low[2];
};

/// What one resulting pixel is made of.
struct Taps {
  std::uint32_t first;  // source pixel
  std::uint32_t count;  // of source pixels
  std::uint32_t pairs;  // index of its first WeightPair
};

/// Rows that are resized along x together, for their weights to be loaded once.
inline constexpr std::size_t kRows = 4;

/// What is the same for both.
struct Kernels {
  /// Resizes rows[r] to out[r], for r < kRows: pixels of three bytes. `taps[i].first` counts from
  /// the rows' begin. Reads up to 13 bytes behind a row, writes 1 behind out's.
  void (*along_x)(const std::uint8_t* const* rows, std::span<const Taps> taps,
                  const WeightPair* pairs, std::uint8_t* const* out);
  /// One resulting row: the rows from `rows` on, `stride` bytes apart, weighted. `bytes`, of each
  /// row and of out, is rounded up to a multiple of 16 and may be read and written so far.
  void (*along_y)(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
                  const WeightPair* pairs, std::uint8_t* out, std::size_t bytes);
};

/// Those that run anywhere.
[[nodiscard]] const Kernels& portable() noexcept;
/// The fastest that run here.
[[nodiscard]] const Kernels& fastest() noexcept;

}  // namespace leat::feeder::resize_kernels
