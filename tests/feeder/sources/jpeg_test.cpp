// Pixels, regions, scales, and what is no whole JPEG image.
#include "leat/feeder/sources/jpeg.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/data/synthetic_images.h"
#include "leat/feeder/random.h"
#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {
namespace jpeg_test {

using Image = std::vector<std::byte>;  // a JPEG file
using Pixels = std::vector<std::uint8_t>;

struct Rows {
  JpegRegion region;
  Pixels pixels;
};

Rows decode(JpegDecoder& decoder, const Image& image, const JpegRegion& wanted,
            unsigned denominator = 1) {
  decoder.open(image);
  Rows rows{decoder.start(wanted, denominator), {}};
  rows.pixels.resize(std::size_t{3} * rows.region.width * rows.region.height);
  decoder.read(rows.pixels, rows.region.height);
  return rows;
}

JpegRegion whole(const JpegHeader& header, unsigned denominator = 1) {
  return {0, 0, (header.width + denominator - 1) / denominator,
          (header.height + denominator - 1) / denominator};
}

Pixels decode(const Image& image, unsigned denominator = 1, const JpegOptions& options = {}) {
  JpegDecoder decoder(options);
  return decode(decoder, image, whole(decoder.open(image), denominator), denominator).pixels;
}

std::string error_from(const Image& image, const JpegOptions& options = {}) {
  return error_of([&] { decode(image, 1, options); });
}

// Every way of storing an image that is common, and some that are not.
std::vector<JpegEncoding> encodings() {
  return {{.chroma_columns = 2, .chroma_rows = 2},
          {.chroma_columns = 2, .chroma_rows = 1},
          {.chroma_columns = 1, .chroma_rows = 1},
          {.chroma_columns = 1, .chroma_rows = 2},
          {.chroma_columns = 4, .chroma_rows = 1},
          {.chroma_columns = 4, .chroma_rows = 2},  // "4:1:0"
          {.chroma_columns = 2, .chroma_rows = 4},
          {.progressive = true},
          {.restart_rows = 1},
          {.color = JpegColor::kGray},
          {.color = JpegColor::kCmyk}};
}

double mean_difference(const Pixels& a, const Pixels& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

Image from_hex(std::string_view digits) {
  Image bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    int byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    bytes.push_back(static_cast<std::byte>(byte));
  }
  return bytes;
}

// 24 x 16 pixels each, made by Pillow 11.3; the sums are of its pixels and of Pillow 13.0's,
// convert("RGB").
constexpr std::string_view kPillowRgb420 =
    "ffd8ffe000104a46494600010100000100010000ffdb004300281c1e231e19282321232d2b28303c64413c37"
    "373c7b585d4964918099968f808c8aa0b4e6c3a0aadaad8a8cc8ffcbdaeef5ffffff9bc1fffffffaffe6fdff"
    "f8ffdb0043012b2d2d3c353c76414176f8a58ca5f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8"
    "f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8f8ffc000110800100018030122000211010311"
    "01ffc40017000003010000000000000000000000000000030405ffc4001a1000030003010000000000000000"
    "00000000020301215161ffc40017010003010000000000000000000000000000020304ffc4001a1100020301"
    "01000000000000000000000000030102211112ffda000c03010002110311003f00812035618e15a4758d0d58"
    "87a8e135b891638e01a0b1f0049be9b6aec3ffd9";
constexpr std::string_view kPillowCmyk =
    "ffd8ffee000e41646f626500640000000000ffdb004300281c1e231e19282321232d2b28303c64413c37373c"
    "7b585d4964918099968f808c8aa0b4e6c3a0aadaad8a8cc8ffcbdaeef5ffffff9bc1fffffffaffe6fdfff8ff"
    "c000140800100018044311004d11005911004b1100ffc4001900000301010100000000000000000000000004"
    "05020306ffc400191000020301000000000000000000000000000203146101ffda000e0443004d0059004b00"
    "003f00a538f5ad293b967bd27ce16b45ddccf589f385ad177733d90f41391ad68c3b9a6e93e70b5a2eee7176"
    "27ce16b45ddce0d21fffd9";

TEST(Jpeg, PixelsArePillows) {
  const Pixels rgb = decode(from_hex(kPillowRgb420));
  ASSERT_EQ(rgb.size(), 24U * 16 * 3);
  EXPECT_EQ(crc32_of(rgb), 0x6753ae52U);
  EXPECT_EQ(Pixels(rgb.end() - 3, rgb.end()), (Pixels{240, 240, 144}));
  const Pixels cmyk = decode(from_hex(kPillowCmyk));
  EXPECT_EQ(crc32_of(cmyk), 0xd00a9fc2U);
  EXPECT_EQ(Pixels(cmyk.end() - 3, cmyk.end()), (Pixels{14, 9, 39}));
}

TEST(Jpeg, PixelsAreNearThoseThatWereEncoded) {
  const Pixels original = synthetic_image(1, 0, 123, 77);
  for (JpegEncoding encoding : encodings()) {
    if (encoding.color != JpegColor::kYcc) continue;
    encoding.quality = 98;
    EXPECT_LT(mean_difference(decode(encode_jpeg(original, 123, 77, encoding)), original), 8);
  }
}

TEST(Jpeg, GrayHasThreeEqualChannels) {
  const Pixels original = synthetic_image(1, 0, 40, 30);
  const Image image = encode_jpeg(original, 40, 30, {.quality = 100, .color = JpegColor::kGray});
  JpegDecoder decoder;
  EXPECT_EQ(decoder.open(image).components, 1U);
  const Pixels pixels = decode(image);
  for (std::size_t i = 0; i < pixels.size(); i += 3) {
    ASSERT_EQ(pixels[i], pixels[i + 1]);
    ASSERT_EQ(pixels[i], pixels[i + 2]);
    ASSERT_NEAR(pixels[i], original[i], 3);
  }
}

// Adobe's inverted values, with no black: they are what is left of red, green and blue.
TEST(Jpeg, CmykBecomesRgb) {
  const Pixels original = synthetic_image(1, 0, 40, 30);
  const Image image = encode_jpeg(original, 40, 30, {.quality = 100, .color = JpegColor::kCmyk});
  JpegDecoder decoder;
  EXPECT_EQ(decoder.open(image).components, 4U);
  EXPECT_LT(mean_difference(decode(image), original), 2);
}

// Pillow takes the values for Adobe's in both cases.
TEST(Jpeg, CmykWithoutAdobesMarkerIsTheSameImage) {
  Image image = from_hex(kPillowCmyk);
  constexpr std::ptrdiff_t kAfterStart = 2;
  constexpr std::ptrdiff_t kMarkerBytes = 16;
  image.erase(image.begin() + kAfterStart, image.begin() + kAfterStart + kMarkerBytes);
  EXPECT_EQ(crc32_of(decode(image)), 0xd00a9fc2U);
}

TEST(Jpeg, RegionsAreWhatTheyAreInTheWholeImage) {
  const std::uint32_t width = 203;
  const std::uint32_t height = 157;
  const Pixels original = synthetic_image(3, 0, width, height);
  Random random(1, 0, 0);
  JpegDecoder decoder;
  for (const JpegEncoding& encoding : encodings()) {
    const Image image = encode_jpeg(original, width, height, encoding);
    const JpegHeader header = decoder.open(image);
    for (const unsigned denominator : {1U, 2U, 4U, 8U}) {
      const JpegRegion all = whole(header, denominator);
      const Rows full = decode(decoder, image, all, denominator);
      ASSERT_EQ(full.region, all);
      for (int i = 0; i < 40; ++i) {
        JpegRegion wanted;
        wanted.left = static_cast<std::uint32_t>(random.below(all.width));
        wanted.top = static_cast<std::uint32_t>(random.below(all.height));
        wanted.width = 1 + static_cast<std::uint32_t>(random.below(all.width - wanted.left));
        wanted.height = 1 + static_cast<std::uint32_t>(random.below(all.height - wanted.top));
        const Rows part = decode(decoder, image, wanted, denominator);
        const JpegRegion& found = part.region;
        ASSERT_LE(found.left, wanted.left);
        ASSERT_GE(found.left + found.width, wanted.left + wanted.width);
        ASSERT_EQ(found.top, wanted.top);
        ASSERT_EQ(found.height, wanted.height);
        for (std::size_t y = 0; y < wanted.height; ++y) {
          const auto* const expected =
              full.pixels.data() + 3 * ((wanted.top + y) * all.width + wanted.left);
          const auto* const pixels =
              part.pixels.data() + 3 * (y * found.width + wanted.left - found.left);
          ASSERT_TRUE(std::equal(pixels, pixels + std::size_t{3} * wanted.width, expected))
              << "row " << y << " of " << wanted.width << " x " << wanted.height << " at "
              << wanted.left << ", " << wanted.top << ", 1/" << denominator << ", chroma "
              << encoding.chroma_columns << " x " << encoding.chroma_rows;
        }
      }
    }
  }
}

TEST(Jpeg, ADecoderReadsOneImageAfterTheOtherAndAfterAnError) {
  JpegDecoder decoder;
  const Image good = encode_jpeg(synthetic_image(1, 0, 60, 50), 60, 50);
  const Image other = encode_jpeg(synthetic_image(1, 1, 30, 90), 30, 90, {.progressive = true});
  const Pixels expected = decode(good);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(decode(decoder, good, {0, 0, 60, 50}).pixels, expected);
    EXPECT_THROW(decode(decoder, Image(good.begin(), good.begin() + 900), {0, 0, 60, 50}), Error);
    const JpegHeader header = decoder.open(other);
    EXPECT_EQ(header.width, 30U);
    EXPECT_EQ(header.height, 90U);
    EXPECT_TRUE(header.progressive);
    decoder.start({0, 0, 30, 90});  // and is not read
  }
}

