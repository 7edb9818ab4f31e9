// In place of png.cpp, where libpng is not found.
#include <stdexcept>

#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/images/png.h"

namespace leat::feeder {

const bool kReadsPng = false;

struct PngDecoder::State {};

PngDecoder::PngDecoder(std::uint64_t /*max_pixels*/) {}
PngDecoder::~PngDecoder() = default;

PngHeader PngDecoder::open(std::span<const std::byte> /*bytes*/) {
  throw ImageError("a PNG image", "it is a PNG image, and this Leat was built without libpng",
                   "build it with libpng (Debian: libpng-dev)");
}

void PngDecoder::skip(std::uint32_t /*rows*/) { throw std::invalid_argument("leat: no PNG image"); }

void PngDecoder::read(std::span<std::uint8_t> /*pixels*/, std::uint32_t /*rows*/) {
  throw std::invalid_argument("leat: no PNG image");
}

}  // namespace leat::feeder
