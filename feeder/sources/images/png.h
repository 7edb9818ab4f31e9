// PNG images as rows of RGB, with libpng.
//
// Reads all color types and depths, interlaced or not. The pixels are those of Pillow's
// convert("RGB"): gray is replicated; gray of 1, 2 and 4 bits is multiplied by 255, 85 and 17; a
// palette is looked up; 16 bits become 8 by >> 8; alpha and transparent colors are dropped, not
// blended; color profiles, gamma and the orientation in Exif are ignored. Only gray of 16 bits
// differs: Pillow clips it to 255, so that nearly all of it is white. Of an animated PNG the
// default image is read.
//
// Damage: each chunk has a checksum, and the compressed data has one. A wrong one, also of a chunk
// that is not needed, too little data and a missing end are errors. (Pillow reads such images; what
// is missing becomes black.)
//
// Memory: libpng allocates about 50 kB for each image, and two rows. Chunks that are not needed, as
// texts and profiles, are passed over, so that they cannot grow in memory.
//
// Example: the whole image
//   leat::feeder::PngDecoder decoder(1 << 27);
//   const leat::feeder::PngHeader header = decoder.open(bytes);
//   std::vector<std::uint8_t> rgb(std::size_t{3} * header.width * header.height);
//   decoder.read(rgb, header.height);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace leat::feeder {

/// Whether this build has libpng. Without it, PngDecoder::open() throws.
extern const bool kReadsPng;

/// The header of an image.
struct PngHeader {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  bool interlaced = false;  ///< no row is complete before all data is read
};

/// Decodes one image after the other. Every function throws ImageError for an image that cannot be
/// decoded; the next open() starts anew. Never parks. For one thread at a time; the thread may
/// change between calls.
class PngDecoder {
 public:
  /// Images of more than `max_pixels` pixels are an error before anything is allocated for them.
  explicit PngDecoder(std::uint64_t max_pixels);
  ~PngDecoder();
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  /// Reads what comes before the pixels. `bytes` must stay valid until the image is read or until
  /// the next open().
  PngHeader open(std::span<const std::byte> bytes);

  /// Passes over the next `rows` rows. Not of an interlaced image.
  void skip(std::uint32_t rows);

  /// Decodes the next `rows` rows, of an interlaced image all: 3 bytes a pixel, no gap between
  /// rows. After the last row, reads to the end of the image. (Rows that nobody reads are not
  /// decoded, and damage there is not detected.) Throws std::invalid_argument if `pixels` is too
  /// small or fewer rows are left.
  void read(std::span<std::uint8_t> pixels, std::uint32_t rows);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::feeder