TEST(Jpeg, RowsAreReadInAnyPortions) {
  const Image image = encode_jpeg(synthetic_image(1, 0, 60, 50), 60, 50);
  const Pixels expected = decode(image);
  JpegDecoder decoder;
  decoder.open(image);
  decoder.start({0, 0, 60, 50});
  Pixels pixels;
  for (const std::uint32_t rows : {1U, 2U, 30U, 0U, 17U}) {
    Pixels some(std::size_t{3} * 60 * rows);
    decoder.read(some, rows);
    pixels.insert(pixels.end(), some.begin(), some.end());
  }
  EXPECT_EQ(pixels, expected);
}

TEST(Jpeg, WrongCallsAreACallersError) {
  const Image image = encode_jpeg(synthetic_image(1, 0, 60, 50), 60, 50);
  JpegDecoder decoder;
  for (const JpegRegion& region :
       {JpegRegion{0, 0, 0, 50}, JpegRegion{0, 0, 60, 0}, JpegRegion{1, 0, 60, 50},
        JpegRegion{0, 1, 60, 50}, JpegRegion{0, 0, 61, 50}, JpegRegion{~0U, ~0U, ~0U, ~0U}}) {
    decoder.open(image);
    EXPECT_THROW(decoder.start(region), std::invalid_argument);
  }
  EXPECT_THROW(decoder.start({0, 0, 60, 50}, 3), std::invalid_argument);
  EXPECT_THROW(decoder.start({0, 0, 31, 25}, 2), std::invalid_argument);
  decoder.start({0, 10, 60, 20});
  Pixels pixels(std::size_t{3} * 60 * 20);
  EXPECT_THROW(decoder.read(pixels, 21), std::invalid_argument);
  EXPECT_THROW(decoder.read(std::span(pixels).first(3599), 20), std::invalid_argument);
  decoder.read(pixels, 20);
  EXPECT_THROW(decoder.read(pixels, 1), std::invalid_argument);
}

