#include "leat/feeder/sources/images/formats.h"

#include <algorithm>
#include <array>
#include <string>

#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/images/png.h"
#include "leat/feeder/sources/images/webp.h"

namespace leat::feeder {
namespace {

// The most pixels of an axis that a resize takes.
constexpr std::uint64_t kMostSide = std::uint64_t{1} << 20;

struct Extension {
  std::string_view text;
  ImageFormat format;
};
// Those of torchvision's ImageFolder, and those of newer formats.
constexpr std::array kExtensions{
    Extension{"jpg", ImageFormat::kJpeg},   Extension{"jpeg", ImageFormat::kJpeg},
    Extension{"png", ImageFormat::kPng},    Extension{"webp", ImageFormat::kWebp},
    Extension{"bmp", ImageFormat::kOther},  Extension{"ppm", ImageFormat::kOther},
    Extension{"pgm", ImageFormat::kOther},  Extension{"pbm", ImageFormat::kOther},
    Extension{"tif", ImageFormat::kOther},  Extension{"tiff", ImageFormat::kOther},
    Extension{"gif", ImageFormat::kOther},  Extension{"avif", ImageFormat::kOther},
    Extension{"heic", ImageFormat::kOther}, Extension{"heif", ImageFormat::kOther},
    Extension{"jxl", ImageFormat::kOther},  Extension{"jp2", ImageFormat::kOther},
};

}  // namespace

KnownImage known_image(std::span<const std::byte> bytes) noexcept {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), kFirstBytes));
  const std::string_view tail = start.size() > 4 ? start.substr(4) : std::string_view();
  if (start.starts_with("\xff\xd8\xff")) return {ImageFormat::kJpeg, "a JPEG image"};
  if (start.starts_with("\x89PNG")) return {ImageFormat::kPng, "a PNG image"};
  if (start.starts_with("RIFF") && tail.ends_with("WEBP")) {
    return {ImageFormat::kWebp, "a WebP image"};
  }
  const auto other = [](const char* name) { return KnownImage{ImageFormat::kOther, name}; };
  if (start.starts_with("GIF8")) return other("a GIF image");
  if (start.starts_with("II*") || start.starts_with(std::string_view("MM\0*", 4)))
    return other("a TIFF image");
  if (start.starts_with("BM") && start.size() == kFirstBytes) return other("a BMP image");
  if (tail.starts_with("ftypavif")) return other("an AVIF image");
  if (tail.starts_with("ftypheic")) return other("a HEIC image");
  if (tail.starts_with("JXL ") || start.starts_with("\xff\x0a")) return other("a JPEG XL image");
  if (tail.starts_with("jP  ")) return other("a JPEG 2000 image");
  return {};
}

bool is_read_here(ImageFormat format) noexcept {
  switch (format) {
    case ImageFormat::kJpeg: return true;
    case ImageFormat::kPng: return kReadsPng;
    case ImageFormat::kWebp: return kReadsWebp;
    case ImageFormat::kOther: return false;
  }
  return false;
}

ImageFormat format_of(std::string_view extension, bool& found) noexcept {
  const auto* const one =
      std::find_if(kExtensions.begin(), kExtensions.end(),
                   [&](const Extension& known) { return known.text == extension; });
  found = one != kExtensions.end();
  return found ? one->format : ImageFormat::kOther;
}

void check_pixels(const char* image, std::uint64_t width, std::uint64_t height,
                  std::uint64_t max_pixels) {
  const std::string announced =
      "its header announces " + std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width == 0 || height == 0) {
    throw ImageError(image, announced, "fetch the file again and compare its checksum");
  }
  if (width > kMostSide || height > kMostSide) {
    throw ImageError(image, announced + ", more than 2^20 along a side", "divide it");
  }
  if (width * height > max_pixels) {
    throw ImageError(
        image, announced + ", more than the " + std::to_string(max_pixels) + " that are accepted",
        "if that is so, raise the option max_pixels");
  }
}

}  // namespace leat::feeder
