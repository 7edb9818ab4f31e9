// JPEG images as rows of RGB, with libjpeg-turbo.
//
// Read: baseline, extended, progressive and arithmetic-coded images of 8 bits a sample (ISO/IEC
// 10918-1) with 1, 3 or 4 components. A grey image has three equal channels here. CMYK and YCCK
// become RGB as Pillow's convert("RGB") makes it: R = K C / 255 of Adobe's inverted values; no
// color profile is looked at, nor is Exif's orientation. The inverse DCT is the accurate one
// ("islow") and chroma is interpolated ("fancy upsampling"), as in Pillow and torchvision: the
// pixels are theirs, to the bit, where they use the same library.
//
// Damage is noticed where libjpeg notices it: it makes invalid codes, or too few or too many of
// them. The format has no checksum; a changed byte may just change pixels.
//
// Allocates: libjpeg takes its memory from malloc, 8 to 10 blocks for each image, of which the
// largest holds a few rows; of a progressive image, all coefficients, 3 to 6 bytes for each pixel.
//
// Example: the whole image
//   leat::feeder::JpegDecoder decoder;
//   const leat::feeder::JpegHeader header = decoder.open(bytes);
//   std::vector<std::uint8_t> rgb(std::size_t{3} * header.width * header.height);
//   decoder.start({0, 0, header.width, header.height});
//   decoder.read(rgb, header.height);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "leat/csp/error.h"
#include "leat/feeder/sources/jpeg_options.h"

namespace leat::feeder {

/// An image is no JPEG, damaged, cut off, or not as it was declared. what() names no file:
/// whoever knows it says problem() and advice() again, with the file.
class JpegError : public Error {
 public:
  JpegError(const std::string& problem, const std::string& advice);
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }
  [[nodiscard]] const std::string& advice() const noexcept { return advice_; }

 private:
  std::string problem_;
  std::string advice_;
};

/// What a header says.
struct JpegHeader {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  unsigned components = 0;  // 1: grey, 3: color, 4: CMYK or YCCK
  bool progressive = false;
};

/// A rectangle of pixels.
struct JpegRegion {
  std::uint32_t left = 0;
  std::uint32_t top = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  friend bool operator==(const JpegRegion&, const JpegRegion&) = default;
};

/// Decodes one image after the other. Every member throws JpegError for an image that cannot be
/// decoded, and the next open() starts afresh. Never parks. For one thread at a time; may move to
/// another between calls.
class JpegDecoder {
 public:
  explicit JpegDecoder(const JpegOptions& options = {});
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Reads the header. `bytes` must stay until the image is read, or the next open().
  JpegHeader open(std::span<const std::byte> bytes);

  /// Begins to decode the image at 1 / `denominator` of its size: 1, or 2, 4 or 8 (extents are then
  /// rounded up), for which the inverse DCT makes fewer pixels: twice as fast at most, as the
  /// entropy decoding remains. libjpeg's other scales are no faster than 1, and not offered.
  ///
  /// `wanted`, in pixels of that size, is decoded, and with it what is returned: the same rows, but
  /// perhaps more columns, because decoding begins at a block's edge. The pixels are the same as
  /// of the whole image; they take less time. What lies below `wanted` is not looked at: damage
  /// there is not noticed. Throws std::invalid_argument for another denominator, and a region that
  /// is empty or not in the image.
  JpegRegion start(const JpegRegion& wanted, unsigned denominator = 1);

  /// The next `rows` rows of the region that start() returned, 3 bytes a pixel, nothing between
  /// rows. Throws std::invalid_argument if `pixels` is too small, or so many rows are not left.
  void read(std::span<std::uint8_t> pixels, std::uint32_t rows);

  /// Of corrupt data in this image, so far.
  [[nodiscard]] unsigned warnings() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::feeder
