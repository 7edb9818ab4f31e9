// The formats of images: which one an image has, by its first bytes, and which ones are read here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace leat::feeder {

/// The formats of images that are read, and all others.
enum class ImageFormat : std::uint8_t { kJpeg, kPng, kWebp, kOther };

/// The first bytes of an image that tell all formats apart. No image has fewer.
inline constexpr std::size_t kFirstBytes = 12;

/// What an image is, by its first bytes.
struct KnownImage {
  ImageFormat format = ImageFormat::kJpeg;
  const char* name = nullptr;  ///< "a PNG image"; null: of no format that is known, perhaps damaged
};

/// Returns what an image is. Without a known beginning, it counts as JPEG, whose decoder says what
/// is wrong.
[[nodiscard]] KnownImage known_image(std::span<const std::byte> bytes) noexcept;

/// Returns whether this build reads images of the format.
[[nodiscard]] bool is_read_here(ImageFormat format) noexcept;

/// Returns the format of files whose names end in `extension`: in lower case, without the dot.
/// kOther is an image of a format that is not read; `found` is false for no image.
[[nodiscard]] ImageFormat format_of(std::string_view extension, bool& found) noexcept;

/// Advice for an image of a format that is not read.
inline constexpr const char* kConvertImage =
    "convert it to JPEG, PNG or WebP, or leave it out (the option read_failures of the prefetcher)";

/// Throws ImageError if an image of these extents, as its header announces them, has more than
/// `max_pixels` pixels, or a side that is too long for a resize. `image`: "a PNG image".
void check_pixels(const char* image, std::uint64_t width, std::uint64_t height,
                  std::uint64_t max_pixels);

}  // namespace leat::feeder
