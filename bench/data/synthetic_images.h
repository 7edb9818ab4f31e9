// Generated photographs, for tests and benchmarks without a data set.
//
// An image depends on (seed, index, width, height) alone and is the same on every machine. It is
// noise in octaves, each half as wide as the one before and weaker, like the spectrum of
// photographs, and fine noise like that of a camera. As a JPEG of quality 90, an image of 500 x 375
// pixels has about 85 kB; images of ImageNet have 110 kB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace leat::feeder {

/// How colors are stored in a JPEG image.
enum class JpegColor : std::uint8_t { kYcc, kGray, kCmyk };

/// How a JPEG image is made.
struct JpegEncoding {
  int quality = 90;
  JpegColor color = JpegColor::kYcc;
  int chroma_columns = 2;  // pixels to one sample of chroma: 2 x 2 is "4:2:0"
  int chroma_rows = 2;
  bool progressive = false;
  unsigned restart_rows = 0;  // blocks' rows between restart markers; 0: none
};

/// Returns the pixels of image `index`: [row][column][red, green, blue].
[[nodiscard]] std::vector<std::uint8_t> synthetic_image(std::uint64_t seed, std::uint64_t index,
                                                        std::uint32_t width, std::uint32_t height);

/// Encodes pixels in the layout of synthetic_image() as a JPEG image. kGray encodes red alone;
/// kCmyk encodes the three channels and 255 as Adobe's inverted values. Throws leat::Error if
/// libjpeg fails.
[[nodiscard]] std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> pixels,
                                                 std::uint32_t width, std::uint32_t height,
                                                 const JpegEncoding& encoding = {});

}  // namespace leat::feeder
