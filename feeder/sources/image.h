// From the bytes of an image to a tensor of a fixed size: decode, crop, resize, mirror.
//
// JPEG, PNG and WebP are told by the first bytes. One pass over the pixels that are needed; of
// JPEG, and of PNG that is not interlaced, the whole image is never in memory. With the same
// libjpeg and the same box of a random crop, the results are bit-identical to those of Pillow 13.0,
// and of torchvision 0.29's transforms with Pillow 13.0. Pillow up to 12.3 rounds some values of a
// resize differently (resize.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "leat/feeder/field.h"
#include "leat/feeder/sources/jpeg_options.h"

namespace leat::feeder {

/// How an image of any size becomes one of height x width.
enum class Fit : std::uint8_t {
  kStretch,            ///< resized to that size; its proportions change
  kCenterCrop,         ///< resized so that its shorter side is shorter_side; the middle is cut out
  kRandomResizedCrop,  ///< a random part of it, resized: torchvision's RandomResizedCrop
  kExact,              ///< unchanged; an image of another size is an error
};

/// How an image becomes a tensor. The defaults are usual for ImageNet. A value.
struct ImageOptions {
  std::int64_t height = 224;
  std::int64_t width = 224;
  Fit fit = Fit::kStretch;
  /// kCenterCrop: the length of the shorter side before the crop; at least height and width.
  std::int64_t shorter_side = 256;
  /// kRandomResizedCrop: the part of the image's area, and its width / height.
  std::array<double, 2> scale = {0.08, 1.0};
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};
  /// The probability that left and right are exchanged; 0.5 is usual for training.
  double mirror = 0;
  /// True: [channel][row][column]. False: [row][column][channel].
  bool planar = false;
  /// True: resizes with all source pixels, as Pillow does. False: computes each pixel from the four
  /// source pixels next to its centre, as OpenCV's INTER_LINEAR does. That is faster, but fine
  /// structures alias.
  bool antialias = true;
  /// JPEG alone: decodes at 1/2, 1/4 or 1/8 of the size if the image becomes at least 2, 4 or 8
  /// times smaller. Faster, but the pixels differ: on noisy generated images by 1.0 of 255 on
  /// average and 13 at most; without antialiasing by 8.5 on average and 80 at most, because the
  /// decoder averages pixels that such a resize skips (tests/feeder/sources/image_test.cpp).
  bool scaled_decoding = false;
  JpegOptions jpeg;
};

/// Returns the field of such images: uint8, {height, width, 3} or, planar, {3, height, width}.
/// Throws std::invalid_argument for options out of range.
[[nodiscard]] Field image_field(std::string name, const ImageOptions& options);

}  // namespace leat::feeder
