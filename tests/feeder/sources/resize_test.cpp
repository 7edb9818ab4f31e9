// Against Pillow's results and a slow reference, with and without vector instructions.
#include "leat/feeder/sources/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "bench/data/synthetic_images.h"
#include "leat/feeder/random.h"
#include "leat/feeder/sources/resize_kernels.h"
#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {
namespace resize_test {

using Pixels = std::vector<std::uint8_t>;

Pixels resized(const Pixels& pixels, std::uint32_t width, const Resize& resize) {
  Pixels out(std::size_t{3} * resize.x.count * resize.y.count);
  resize_image(pixels, width, resize, out);
  return out;
}

ResizeAxis all_of(std::uint32_t length, std::uint32_t size) {
  return {0, static_cast<double>(length), size, 0, size, 0, length};
}

// One pixel of an axis as the weights of source pixels, in double precision and by the definition.
std::vector<double> weights(const ResizeAxis& axis, std::uint32_t pixel, bool antialias) {
  const double scale = (axis.end - axis.begin) / axis.size;
  const double support = antialias ? std::max(scale, 1.0) : 1.0;
  const double center = axis.begin + (axis.first + pixel + 0.5) * scale;
  std::vector<double> found(axis.high);
  double sum = 0;
  for (std::uint32_t i = axis.low; i < axis.high; ++i) {
    found[i] = std::max(0.0, 1 - std::abs(i + 0.5 - center) / support);
    sum += found[i];
  }
  for (double& weight : found) weight /= sum;
  return found;
}

// How far the result is from the reference, which rounds nothing.
double difference(const Pixels& pixels, std::uint32_t width, const Resize& resize) {
  const Pixels out = resized(pixels, width, resize);
  double most = 0;
  for (std::uint32_t y = 0; y < resize.y.count; ++y) {
    const std::vector<double> down = weights(resize.y, y, resize.antialias);
    for (std::uint32_t x = 0; x < resize.x.count; ++x) {
      const std::vector<double> right =
          weights(resize.x, resize.mirrored ? resize.x.count - 1 - x : x, resize.antialias);
      std::array<double, 3> sum{};
      for (std::size_t j = 0; j < down.size(); ++j) {
        if (down[j] == 0) continue;
        for (std::size_t i = 0; i < right.size(); ++i) {
          if (right[i] == 0) continue;
          for (std::size_t c = 0; c < 3; ++c) {
            sum[c] += down[j] * right[i] * pixels[3 * (j * width + i) + c];
          }
        }
      }
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t at = resize.planar ? (c * resize.y.count + y) * resize.x.count + x
                                             : 3 * (std::size_t{y} * resize.x.count + x) + c;
        most = std::max(most, std::abs(sum[c] - out[at]));
      }
    }
  }
  return most;
}

// Sums of what Pillow 13.0.0 makes of the same image with resize(size, BILINEAR), and crop():
// zlib.crc32(image.tobytes()). Those with * differ from Pillow 12.3, which resizes columns first
// there too.
TEST(Resize, BitsArePillows) {
  const Pixels image = synthetic_image(1, 0, 500, 375);
  ASSERT_EQ(crc32_of(image), 0x214f3f82U) << "the image is not the one that Pillow resized";
  const auto sum = [&](const ResizeAxis& x, const ResizeAxis& y) {
    return crc32_of(resized(image, 500, {x, y}));
  };
  EXPECT_EQ(sum(all_of(500, 224), all_of(375, 224)), 0x20b016e3U);
  // resize((341, 256)).crop((58, 16, 282, 240))
  EXPECT_EQ(sum({0, 500, 341, 58, 224, 0, 500}, {0, 375, 256, 16, 224, 0, 375}), 0x9f538380U);
  // * crop((100, 37, 353, 340)).resize((224, 224))
  EXPECT_EQ(sum({100, 353, 224, 0, 224, 100, 353}, {37, 340, 224, 0, 224, 37, 340}), 0xf4f577b6U);
  // crop((10, 20, 60, 65)).resize((224, 100))
  EXPECT_EQ(sum({10, 60, 224, 0, 224, 10, 60}, {20, 65, 100, 0, 100, 20, 65}), 0x35b36257U);
  // resize((97, 55), box=(10, 20, 310, 365))
  EXPECT_EQ(sum({10, 310, 97, 0, 97, 0, 500}, {20, 365, 55, 0, 55, 0, 375}), 0x256eb118U);
  EXPECT_EQ(sum(all_of(500, 7), all_of(375, 1)), 0x450bcc22U);
  EXPECT_EQ(sum(all_of(500, 1000), all_of(375, 3)), 0x84717689U);  // *
  // * resize((480, 50)).crop((58, 16, 282, 48))
  EXPECT_EQ(sum({0, 500, 480, 58, 224, 0, 500}, {0, 375, 50, 16, 32, 0, 375}), 0x3323cbffU);
  EXPECT_EQ(sum(all_of(500, 490), all_of(375, 20)), 0xc0c58559U);  // *
}

