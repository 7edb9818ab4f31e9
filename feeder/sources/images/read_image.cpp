// Images that come as rows from the first on, or as a whole. JPEG, whose decoder can leave out what
// is not needed, is read in image.cpp.
#include "leat/feeder/sources/read_image.h"

#include <algorithm>
#include <string>

#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/images/formats.h"
#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/images/png.h"
#include "leat/feeder/sources/images/webp.h"

namespace leat::feeder {
namespace {

// How many rows are decoded, and then resized along x while they are in the cache.
constexpr std::uint32_t kRowsOfStrip = 16;

std::span<std::uint8_t> pixels_in(Sample& out, std::size_t bytes) {
  const std::span<std::byte> room = out.scratch(bytes + Resizer::kSlack);
  return {reinterpret_cast<std::uint8_t*>(room.data()), room.size()};
}

Resizer resizer_in(Sample& out, const Resize& resize) {
  return {resize, out.scratch(Resizer::scratch_bytes(resize))};
}

// Decodes a whole image by `decode`, and resizes it.
template <class Decode>
void read_whole(const Resize& resize, std::uint32_t width, std::uint32_t height, Sample& out,
                std::span<std::uint8_t> room, const Decode& decode) {
  if (is_unchanged(resize, width, height)) {
    decode(room);
    return;
  }
  const std::size_t stride = std::size_t{3} * width;
  const std::span<std::uint8_t> pixels = pixels_in(out, stride * height);
  decode(pixels);
  const PixelRange rows = source_range(resize.y, resize.antialias);
  Resizer resizer = resizer_in(out, resize);
  resizer.add_rows(pixels.data() + rows.first * stride, stride, 0, rows.count);
  resizer.finish(room);
}

void read_png(std::span<const std::byte> bytes, const ImageOptions& options, Sample& out,
              std::size_t field) {
  PngDecoder decoder(options.jpeg.max_pixels);
  const PngHeader header = decoder.open(bytes);
  const Resize resize = resize_for(options, header.width, header.height, out.random());
  const std::span<std::uint8_t> room = out.as<std::uint8_t>(field);
  if (header.interlaced || is_unchanged(resize, header.width, header.height)) {
    read_whole(resize, header.width, header.height, out, room,
               [&](std::span<std::uint8_t> pixels) { decoder.read(pixels, header.height); });
    return;
  }
  const PixelRange rows = source_range(resize.y, resize.antialias);
  const std::size_t stride = std::size_t{3} * header.width;
  Resizer resizer = resizer_in(out, resize);
  const std::span<std::uint8_t> strip = pixels_in(out, kRowsOfStrip * stride);
  decoder.skip(rows.first);
  for (std::uint32_t done = 0; done < rows.count;) {
    const std::uint32_t now = std::min(kRowsOfStrip, rows.count - done);
    decoder.read(strip, now);
    resizer.add_rows(strip.data(), stride, 0, now);
    done += now;
  }
  resizer.finish(room);
}

}  // namespace

bool is_unchanged(const Resize& resize, std::uint32_t width, std::uint32_t height) noexcept {
  const auto is_whole = [](const ResizeAxis& axis, std::uint32_t length) {
    return axis.begin == 0 && axis.end == length && axis.size == length && axis.count == length;
  };
  return is_whole(resize.x, width) && is_whole(resize.y, height) && !resize.mirrored &&
         !resize.planar;
}

void read_image(std::span<const std::byte> bytes, const ImageOptions& options, Sample& out,
                std::size_t field) {
  if (bytes.size() < kFirstBytes) {
    const std::string problem =
        bytes.empty() ? "it is empty"
                      : "it has " + std::to_string(bytes.size()) + " bytes, too few for an image";
    throw ImageError("an image", problem + ", and a JPEG, PNG or WebP image is expected",
                     kFetchAgain);
  }
  const KnownImage found = known_image(bytes);
  switch (found.format) {
    case ImageFormat::kJpeg: {
      JpegDecoder decoder(options.jpeg);
      read_image(bytes, options, decoder, out, field);
      return;
    }
    case ImageFormat::kPng: read_png(bytes, options, out, field); return;
    case ImageFormat::kWebp: {
      const WebpHeader header = open_webp(bytes, options.jpeg.max_pixels);
      read_whole(resize_for(options, header.width, header.height, out.random()), header.width,
                 header.height, out, out.as<std::uint8_t>(field),
                 [&](std::span<std::uint8_t> pixels) { read_webp(bytes, header, pixels); });
      return;
    }
    case ImageFormat::kOther:
      throw ImageError("an image", std::string("it is ") + found.name, kConvertImage);
  }
}

}  // namespace leat::feeder
