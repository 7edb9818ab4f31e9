// WebP images as RGB, with libwebp.
//
// Reads lossy and lossless images, with or without alpha, which is dropped, not blended. The pixels
// are those of Pillow's convert("RGB"). Color profiles and the orientation in Exif are ignored. An
// animation is an error. (Pillow reads its first frame.)
//
// Damage is detected only where libwebp detects it, and where the file is shorter than it says:
// WebP has no checksum.
//
// Memory: libwebp decodes whole images. For a lossless one it allocates 4 bytes a pixel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat::feeder {

/// Whether this build has libwebp. Without it, open_webp() throws.
extern const bool kReadsWebp;

/// The header of an image.
struct WebpHeader {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

/// Reads the header. Allocates nothing. Throws ImageError for an image that is damaged, cut off,
/// animated, or of more than `max_pixels` pixels. Thread-safe.
[[nodiscard]] WebpHeader open_webp(std::span<const std::byte> bytes, std::uint64_t max_pixels);

/// Decodes the image, which open_webp() has accepted: 3 bytes a pixel, no gap between rows. Throws
/// ImageError if that fails; std::invalid_argument if `pixels` is too small. Never parks.
/// Thread-safe.
void read_webp(std::span<const std::byte> bytes, const WebpHeader& header,
               std::span<std::uint8_t> pixels);

}  // namespace leat::feeder