// Two roundings to bytes are at most 1 off, and half a one for the comparison with what is exact.
TEST(Resize, IsTheTriangleFilterAntialiasedOrNot) {
  const std::uint32_t width = 61;
  const std::uint32_t height = 47;
  const Pixels image = synthetic_image(2, 0, width, height);
  Random random(3, 0, 0);
  const auto random_axis = [&](std::uint32_t length) {
    ResizeAxis axis;
    axis.begin = random.uniform() * (length - 1);
    axis.end = axis.begin + std::max(0.1, random.uniform() * (length - axis.begin));
    axis.size = 1 + static_cast<std::uint32_t>(random.below(90));
    axis.first = static_cast<std::uint32_t>(random.below(axis.size));
    axis.count = 1 + static_cast<std::uint32_t>(random.below(axis.size - axis.first));
    axis.high = length;
    if (random.below(2) == 0) {  // only the box
      axis.low = static_cast<std::uint32_t>(axis.begin);
      axis.high = static_cast<std::uint32_t>(std::ceil(axis.end));
    }
    return axis;
  };
  for (int i = 0; i < 600; ++i) {
    Resize resize{random_axis(width), random_axis(height)};
    resize.mirrored = random.below(2) == 0;
    resize.planar = random.below(2) == 0;
    resize.antialias = i % 2 == 0;
    ASSERT_LT(difference(image, width, resize), 1.01) << "resize " << i;
  }
}

// Every third pixel of 9 is the middle of one of 3; without antialiasing nothing else is looked at.
TEST(Resize, WithoutAntialiasingWhatLiesBetweenIsNotLookedAt) {
  Pixels image(std::size_t{3} * 9 * 9);
  for (std::size_t y = 0; y < 9; ++y) {
    for (std::size_t x = 0; x < 9; ++x) {
      const bool is_middle = x % 3 == 1 && y % 3 == 1;
      image[3 * (y * 9 + x)] = static_cast<std::uint8_t>(is_middle ? 10 * y + x : 255);
    }
  }
  Resize resize{all_of(9, 3), all_of(9, 3)};
  resize.antialias = false;
  const Pixels out = resized(image, 9, resize);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(out[3 * i], 10 * (i / 3 * 3 + 1) + i % 3 * 3 + 1);
  resize.antialias = true;
  EXPECT_NE(resized(image, 9, resize), out);
}

// Larger, the two are one.
TEST(Resize, ToMorePixelsNeedsNoAntialiasing) {
  const Pixels image = synthetic_image(2, 0, 61, 47);
  Resize resize{all_of(61, 100), all_of(47, 50)};
  const Pixels out = resized(image, 61, resize);
  resize.antialias = false;
  EXPECT_EQ(resized(image, 61, resize), out);
}

TEST(Resize, OfTheSameSizeIsACopy) {
  const Pixels image = synthetic_image(2, 0, 61, 47);
  EXPECT_EQ(resized(image, 61, {all_of(61, 61), all_of(47, 47)}), image);
}

