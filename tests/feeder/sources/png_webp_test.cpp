// PNG and WebP: the pixels are Pillow's, and what is damaged, too large or of another kind is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/images/png.h"
#include "leat/feeder/sources/images/webp.h"
#include "leat/feeder/sources/read_image.h"
#include "leat/feeder/sources/web_dataset.h"
#include "tests/feeder/sources/known_images.h"
#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {
namespace png_webp_test {

using Pixels = std::vector<std::uint8_t>;

constexpr std::uint64_t kMost = 1 << 20;

std::span<const std::byte> bytes_in(const std::string& image) {
  return std::as_bytes(std::span(image.data(), image.size()));
}

Pixels decode_png(std::span<const std::byte> bytes, std::uint64_t most = kMost) {
  PngDecoder decoder(most);
  const PngHeader header = decoder.open(bytes);
  Pixels pixels(std::size_t{3} * header.width * header.height);
  decoder.read(pixels, header.height);
  return pixels;
}

Pixels decode_webp(std::span<const std::byte> bytes, std::uint64_t most = kMost) {
  const WebpHeader header = open_webp(bytes, most);
  Pixels pixels(std::size_t{3} * header.width * header.height);
  read_webp(bytes, header, pixels);
  return pixels;
}

Pixels read(std::span<const std::byte> bytes, const ImageOptions& options, std::uint64_t seed = 0) {
  const std::vector<Field> fields = {image_field("image", options)};
  SampleBuffer sample(fields, seed);
  read_image(bytes, options, sample, 0);
  const auto pixels = sample.as<std::uint8_t>(0);
  return {pixels.begin(), pixels.end()};
}

// What is wrong with the image; "" if it is decoded.
template <class Decode>
std::string problem(const Decode& decode, const std::string& image) {
  try {
    static_cast<void>(decode(bytes_in(image), kMost));
  } catch (const ImageError& error) {
    return error.problem();
  }
  return "";
}

std::vector<KnownPixels> still_images() {
  std::vector<KnownPixels> all;
  if (kReadsPng) all = known_images(".png");
  if (!kReadsWebp) return all;
  for (KnownPixels& one : known_images(".webp")) {
    if (one.name != "animation.webp") all.push_back(std::move(one));
  }
  return all;
}

TEST(Png, EveryKindHasThePixelsOfPillow) {
  LEAT_NEEDS_PNG();
  const std::vector<KnownPixels> all = known_images(".png");
  EXPECT_EQ(all.size(), 52U);
  for (const KnownPixels& one : all) EXPECT_EQ(decode_png(one.bytes()), one.pixels) << one.name;
}

TEST(Png, RowsArePassedOverAndReadInParts) {
  LEAT_NEEDS_PNG();
  for (const KnownPixels& one : known_images(".png")) {
    PngDecoder decoder(kMost);
    const PngHeader header = decoder.open(one.bytes());
    EXPECT_EQ(header.width, one.width);
    EXPECT_EQ(header.height, one.height);
    EXPECT_EQ(header.interlaced, one.name.ends_with("interlaced.png")) << one.name;
    Pixels pixels(std::size_t{3} * one.width * 4);
    if (header.interlaced) {
      EXPECT_THROW(decoder.skip(3), std::invalid_argument);
      EXPECT_THROW(decoder.read(pixels, 4), std::invalid_argument);
      continue;
    }
    decoder.skip(3);
    decoder.read(pixels, 2);
    decoder.read(std::span(pixels).subspan(std::size_t{3} * one.width * 2), 2);
    const auto third = one.pixels.begin() + std::ptrdiff_t{3} * one.width * 3;
    EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), third)) << one.name;
    EXPECT_THROW(decoder.read(pixels, 5), std::invalid_argument);  // no room
    EXPECT_THROW(decoder.skip(5), std::invalid_argument);          // 4 are left
  }
}