TEST(Jpeg, AnImageThatIsCutOffIsAnErrorWhereverThatIs) {
  for (const bool progressive : {false, true}) {
    const Image image =
        encode_jpeg(synthetic_image(1, 0, 60, 50), 60, 50, {.progressive = progressive});
    for (std::size_t size = 0; size < image.size(); ++size) {
      const Image cut(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(size));
      expect_contains(error_from(cut),
                      {"Premature end of JPEG file", "of " + std::to_string(size)});
      expect_contains(error_from(cut, {.accept_corrupt = true}), {"Premature end of JPEG file"});
    }
  }
}

TEST(Jpeg, CorruptDataIsAnErrorUnlessItIsAccepted) {
  Image image = encode_jpeg(synthetic_image(1, 0, 160, 120), 160, 120);
  const auto middle = image.begin() + static_cast<std::ptrdiff_t>(image.size() / 2);
  image.erase(middle, middle + 1000);
  expect_contains(error_from(image), {"cannot read a JPEG image: Corrupt JPEG data", "near byte"});
  JpegDecoder lenient({.accept_corrupt = true});
  const Rows rows = decode(lenient, image, {0, 0, 160, 120});
  EXPECT_GT(lenient.warnings(), 0U);
  EXPECT_EQ(rows.pixels.size(), 3U * 160 * 120);
  lenient.open(encode_jpeg(synthetic_image(1, 0, 16, 12), 16, 12));
  EXPECT_EQ(lenient.warnings(), 0U);
}

