// JPEG images as rows of RGB, with libjpeg-turbo.
//
// Reads baseline, extended, progressive and arithmetic-coded images of 8 bits a sample (ISO/IEC
// 10918-1) with 1, 3 or 4 components. A grey image gets three equal channels. CMYK and YCCK become
// RGB as in Pillow's convert("RGB"): R = K C / 255 of Adobe's inverted values, with or without
// Adobe's marker. Color profiles and the orientation in Exif are ignored. The inverse DCT is the
// accurate one ("islow"), and chroma is interpolated ("fancy upsampling"). So the pixels are
// bit-identical to those of Pillow (11.3 to 13.0) and torchvision, if they use the same library.
//
// Damage is detected only where libjpeg detects it: invalid codes, or too few or too many of them.
// JPEG has no checksum, so a changed byte may just change pixels.
//
// Memory: libjpeg allocates 8 to 10 blocks with malloc for each image. The largest holds a few
// rows; for a progressive image, all coefficients, 3 to 6 bytes a pixel.
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

#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/jpeg_options.h"

namespace leat::feeder {

/// Thrown for an image that is not a JPEG image, is damaged or cut off.
class JpegError : public ImageError {
 public:
  JpegError(const std::string& problem, const std::string& advice)
      : ImageError("a JPEG image", problem, advice) {}
};

/// The header of an image.
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

/// Decodes one image after the other. Every function throws JpegError for an image that cannot be
/// decoded; the next open() starts anew. Never parks. For one thread at a time; the thread may
/// change between calls.
class JpegDecoder {
 public:
  explicit JpegDecoder(const JpegOptions& options = {});
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Reads the header. `bytes` must stay valid until the image is read or until the next open().
  JpegHeader open(std::span<const std::byte> bytes);

  /// Begins to decode the image at 1 / `denominator` of its size. `denominator` is 1, 2, 4 or 8;
  /// extents are rounded up. With 2, 4 and 8 the inverse DCT computes fewer pixels, which is up to
  /// twice as fast. (Other scales of libjpeg are no faster than 1.)
  ///
  /// Decodes the region `wanted`, in pixels of that size. Returns the region that is decoded: the
  /// same rows, but perhaps more columns. Decoding begins at the edge of a block; a scaled image
  /// with 4 x 2 or 2 x 4 pixels to a sample of chroma is decoded in its whole width. The pixels are
  /// the same as in the whole image. Rows below `wanted` are not decoded, and damage there is not
  /// detected. Throws std::invalid_argument for another denominator, and for a region that is empty
  /// or not in the image.
  JpegRegion start(const JpegRegion& wanted, unsigned denominator = 1);

  /// Decodes the next `rows` rows of the region that start() returned: 3 bytes a pixel, no gap
  /// between rows. Throws std::invalid_argument if `pixels` is too small or fewer rows are left.
  void read(std::span<std::uint8_t> pixels, std::uint32_t rows);

  /// How often corrupt data was accepted in this image so far.
  [[nodiscard]] unsigned warnings() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::feeder
