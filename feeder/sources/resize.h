// Resizing images of bytes: a crop box to a fixed size, in one pass over the pixels that it needs.
//
// Bilinear with antialiasing, as Pillow's BILINEAR and torchvision's antialias=True: a triangle
// filter whose support grows with the factor of reduction. Columns first, rounded to bytes, then
// rows, with weights of 22 bits: the results are those of Pillow up to version 12, to the bit.
// (Pillow 13 resizes rows first where that is less work; and its boxes are of 32-bit floats, these
// of 64-bit ones. Either may differ by 1.) Vector instructions (AVX2) where the CPU has them; the
// results are the same without.
//
// Or without antialiasing, as OpenCV's INTER_LINEAR and torchvision's antialias=False: each pixel
// is made of the four next to its centre, whatever lies between those of two neighbours. The same
// where an image becomes larger; where it becomes smaller, less work and other pixels.
//
//   resize to 224 x 224                        x: {0, width, 224, 0, 224, 0, width}
//   resize width to 341, of these 58 .. 281    x: {0, width, 341, 58, 224, 0, width}
//   crop columns 30 .. 129, resize to 224      x: {30, 130, 224, 0, 224, 30, 130}
//
// Source: the filter as Pillow documents it ("Concepts: Filters", Image.Resampling.BILINEAR), and
// the precision that gives its bits; tests/feeder/sources/resize_test.cpp has sums of Pillow's
// results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat::feeder {

namespace resize_kernels {
struct Taps;
struct WeightPair;
}  // namespace resize_kernels

/// Along one axis: the source's [begin, end) becomes `size` pixels, of which `count`, from `first`
/// on, are computed. Source pixel i covers [i, i + 1).
struct ResizeAxis {
  double begin = 0;
  double end = 0;
  std::uint32_t size = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  /// Source pixels low .. high-1 may contribute: those of the image, for a crop after the resize;
  /// those of the crop, for a crop before it.
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

/// A resize of an image of three channels.
struct Resize {
  ResizeAxis x;
  ResizeAxis y;
  bool mirrored = false;  // left and right exchanged, after all else
  bool planar = false;    // [channel][row][column], not [row][column][channel]
  bool antialias = true;  // else of four pixels
};

/// The source pixels first .. first+count-1.
struct PixelRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// The source pixels from the first that contributes to the last. Throws std::invalid_argument for
/// an axis that makes no sense: an empty range, [begin, end) not within [low, high), first + count
/// > size, or more than 2^20 pixels.
[[nodiscard]] PixelRange source_range(const ResizeAxis& axis, bool antialias = true);

/// Takes an image's rows as they are decoded, and makes the resized image of them. Owns nothing:
/// its memory is the caller's. For one thread at a time.
class Resizer {
 public:
  /// Bytes behind the last row given to add_rows that must be readable; they are not used.
  static constexpr std::size_t kSlack = 16;

  /// How much memory a resize needs.
  [[nodiscard]] static std::size_t scratch_bytes(const Resize& resize);
  /// `scratch`: scratch_bytes() of memory aligned to 64, which must outlive it. Throws as
  /// source_range; std::invalid_argument if `scratch` is too small.
  Resizer(const Resize& resize, std::span<std::byte> scratch);

  /// The next `rows` source rows, beginning with row source_range(y).first: `pixels` is their
  /// column `left` <= source_range(x).first, and `stride` bytes lie between rows. Each row reaches
  /// to the end of source_range(x). Throws std::invalid_argument for more rows than it needs.
  void add_rows(const std::uint8_t* pixels, std::size_t stride, std::uint32_t left,
                std::uint32_t rows);
  /// Writes 3 * x.count * y.count bytes. Throws std::invalid_argument if they have no room, or rows
  /// are missing.
  void finish(std::span<std::uint8_t> out);

 private:
  Resize resize_;
  PixelRange columns_;
  PixelRange rows_;
  std::uint32_t added_ = 0;          // rows
  std::size_t stride_ = 0;           // of narrow_
  std::uint8_t* narrow_ = nullptr;   // all rows, resized along x
  std::uint8_t* line_ = nullptr;     // one row of the result
  std::uint8_t* is_used_ = nullptr;  // of each source row, whether it contributes
  resize_kernels::Taps* taps_x_ = nullptr;
  resize_kernels::Taps* taps_y_ = nullptr;
  resize_kernels::WeightPair* pairs_x_ = nullptr;
  resize_kernels::WeightPair* pairs_y_ = nullptr;
};

/// All at once: the image `pixels` of rows of `width` pixels of three channels, `stride` bytes
/// apart, and both axes' source ranges within it. Allocates its memory.
void resize_image(std::span<const std::uint8_t> pixels, std::uint32_t width, const Resize& resize,
                  std::span<std::uint8_t> out);

}  // namespace leat::feeder
