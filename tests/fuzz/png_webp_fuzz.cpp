// PNG and WebP: rows in portions are those of the whole image, and an error is told. libpng and
// libwebp themselves are the distribution's, without instrumentation. Checksums of PNG's chunks are
// made right, mostly, so that what is behind them is reached.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "leat/feeder/sample.h"
#include "leat/feeder/sources/images/formats.h"
#include "leat/feeder/sources/images/png.h"
#include "leat/feeder/sources/images/webp.h"
#include "leat/feeder/sources/read_image.h"
#include "tests/fuzz/support.h"

namespace {

using namespace leat::feeder;
using namespace leat::fuzz;
using Pixels = std::vector<std::uint8_t>;

constexpr std::uint64_t kMostPixels = 1 << 16;

std::uint32_t checksum(Input bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit) {
        made[i] = (made[i] & 1) != 0 ? made[i] >> 1 ^ 0xedb88320 : made[i] >> 1;
      }
    }
    return made;
  }();
  std::uint32_t sum = 0xffffffff;
  for (const std::uint8_t byte : bytes) sum = table[(sum ^ byte) & 0xff] ^ sum >> 8;
  return ~sum;
}

std::vector<std::uint8_t> with_checksums(Input png) {
  std::vector<std::uint8_t> image(png.begin(), png.end());
  for (std::size_t at = 8; at + 12 <= image.size();) {
    const std::size_t length = std::size_t{image[at]} << 24 | std::size_t{image[at + 1]} << 16 |
                               std::size_t{image[at + 2]} << 8 | image[at + 3];
    if (length > image.size() - at - 12) break;
    const std::uint32_t sum = checksum(Input(image).subspan(at + 4, 4 + length));
    at += 8 + length;
    for (int i = 0; i < 4; ++i) image[at++] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
  }
  return image;
}

// The pixels of the whole image; nothing if it cannot be decoded.
struct Whole {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  bool in_order = false;
  Pixels pixels;
};
std::optional<Whole> decode(std::span<const std::byte> image) {
  Whole whole;
  const auto make_room = [&](std::uint32_t width, std::uint32_t height) {
    require(std::uint64_t{width} * height <= kMostPixels, "more pixels than are accepted");
    whole.width = width;
    whole.height = height;
    whole.pixels.resize(std::size_t{3} * width * height);
  };
  const bool is_whole = succeeds([&] {
    if (known_image(image).format == ImageFormat::kPng) {
      PngDecoder decoder(kMostPixels);
      const PngHeader header = decoder.open(image);
      make_room(header.width, header.height);
      whole.in_order = !header.interlaced;
      decoder.read(whole.pixels, header.height);
    } else {
      const WebpHeader header = open_webp(image, kMostPixels);
      make_room(header.width, header.height);
      read_webp(image, header, whole.pixels);
    }
  });
  if (!is_whole) return std::nullopt;
  return whole;
}

void compare_rows(const Whole& whole, std::span<const std::byte> image, Numbers& numbers) {
  PngDecoder decoder(kMostPixels);
  decoder.open(image);
  const std::size_t row = std::size_t{3} * whole.width;
  for (std::uint32_t at = 0; at < whole.height;) {
    const auto rows = 1 + static_cast<std::uint32_t>(numbers.below(whole.height - at));
    if (numbers.below(2) == 1) {
      decoder.skip(rows);
    } else {
      Pixels pixels(row * rows);
      decoder.read(pixels, rows);
      require(std::equal(pixels.begin(), pixels.end(),
                         whole.pixels.begin() + static_cast<std::ptrdiff_t>(row * at)),
              "rows have other pixels than the whole image");
    }
    at += rows;
  }
}

Pixels sample_of(std::span<const std::byte> image, const ImageOptions& options,
                 std::uint64_t seed) {
  const std::vector<Field> fields = {image_field("image", options)};
  SampleBuffer sample(fields, seed);
  read_image(image, options, sample, 0);
  const auto pixels = sample.as<std::uint8_t>(0);
  return {pixels.begin(), pixels.end()};
}

void read_samples(const std::optional<Whole>& whole, std::span<const std::byte> image,
                  Numbers& numbers) {
  ImageOptions options{.height = 1 + static_cast<std::int64_t>(numbers.below(40)),
                       .width = 1 + static_cast<std::int64_t>(numbers.below(40)),
                       .fit = static_cast<Fit>(numbers.below(4)),
                       .shorter_side = 40 + static_cast<std::int64_t>(numbers.below(40)),
                       .mirror = 0.5,
                       .planar = numbers.below(2) == 1,
                       .antialias = numbers.below(2) == 1};
  options.jpeg.max_pixels = kMostPixels;
  const std::uint64_t seed = numbers.take(1);
  succeeds([&] { static_cast<void>(sample_of(image, options, seed)); });
  if (!whole) return;
  options = {.height = whole->height, .width = whole->width, .fit = Fit::kExact};
  require(sample_of(image, options, 0) == whole->pixels, "a sample has other pixels");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The options come first, so that what an image ends with stays at its end.
  constexpr std::size_t kOptions = 16;
  const std::size_t options = std::min(size, kOptions);
  Numbers numbers({data, options});
  const Input given(data + options, size - options);
  const bool is_png = known_image(std::as_bytes(given)).format == ImageFormat::kPng;
  const std::vector<std::uint8_t> repaired =
      is_png && numbers.below(8) != 0 ? with_checksums(given)
                                      : std::vector<std::uint8_t>(given.begin(), given.end());
  const auto image = std::as_bytes(std::span(repaired));
  const std::optional<Whole> whole = decode(image);
  if (whole && whole->in_order) compare_rows(*whole, image, numbers);
  read_samples(whole, image, numbers);
  return 0;
}
