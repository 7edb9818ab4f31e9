// Images: the pixels of a region are those of the whole image, and an error is told. libjpeg itself
// is the distribution's, without instrumentation.
#include <algorithm>
#include <vector>

#include "leat/feeder/sample.h"
#include "leat/feeder/sources/jpeg.h"
#include "leat/feeder/sources/read_image.h"
#include "tests/fuzz/support.h"

namespace {

using namespace leat::feeder;
using namespace leat::fuzz;

constexpr std::uint64_t kMostPixels = 1 << 16;

struct Rows {
  JpegRegion region;
  std::vector<std::uint8_t> pixels;
};

// Returns no pixels if the image cannot be decoded.
Rows decode(JpegDecoder& decoder, std::span<const std::byte> image, const JpegRegion& wanted,
            unsigned denominator) {
  Rows rows;
  const bool is_whole = succeeds([&] {
    decoder.open(image);
    rows.region = decoder.start(wanted, denominator);
    rows.pixels.resize(std::size_t{3} * rows.region.width * rows.region.height);
    decoder.read(rows.pixels, rows.region.height);
  });
  if (!is_whole) rows.pixels.clear();
  return rows;
}

void compare_region(JpegDecoder& decoder, std::span<const std::byte> image, Numbers& numbers) {
  JpegHeader header;
  if (!succeeds([&] { header = decoder.open(image); })) return;
  const unsigned denominator = 1U << numbers.below(4);
  const auto scaled = [&](std::uint32_t length) {
    return (length + denominator - 1) / denominator;
  };
  const JpegRegion all{0, 0, scaled(header.width), scaled(header.height)};
  const Rows whole = decode(decoder, image, all, denominator);
  JpegRegion wanted;
  wanted.left = static_cast<std::uint32_t>(numbers.below(all.width));
  wanted.top = static_cast<std::uint32_t>(numbers.below(all.height));
  wanted.width = 1 + static_cast<std::uint32_t>(numbers.below(all.width - wanted.left));
  wanted.height = 1 + static_cast<std::uint32_t>(numbers.below(all.height - wanted.top));
  const Rows part = decode(decoder, image, wanted, denominator);
  if (whole.pixels.empty() || part.pixels.empty() || decoder.warnings() > 0) return;
  const std::size_t right = part.region.left + part.region.width;
  require(part.region.left <= wanted.left && right >= wanted.left + wanted.width,
          "a region without its columns");
  for (std::size_t y = 0; y < wanted.height; ++y) {
    const auto* const expected =
        whole.pixels.data() + 3 * ((wanted.top + y) * all.width + wanted.left);
    const auto* const found =
        part.pixels.data() + 3 * (y * part.region.width + wanted.left - part.region.left);
    require(std::equal(found, found + std::size_t{3} * wanted.width, expected),
            "a region has other pixels than the whole image");
  }
}

void read_sample(JpegDecoder& decoder, std::span<const std::byte> image, Numbers& numbers) {
  const ImageOptions options{.height = 1 + static_cast<std::int64_t>(numbers.below(40)),
                             .width = 1 + static_cast<std::int64_t>(numbers.below(40)),
                             .fit = static_cast<Fit>(numbers.below(4)),
                             .shorter_side = 40 + static_cast<std::int64_t>(numbers.below(40)),
                             .mirror = 0.5,
                             .planar = numbers.below(2) == 1,
                             .antialias = numbers.below(2) == 1,
                             .scaled_decoding = numbers.below(2) == 1};
  const std::vector<Field> fields = {image_field("image", options)};
  SampleBuffer sample(fields, numbers.take(1));
  succeeds([&] { read_image(image, options, decoder, sample, 0); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The options come first, so that what an image ends with stays at its end.
  constexpr std::size_t kOptions = 16;
  const std::size_t options = std::min(size, kOptions);
  Numbers numbers({data, options});
  const auto image = std::as_bytes(Input(data + options, size - options));
  JpegDecoder decoder({.max_pixels = kMostPixels, .accept_corrupt = numbers.below(2) == 1});
  compare_region(decoder, image, numbers);
  read_sample(decoder, image, numbers);
  return 0;
}