// Which rows are decoded, where and how, makes no difference.
TEST(AnyImage, ACropAndAResizeAreThoseOfTheWholeImage) {
  const std::vector<KnownPixels> all = still_images();
  if (all.empty()) GTEST_SKIP() << "built without libpng and libwebp";
  for (const KnownPixels& one : all) {
    const ImageOptions exact{.height = one.height, .width = one.width, .fit = Fit::kExact};
    EXPECT_EQ(read(one.bytes(), exact), one.pixels) << one.name;
    for (const Fit fit : {Fit::kStretch, Fit::kCenterCrop, Fit::kRandomResizedCrop}) {
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const ImageOptions options{.height = 5,
                                   .width = 6,
                                   .fit = fit,
                                   .shorter_side = 7,
                                   .mirror = 0.5,
                                   .planar = seed % 2 == 1,
                                   .antialias = seed < 6};
        Random random(seed, 0, 0);
        const Resize resize = resize_for(options, one.width, one.height, random);
        Pixels expected(5 * 6 * 3);
        resize_image(one.pixels, one.width, resize, expected);
        ASSERT_EQ(read(one.bytes(), options, seed), expected) << one.name << ", seed " << seed;
      }
    }
  }
}

TEST(Png, ACutAnywhereIsAnError) {
  LEAT_NEEDS_PNG();
  for (const char* const name : {"palette4_transparent.png", "rgb8_interlaced.png"}) {
    const std::string image = known_image_named(name).image;
    for (std::size_t size = 0; size < image.size(); ++size) {
      EXPECT_NE(problem(decode_png, image.substr(0, size)), "") << name << ", " << size << " bytes";
    }
    EXPECT_NE(problem(decode_png, image.substr(0, image.size() - 12)).find("near byte"),
              std::string::npos);
    EXPECT_EQ(problem(decode_png, image + "more"), "");
  }
}

// Also in a chunk that is not needed, and in a checksum.
TEST(Png, AChangedByteAnywhereIsAnError) {
  LEAT_NEEDS_PNG();
  for (const char* const name : {"gray2_transparent.png", "rgba16_interlaced.png"}) {
    const std::string image = known_image_named(name).image;
    for (std::size_t at = 0; at < image.size(); ++at) {
      for (const int change : {1, 0x20, 0x80}) {
        std::string changed = image;
        changed[at] = static_cast<char>(changed[at] ^ change);
        EXPECT_NE(problem(decode_png, changed), "") << name << ", byte " << at << " ^ " << change;
      }
    }
  }
}

TEST(Png, AfterAnErrorTheNextImageIsRead) {
  LEAT_NEEDS_PNG();
  const KnownPixels good = known_image_named("rgb8.png");
  PngDecoder decoder(kMost);
  Pixels pixels(good.pixels.size());
  for (std::size_t size = 20; size < good.image.size(); size += 40) {
    EXPECT_THROW(
        {
          decoder.open(good.bytes().first(size));
          decoder.read(pixels, good.height);
        },
        ImageError);
    decoder.open(good.bytes());
    decoder.read(pixels, good.height);
    EXPECT_EQ(pixels, good.pixels);
  }
}

// Of a changed header, whose checksum is wrong: so libpng has not been asked.
TEST(Png, AHeaderOfTooManyPixelsIsAnErrorBeforeAnythingIsAllocated) {
  LEAT_NEEDS_PNG();
  std::string image = known_image_named("rgb8.png").image;
  EXPECT_EQ(problem([](auto bytes, auto) { return decode_png(bytes, 13 * 11); }, image), "");
  expect_contains(problem([](auto bytes, auto) { return decode_png(bytes, 13 * 11 - 1); }, image),
                  {"13 x 11 pixels, more than the 142"});
  const auto with_width = [&](std::uint32_t width) {
    const Bytes bytes = big_endian(width);
    std::string changed = image;
    std::copy(bytes.begin(), bytes.end(), changed.begin() + 16);
    return problem(decode_png, changed);
  };
  expect_contains(with_width(1 << 20), {"1048576 x 11 pixels, more than the 1048576"});
  expect_contains(with_width(0xffffffff), {"4294967295 x 11 pixels, more than 2^20"});
  expect_contains(with_width(0), {"0 x 11 pixels"});
}

TEST(Webp, EveryKindHasThePixelsOfPillow) {
  LEAT_NEEDS_WEBP();
  for (const KnownPixels& one : known_images(".webp")) {
    if (one.name != "animation.webp") {
      EXPECT_EQ(decode_webp(one.bytes()), one.pixels) << one.name;
    }
  }
}

