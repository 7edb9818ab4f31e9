// Resizes: rows may come in any portions, and the pixels are those that double precision gives.
#include <array>
#include <cmath>
#include <vector>

#include "leat/feeder/sources/resize.h"
#include "tests/fuzz/support.h"

namespace {

using namespace leat::feeder;
using namespace leat::fuzz;

constexpr std::uint32_t kWidth = 60;
constexpr std::uint32_t kHeight = 40;

ResizeAxis axis(Numbers& numbers, std::uint32_t length) {
  const auto number = [&](std::uint32_t end) {
    return static_cast<std::uint32_t>(numbers.below(end));
  };
  ResizeAxis made;
  made.low = number(length);
  made.high = made.low + 1 + number(length - made.low);
  made.begin = made.low + number(256) / 256.0 * (made.high - made.low);
  made.end = made.begin + (number(256) + 1) / 256.0 * (made.high - made.begin);
  made.size = number(80);
  made.first = number(80);
  made.count = number(80);
  return made;
}

// Weights of the source pixels for one pixel of the result.
std::vector<double> weights(const ResizeAxis& axis, std::uint32_t pixel, bool antialias) {
  const double scale = (axis.end - axis.begin) / axis.size;
  const double support = antialias ? std::max(scale, 1.0) : 1.0;
  const double center = axis.begin + (axis.first + pixel + 0.5) * scale;
  std::vector<double> found(axis.high);
  double sum = 0;
  for (std::uint32_t i = axis.low; i < axis.high; ++i) {
    sum += found[i] = std::max(0.0, 1 - std::abs(i + 0.5 - center) / support);
  }
  for (double& weight : found) weight /= sum;
  return found;
}

void compare(const std::vector<std::uint8_t>& pixels, const Resize& resize,
             const std::vector<std::uint8_t>& out, std::uint32_t x, std::uint32_t y) {
  const std::vector<double> down = weights(resize.y, y, resize.antialias);
  const std::vector<double> right =
      weights(resize.x, resize.mirrored ? resize.x.count - 1 - x : x, resize.antialias);
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0;
    for (std::size_t j = 0; j < down.size(); ++j) {
      for (std::size_t i = 0; i < right.size(); ++i) {
        sum += down[j] * right[i] * pixels[3 * (j * kWidth + i) + c];
      }
    }
    const std::size_t at = resize.planar ? (c * resize.y.count + y) * resize.x.count + x
                                         : 3 * (std::size_t{y} * resize.x.count + x) + c;
    require(std::abs(sum - out[at]) < 1.51,
            "a pixel is " + std::to_string(out[at]) + ", not " + std::to_string(sum));
  }
}

void resize_image_of(Input noise, Numbers& numbers) {
  Resize resize{axis(numbers, kWidth), axis(numbers, kHeight)};
  resize.mirrored = numbers.below(2) == 1;
  resize.planar = numbers.below(2) == 1;
  resize.antialias = numbers.below(2) == 1;
  std::vector<std::uint8_t> pixels(std::size_t{3} * kWidth * kHeight);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = noise.empty() ? static_cast<std::uint8_t>(i * 7) : noise[i % noise.size()];
  }
  std::vector<std::uint8_t> out(std::size_t{3} * resize.x.count * resize.y.count);
  resize_image(pixels, kWidth, resize, out);

  std::vector<std::byte> memory(Resizer::scratch_bytes(resize) + 64);
  void* aligned = memory.data();
  std::size_t room = memory.size();
  std::align(64, room - 64, aligned, room);
  Resizer resizer(resize, {static_cast<std::byte*>(aligned), room});
  const PixelRange rows = source_range(resize.y, resize.antialias);
  pixels.resize(pixels.size() + Resizer::kSlack);
  for (std::uint32_t done = 0; done < rows.count;) {
    const auto now = std::min(1 + static_cast<std::uint32_t>(numbers.below(9)), rows.count - done);
    resizer.add_rows(pixels.data() + std::size_t{3} * kWidth * (rows.first + done),
                     std::size_t{3} * kWidth, 0, now);
    done += now;
  }
  std::vector<std::uint8_t> again(out.size());
  resizer.finish(again);
  require(again == out, "other pixels where the rows come in portions");
  for (int i = 0; i < 8 && !out.empty(); ++i) {
    compare(pixels, resize, out, static_cast<std::uint32_t>(numbers.below(resize.x.count)),
            static_cast<std::uint32_t>(numbers.below(resize.y.count)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kOptions = 60;
  const std::size_t options = std::min(size, kOptions);
  Numbers numbers({data + size - options, options});
  succeeds([&] { resize_image_of({data, size - options}, numbers); }, "", true);
  return 0;
}