TEST(Resize, VectorInstructionsMakeNoDifference) {
  using namespace resize_kernels;
  if (&fastest() == &portable()) GTEST_SKIP() << "no vector instructions for it here";
  Random random(4, 0, 0);
  constexpr std::size_t kWidth = 70;
  constexpr std::size_t kStride = 3 * kWidth + 16;
  for (int i = 0; i < 500; ++i) {
    const auto count = 1 + static_cast<std::uint32_t>(random.below(20));
    const auto pixels = 1 + static_cast<std::uint32_t>(random.below(50));
    Pixels rows(kStride * 24);
    for (std::uint8_t& byte : rows) byte = static_cast<std::uint8_t>(random());
    std::vector<Taps> taps;
    std::vector<WeightPair> pairs;
    for (std::uint32_t p = 0; p < pixels; ++p) {
      taps.push_back({static_cast<std::uint32_t>(random.below(kWidth - count)), count,
                      static_cast<std::uint32_t>(pairs.size())});
      // Weights sum to 2^22 at most; one alone may be all of it.
      auto left = std::uint32_t{1} << kWeightBits;
      for (std::uint32_t k = 0; k < count; ++k) {
        const auto weight = k + 1 == count ? left : static_cast<std::uint32_t>(random.below(left));
        left -= weight;
        if (k % 2 == 0) pairs.push_back({});
        pairs.back().high[k % 2] = static_cast<std::int16_t>(weight >> kLowBits);
        pairs.back().low[k % 2] = static_cast<std::int16_t>(weight & ((1U << kLowBits) - 1));
      }
    }
    std::array<Pixels, 2> out;
    for (std::size_t which = 0; which < 2; ++which) {
      const Kernels& kernels = which == 0 ? portable() : fastest();
      const std::size_t row_bytes = std::size_t{3} * pixels;
      out[which].assign(kRows * (row_bytes + 16), 0);
      const std::uint8_t* from[kRows];
      std::uint8_t* to[kRows];
      for (std::size_t r = 0; r < kRows; ++r) {
        from[r] = rows.data() + r * kStride;
        to[r] = out[which].data() + r * (row_bytes + 16);
      }
      kernels.along_x(from, taps, pairs.data(), to);
      for (std::size_t r = 0; r < kRows; ++r) std::fill_n(to[r] + row_bytes, 16, 0);
      Pixels line(kWidth * 3 / 16 * 16);
      kernels.along_y(rows.data(), kStride, {2, count, 0}, pairs.data(), line.data(), line.size());
      out[which].insert(out[which].end(), line.begin(), line.end());
    }
    ASSERT_EQ(out[0], out[1]);
  }
}

TEST(Resize, WrongCallsAreACallersError) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const ResizeAxis good = all_of(10, 5);
  for (const ResizeAxis& bad :
       {ResizeAxis{0, 0, 5, 0, 5, 0, 10}, ResizeAxis{nan, 10, 5, 0, 5, 0, 10},
        ResizeAxis{0, nan, 5, 0, 5, 0, 10}, ResizeAxis{0, 11, 5, 0, 5, 0, 10},
        ResizeAxis{1, 10, 5, 0, 5, 2, 10}, ResizeAxis{0, 10, 0, 0, 0, 0, 10},
        ResizeAxis{0, 10, 5, 0, 0, 0, 10}, ResizeAxis{0, 10, 5, 1, 5, 0, 10},
        ResizeAxis{0, 10, 5, ~0U, 2, 0, 10}, ResizeAxis{0, 10, ~0U, 0, 1, 0, 10},
        ResizeAxis{0, 1e9, 5, 0, 5, 0, 1'000'000'000}}) {
    EXPECT_THROW(static_cast<void>(source_range(bad)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(Resizer::scratch_bytes({good, bad})), std::invalid_argument);
  }
  const Pixels image(300);
  Pixels out(75);
  resize_image(image, 10, {good, good}, out);
  EXPECT_THROW(resize_image(std::span(image).first(299), 10, {good, good}, out),
               std::invalid_argument);
  EXPECT_THROW(resize_image(image, 9, {good, good}, out), std::invalid_argument);
  EXPECT_THROW(resize_image(image, 10, {good, good}, std::span(out).first(74)),
               std::invalid_argument);
}

TEST(Resize, RowsAreCounted) {
  const Resize resize{all_of(10, 5), all_of(10, 5)};
  std::vector<std::byte> memory(Resizer::scratch_bytes(resize) + 64);
  void* aligned = memory.data();
  std::size_t room = memory.size();
  auto* const scratch = static_cast<std::byte*>(std::align(64, room - 64, aligned, room));
  const Pixels image(std::size_t{300} + Resizer::kSlack);
  Pixels out(75);
  EXPECT_THROW(Resizer(resize, {scratch, 64}), std::invalid_argument);
  Resizer resizer(resize, {scratch, Resizer::scratch_bytes(resize)});
  resizer.add_rows(image.data(), 30, 0, 9);
  EXPECT_THROW(resizer.finish(out), std::invalid_argument);
  EXPECT_THROW(resizer.add_rows(image.data(), 30, 0, 2), std::invalid_argument);
  EXPECT_THROW(resizer.add_rows(image.data(), 30, 1, 1), std::invalid_argument);
  resizer.add_rows(image.data(), 30, 0, 1);
  resizer.finish(out);
}

}  // namespace resize_test
}  // namespace leat::feeder