TEST(Webp, ACutAnywhereIsAnError) {
  LEAT_NEEDS_WEBP();
  for (const KnownPixels& one : known_images(".webp")) {
    for (std::size_t size = 0; size < one.image.size(); ++size) {
      EXPECT_NE(problem(decode_webp, one.image.substr(0, size)), "") << one.name << ", " << size;
    }
  }
  const std::string image = known_image_named("lossy.webp").image;
  expect_contains(problem(decode_webp, image.substr(0, image.size() - 1)),
                  {"its first bytes announce " + std::to_string(image.size())});
}

// WebP has no checksum: a change may also just change pixels.
TEST(Webp, AChangedByteIsReadOrAnErrorAndNothingElse) {
  LEAT_NEEDS_WEBP();
  std::size_t refused = 0;
  for (const char* const name : {"lossy_alpha.webp", "lossless.webp"}) {
    const std::string image = known_image_named(name).image;
    for (std::size_t at = 0; at < image.size(); ++at) {
      std::string changed = image;
      changed[at] = static_cast<char>(changed[at] ^ 0x81);
      refused += problem(decode_webp, changed).empty() ? 0U : 1U;
    }
  }
  EXPECT_GT(refused, 20U);
}

TEST(Webp, AnAnimationAndTooManyPixelsAreErrors) {
  LEAT_NEEDS_WEBP();
  EXPECT_EQ(problem(decode_webp, known_image_named("animation.webp").image), "it is an animation");
  const KnownPixels one = known_image_named("lossless.webp");
  EXPECT_EQ(decode_webp(one.bytes(), 13 * 11), one.pixels);
  expect_contains(
      problem([](auto bytes, auto) { return decode_webp(bytes, 13 * 11 - 1); }, one.image),
      {"13 x 11 pixels, more than the 142"});
}

TEST(AnyImage, AnotherFormatIsNamedWithWhatToDo) {
  const ImageOptions options{.height = 8, .width = 8};
  const std::string gif = "GIF89a and more";
  expect_contains(error_of([&] { read(bytes_in(gif), options); }),
                  {"it is a GIF image", "convert it to JPEG, PNG or WebP"});
  EXPECT_THROW(read(bytes_in("nothing"), options), ImageError);
  EXPECT_THROW(read({}, options), ImageError);
  if (!kReadsPng) {
    expect_contains(error_of([&] { read(known_image_named("rgb8.png").bytes(), options); }),
                    {"built without libpng", "libpng-dev"});
  }
  if (!kReadsWebp) {
    expect_contains(error_of([&] { read(known_image_named("lossy.webp").bytes(), options); }),
                    {"built without libwebp", "libwebp-dev"});
  }
}

TEST(AnyImage, AWebDatasetReadsEachByItsFirstBytesWhateverItsName) {
  LEAT_NEEDS_PNG();
  LEAT_NEEDS_WEBP();
  const KnownPixels png = known_image_named("palette8.png");
  const KnownPixels webp = known_image_named("lossy.webp");
  const ImageOptions exact{.height = png.height, .width = png.width, .fit = Fit::kExact};
  const TemporaryDirectory directory;
  const std::string cut = png.image.substr(0, 400);
  const auto shard = directory.write("a.tar", tar_file("0.png", bytes_of(png.image)) +
                                                  tar_file("1.jpg", bytes_of(png.image)) +
                                                  tar_file("2.webp", bytes_of(webp.image)) +
                                                  tar_file("3.jpeg", bytes_of(webp.image)) +
                                                  tar_file("4.png", bytes_of(cut)) + tar_end());
  const WebDataset data({shard}, {.parts = {any_image("image", exact)}});
  ASSERT_EQ(data.size(), 5U);
  SampleBuffer sample(data.fields());
  for (std::uint64_t i = 0; i < 4; ++i) {
    data.read(i, sample);
    const auto found = sample.as<std::uint8_t>(0);
    EXPECT_EQ(Pixels(found.begin(), found.end()), i < 2 ? png.pixels : webp.pixels) << i;
  }
  expect_contains(error_of([&] { data.read(4, sample); }),
                  {"4.png of " + shard.string(), "it is cut off, near byte"});
}

}  // namespace png_webp_test
}  // namespace leat::feeder
