// Resizing images of bytes: a crop box to a fixed size, in one pass over the needed pixels.
//
// With antialiasing: bilinear, as Pillow's BILINEAR. The triangle filter widens with the factor of
// reduction. It is applied along one axis, rounded to bytes, then along the other, with weights of
// 22 bits. The results are bit-identical to Pillow 13's if boxes are of whole pixels. (Pillow's
// boxes have 32-bit floats, these 64-bit ones, which may cause a difference of 1.) As in Pillow 13,
// columns come first, unless the image loses more than twice as many rows as columns; up to Pillow
// 12 columns always came first, a difference of 1 in some values. AVX2 is used where the CPU has
// it, with the same results.
//
// Without antialiasing, as OpenCV's INTER_LINEAR and torchvision's antialias=False: each pixel is
// computed from the four source pixels next to its centre. Enlarging gives the same results as with
// antialiasing; reducing is less work and gives other pixels.
//
//   resize to 224 x 224                        x: {0, width, 224, 0, 224, 0, width}
//   resize width to 341, of these 58 .. 281    x: {0, width, 341, 58, 224, 0, width}
//   crop columns 30 .. 129, resize to 224      x: {30, 130, 224, 0, 224, 30, 130}
//
// Source: the filter as Pillow documents it ("Concepts: Filters", Image.Resampling.BILINEAR), and
// the order and the precision that give its bits; tests/feeder/sources/resize_test.cpp has sums of
// Pillow's results, and python/tests/test_pillow.py compares with an installed Pillow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat::feeder {

namespace resize_kernels {
struct Taps;
struct WeightPair;
}  // namespace resize_kernels

/// A resize along one axis: [begin, end) of the source becomes `size` pixels; `count` of them, from
/// `first` on, are computed. Source pixel i covers [i, i + 1).
struct ResizeAxis {
  double begin = 0;
  double end = 0;
  std::uint32_t size = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  /// Source pixels low .. high-1 may contribute: for a crop after the resize, all pixels of the
  /// image; for a crop before it, those of the crop.
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

/// A resize of an image of three channels.
struct Resize {
  ResizeAxis x;
  ResizeAxis y;
  bool mirrored = false;  ///< exchanges left and right, as the last step
  bool planar = false;    ///< [channel][row][column], else [row][column][channel]
  bool antialias = true;  ///< with all source pixels, else with four
};

/// The source pixels first .. first+count-1.
struct PixelRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// The source pixels from the first to the last that contribute. Throws std::invalid_argument for
/// an empty range, [begin, end) outside [low, high), first + count > size, or over 2^20 pixels.
[[nodiscard]] PixelRange source_range(const ResizeAxis& axis, bool antialias = true);

/// Computes the resized image from the rows of an image as they are decoded. Uses the caller's
/// memory. For one thread at a time.
class Resizer {
 public:
  /// So many bytes after the last row given to add_rows() must be readable, with any values.
  static constexpr std::size_t kSlack = 16;

  /// Returns the bytes of memory that a resize needs.
  [[nodiscard]] static std::size_t scratch_bytes(const Resize& resize);
  /// `scratch`: scratch_bytes() of memory aligned to 64; it must outlive the Resizer. Throws as
  /// source_range; std::invalid_argument if `scratch` is too small.
  Resizer(const Resize& resize, std::span<std::byte> scratch);

  /// Adds the next `rows` source rows; the first of all is row source_range(y).first. `pixels`
  /// points to their column `left` <= source_range(x).first; rows are `stride` bytes apart. Each
  /// row reaches to the end of source_range(x). Throws std::invalid_argument for too many rows.
  void add_rows(const std::uint8_t* pixels, std::size_t stride, std::uint32_t left,
                std::uint32_t rows);
  /// Writes 3 * x.count * y.count bytes. Throws std::invalid_argument if `out` is too small or rows
  /// are missing.
  void finish(std::span<std::uint8_t> out);

 private:
  void along_x(const std::uint8_t** from, std::uint8_t** to, std::uint32_t rows) const;
  void add_row(const std::uint8_t* pixels);

  Resize resize_;
  PixelRange columns_;
  PixelRange rows_;
  std::uint32_t added_ = 0;         // rows
  std::size_t stride_ = 0;          // bytes from row to row of narrow_
  std::uint8_t* narrow_ = nullptr;  // all rows, resized along x; where rows come first: the result
  // If rows come first: source rows, and behind them results that are not yet resized along x.
  std::uint8_t* wide_ = nullptr;
  std::size_t wide_stride_ = 0;
  std::uint32_t most_held_ = 0;      // source rows in wide_; 0: columns come first
  std::uint32_t oldest_ = 0;         // the first row in wide_
  std::uint32_t made_ = 0;           // resulting rows
  std::uint8_t* line_ = nullptr;     // one row of the result
  std::uint8_t* is_used_ = nullptr;  // by source row: whether it contributes
  resize_kernels::Taps* taps_x_ = nullptr;
  resize_kernels::Taps* taps_y_ = nullptr;
  resize_kernels::WeightPair* pairs_x_ = nullptr;
  resize_kernels::WeightPair* pairs_y_ = nullptr;
};

/// Resizes a whole image: `pixels` has rows of `width` pixels of three channels, and the source
/// ranges of both axes are in it. Allocates the memory that it needs.
void resize_image(std::span<const std::uint8_t> pixels, std::uint32_t width, const Resize& resize,
                  std::span<std::uint8_t> out);

}  // namespace leat::feeder