TEST(Jpeg, WhatIsNoImageIsTold) {
  const auto bytes_of = [](std::string_view text) {
    Image bytes;
    for (const char letter : text) bytes.push_back(static_cast<std::byte>(letter));
    return bytes;
  };
  expect_contains(error_from(bytes_of("<html>404")),
                  {"Not a JPEG file: starts with 0x3c 0x68", "fetch the file again"});
  Image image = encode_jpeg(synthetic_image(1, 0, 60, 50), 60, 50);
  const std::vector<std::byte> marker = {std::byte{0xff}, std::byte{0xc0}};
  const auto frame = std::search(image.begin(), image.end(), marker.begin(), marker.end());
  frame[4] = std::byte{12};
  expect_contains(error_from(image), {"Unsupported JPEG data precision 12", "convert it"});
  frame[4] = std::byte{8};
  frame[1] = std::byte{0xc3};
  expect_contains(error_from(image), {"Unsupported JPEG process", "convert it"});
}

// ImageNet has a PNG image named .JPEG. To fetch it again would not help.
TEST(Jpeg, AnotherFormatIsNamedWithWhatToDo) {
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, std::string>> formats = {
      {"\x89PNG\r\n\x1a\n"s, "a PNG image"},
      {"GIF89a"s, "a GIF image"},
      {"RIFF\x10\0\0\0WEBPVP8 "s, "a WebP image"},
      {"II*\0"s, "a TIFF image"},
      {"MM\0*"s, "a TIFF image"},
      {"BM\x10\0\0\0\0\0\0\0\0\0"s, "a BMP image"},
      {"\0\0\0\x1c"
       "ftypavif"s,
       "an AVIF image"},
      {"\0\0\0\x1c"
       "ftypheic"s,
       "a HEIC image"},
      {"\0\0\0\x0cJXL \r\n"s, "a JPEG XL image"},
      {"\0\0\0\x0cjP  \r\n"s, "a JPEG 2000 image"}};
  for (const auto& [start, name] : formats) {
    for (const std::string& rest : {""s, std::string(100, '?')}) {
      Image image;
      for (const char letter : start + rest) image.push_back(static_cast<std::byte>(letter));
      expect_contains(error_from(image), {"it is " + name, "convert it", "read_failures"});
    }
  }
}

TEST(Jpeg, AnAbsurdSizeIsRefusedBeforeAnythingIsAllocated) {
  Image image = encode_jpeg(synthetic_image(1, 0, 60, 50), 60, 50);
  expect_contains(error_from(image, {.max_pixels = 2999}),
                  {"60 x 50 pixels, more than the 2999", "raise the option max_pixels"});
  EXPECT_EQ(decode(image, 1, {.max_pixels = 3000}).size(), 9000U);
  const std::vector<std::byte> marker = {std::byte{0xff}, std::byte{0xc0}};
  const auto frame = std::search(image.begin(), image.end(), marker.begin(), marker.end());
  for (int i = 5; i < 9; ++i) frame[i] = std::byte{0xf0};
  expect_contains(error_from(image), {"61680 x 61680 pixels, more than"});
}

// What is small and takes for ever: scans that say the same again.
TEST(Jpeg, AnImageOfThousandsOfScansIsRefused) {
  Image image = encode_jpeg(synthetic_image(1, 0, 60, 50), 60, 50, {.progressive = true});
  const std::vector<std::byte> marker = {std::byte{0xff}, std::byte{0xda}};
  const auto scan = std::find_end(image.begin(), image.end(), marker.begin(), marker.end());
  const Image last(scan, image.end() - 2);
  for (int i = 0; i < 3000; ++i) image.insert(image.end() - 2, last.begin(), last.end());
  expect_contains(error_from(image, {.accept_corrupt = true}), {"more than 500 scans"});
}

}  // namespace jpeg_test
}  // namespace leat::feeder
