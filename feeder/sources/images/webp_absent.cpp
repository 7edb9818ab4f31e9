// In place of webp.cpp, where libwebp is not found.
#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/images/webp.h"

namespace leat::feeder {

const bool kReadsWebp = false;

WebpHeader open_webp(std::span<const std::byte> /*bytes*/, std::uint64_t /*max_pixels*/) {
  throw ImageError("a WebP image", "it is a WebP image, and this Leat was built without libwebp",
                   "build it with libwebp (Debian: libwebp-dev)");
}

void read_webp(std::span<const std::byte> bytes, const WebpHeader& /*header*/,
               std::span<std::uint8_t> /*pixels*/) {
  static_cast<void>(open_webp(bytes, 0));
}

}  // namespace leat::feeder
