// Which images a source accepts.
#pragma once

#include <cstdint>

namespace leat::feeder {

/// Which images are accepted. A value. max_pixels is for images of any format.
struct JpegOptions {
  /// The most pixels an image may have; a larger image is an error before anything is allocated for
  /// it. The default is three quarters of what Pillow accepts.
  std::uint64_t max_pixels = std::uint64_t{1} << 27;
  /// JPEG alone: accepts corrupt data, as most viewers and Pillow do: delivers what libjpeg
  /// decodes, and counts the faults (JpegDecoder::warnings). An image that is cut off is an error
  /// in any case.
  bool accept_corrupt = false;
};

}  // namespace leat::feeder
