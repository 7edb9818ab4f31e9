// Generated photographs: for tests and benchmarks, which then need no data set.
//
// An image is a function of (seed, index, width, height), the same on every machine: noise in
// octaves, each half as wide as the one before and weaker, as the spectrum of photographs falls,
// and fine noise as of a camera. As a JPEG image of quality 90, one of 500 x 375 pixels has about
// 85 kB; ImageNet's have 110 kB.
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

/// The pixels of image `index`: [row][column][red, green, blue].
[[nodiscard]] std::vector<std::uint8_t> synthetic_image(std::uint64_t seed, std::uint64_t index,
                                                        std::uint32_t width, std::uint32_t height);

/// Makes a JPEG image of pixels as above; of kGray, red is taken, and of kCmyk, Adobe's inverted
/// values are the three and 255. Throws leat::Error if libjpeg refuses.
[[nodiscard]] std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> pixels,
                                                 std::uint32_t width, std::uint32_t height,
                                                 const JpegEncoding& encoding = {});

}  // namespace leat::feeder
