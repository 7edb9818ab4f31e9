// The images of data/images.bin, which make_images.py beside it has written, with Pillow's pixels.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/sources/images/png.h"
#include "leat/feeder/sources/images/webp.h"

#define LEAT_NEEDS_PNG() \
  if (!kReadsPng) GTEST_SKIP() << "built without libpng"
#define LEAT_NEEDS_WEBP() \
  if (!kReadsWebp) GTEST_SKIP() << "built without libwebp"

namespace leat::feeder {

/// An image, and what it is decoded to.
struct KnownPixels {
  std::string name;  // "gray1.png"
  std::string image;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(image.data(), image.size()));
  }
};

/// All of them whose names end so.
inline std::vector<KnownPixels> known_images(std::string_view ending) {
  std::ifstream in("tests/feeder/sources/data/images.bin", std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(in), {});
  std::vector<KnownPixels> found;
  std::size_t at = 0;
  const auto number = [&] {
    std::uint32_t value = 0;
    std::memcpy(&value, all.substr(at, 4).data(), 4);
    at += 4;
    return value;
  };
  const auto text = [&](std::uint32_t size) {
    at += size;
    return all.substr(at - size, size);
  };
  while (at < all.size()) {
    KnownPixels one;
    one.name = text(number());
    one.image = text(number());
    one.width = number();
    one.height = number();
    const std::string pixels = text(number());
    one.pixels.assign(pixels.begin(), pixels.end());
    if (one.name.ends_with(ending)) found.push_back(std::move(one));
  }
  if (found.empty()) throw std::runtime_error("no known images *" + std::string(ending));
  return found;
}

/// That of this name.
inline KnownPixels known_image_named(std::string_view name) { return known_images(name).front(); }

}  // namespace leat::feeder
