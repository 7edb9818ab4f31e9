// From the bytes of a JPEG image to a tensor of a fixed size: decode, crop, resize, mirror.
//
// Each in one pass over the pixels that it needs; the image's pixels are never all in memory. They
// are those of Pillow or torchvision, given the same libjpeg and, of random crops, the same box.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "leat/feeder/field.h"
#include "leat/feeder/sources/jpeg_options.h"

namespace leat::feeder {

class JpegDecoder;
class Random;
class Sample;
struct Resize;

/// How an image of any size becomes one of height x width.
enum class Fit : std::uint8_t {
  kStretch,            // as it is, whatever that does to its proportions
  kCenterCrop,         // the shorter side becomes shorter_side; then the middle is cut out
  kRandomResizedCrop,  // a random part of it, stretched: torchvision's RandomResizedCrop
  kExact,              // it has to have that size: anything else is an error
};

/// What an image is made into. The defaults are what is usual for ImageNet.
struct ImageOptions {
  std::int64_t height = 224;
  std::int64_t width = 224;
  Fit fit = Fit::kStretch;
  /// kCenterCrop: the length of the shorter side before the crop; at least height and width.
  std::int64_t shorter_side = 256;
  /// kRandomResizedCrop: the part of the image's area, and its width / height.
  std::array<double, 2> scale = {0.08, 1.0};
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};
  /// The probability of left and right being exchanged; 0.5 is usual for training.
  double mirror = 0;
  /// [channel][row][column], not [row][column][channel].
  bool planar = false;
  /// Resizes with all of the source's pixels, as Pillow and torchvision do. False: with the four
  /// next to each result's centre, as OpenCV's INTER_LINEAR does: faster, but fine structures
  /// alias.
  bool antialias = true;
  /// Whether an image that is to become smaller by 2, 4 or 8 at least is decoded at 1/2, 1/4 or 1/8
  /// of its size. Faster, but other pixels: of generated images, which are noisy, by 1.0 of 255 on
  /// average, and by 13 at most; not antialiased, by 8.5, and by 80 at most, since the decoder
  /// averages what that resize passes by (tests/feeder/sources/image_test.cpp).
  bool scaled_decoding = false;
  JpegOptions jpeg;
};

/// The tensor that is made: uint8, {height, width, 3}, or, planar, {3, height, width}. Throws
/// std::invalid_argument for options that make no sense.
[[nodiscard]] Field image_field(std::string name, const ImageOptions& options);

/// The resize for an image of this size, with what is random in it drawn from `random`: the box,
/// then, where mirror is not 0, whether it is mirrored. Throws JpegError for an image that is not
/// of the exact size that it has to be.
[[nodiscard]] Resize resize_for(const ImageOptions& options, std::uint32_t width,
                                std::uint32_t height, Random& random);

/// Reads the JPEG image `bytes` into field `field` of `out`, which is image_field(options), with
/// random numbers and scratch memory of `out`. Throws JpegError. Never parks. `decoder` is used
/// for nothing else meanwhile; its options are those of the image.
void read_image(std::span<const std::byte> bytes, const ImageOptions& options, JpegDecoder& decoder,
                Sample& out, std::size_t field);

}  // namespace leat::feeder
