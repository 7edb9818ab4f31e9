// Always true: boxes are computed in the pixels of the whole image, as torchvision does, and then
// divided by the denominator of scaled decoding.
#include "leat/feeder/sources/image.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "leat/feeder/sources/read_image.h"

namespace leat::feeder {
namespace {

// How many rows are decoded, and then resized along x while they are in the cache. A multiple of
// the rows that libjpeg returns at a time, and of the rows that are resized together.
constexpr std::uint32_t kStrip = 16;

constexpr int kAttempts = 10;  // as torchvision, to find a box within the image

[[noreturn]] void refuse_options(const std::string& why) {
  throw std::invalid_argument("leat: an image's options: " + why);
}

void check(const ImageOptions& options) {
  constexpr std::int64_t kMost = 1 << 16;
  const auto within = [](double from, double to, double most) {
    return from > 0 && from <= to && to <= most;
  };
  if (options.height < 1 || options.width < 1 || options.height > kMost || options.width > kMost) {
    refuse_options("height and width are 1 to 65536");
  }
  if (options.fit == Fit::kCenterCrop &&
      (options.shorter_side < std::max(options.height, options.width) ||
       options.shorter_side > kMost)) {
    refuse_options("shorter_side is at least height and width, and at most 65536");
  }
  if (options.fit == Fit::kRandomResizedCrop &&
      (!within(options.scale[0], options.scale[1], 1) ||
       !within(options.ratio[0], options.ratio[1], 1000))) {
    refuse_options("0 < scale[0] <= scale[1] <= 1, and 0 < ratio[0] <= ratio[1] <= 1000");
  }
  if (!(options.mirror >= 0 && options.mirror <= 1)) refuse_options("mirror is a probability");
}

// As Python's round(), which torchvision calls: rounds halves to even, as nearbyint() by default.
std::uint32_t rounded(double value) { return static_cast<std::uint32_t>(std::nearbyint(value)); }

ResizeAxis stretched(std::uint32_t begin, std::uint32_t length, std::uint32_t size) {
  const std::uint32_t end = begin + length;
  return {static_cast<double>(begin), static_cast<double>(end), size, 0, size, begin, end};
}

ResizeAxis centered(std::uint32_t length, std::uint32_t size, std::uint32_t count) {
  return {0, static_cast<double>(length), size, rounded((size - count) / 2.0), count, 0, length};
}

double between(const std::array<double, 2>& bounds, double share) {
  return bounds[0] + share * (bounds[1] - bounds[0]);
}

// torchvision.transforms.RandomResizedCrop.get_params, with the sample's random numbers.
JpegRegion random_box(const ImageOptions& options, std::uint32_t width, std::uint32_t height,
                      Random& random) {
  const double area = static_cast<double>(width) * height;
  const std::array<double, 2> log_ratio = {std::log(options.ratio[0]), std::log(options.ratio[1])};
  for (int i = 0; i < kAttempts; ++i) {
    const double target = area * between(options.scale, random.uniform());
    const double ratio = std::exp(between(log_ratio, random.uniform()));
    const double w = std::nearbyint(std::sqrt(target * ratio));
    const double h = std::nearbyint(std::sqrt(target / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const auto box_width = static_cast<std::uint32_t>(w);
    const auto box_height = static_cast<std::uint32_t>(h);
    const auto top = static_cast<std::uint32_t>(random.below(height - box_height + 1));
    const auto left = static_cast<std::uint32_t>(random.below(width - box_width + 1));
    return {left, top, box_width, box_height};
  }
  // The largest box in the middle of the image that the ratios allow.
  const double ratio = static_cast<double>(width) / height;
  JpegRegion box{0, 0, width, height};
  if (ratio < options.ratio[0]) {
    box.height = std::clamp(rounded(width / options.ratio[0]), 1U, height);
  } else if (ratio > options.ratio[1]) {
    box.width = std::clamp(rounded(height * options.ratio[1]), 1U, width);
  }
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

double reduction(const ResizeAxis& axis) { return (axis.end - axis.begin) / axis.size; }

// Converts the axis to the pixels of an image decoded at 1 / denominator. `length` is that of the
// whole image.
void scale_down(ResizeAxis& axis, std::uint32_t denominator, std::uint32_t length) {
  const std::uint32_t most = (length + denominator - 1) / denominator;
  axis.begin /= denominator;
  axis.end /= denominator;
  axis.low /= denominator;
  axis.high = std::min((axis.high + denominator - 1) / denominator, most);
}

}  // namespace

Field image_field(std::string name, const ImageOptions& options) {
  check(options);
  Field field{std::move(name), DType::kUint8, {options.height, options.width, 3}};
  if (options.planar) field.shape = {3, options.height, options.width};
  return field;
}

Resize resize_for(const ImageOptions& options, std::uint32_t width, std::uint32_t height,
                  Random& random) {
  const auto out_width = static_cast<std::uint32_t>(options.width);
  const auto out_height = static_cast<std::uint32_t>(options.height);
  Resize resize;
  switch (options.fit) {
    case Fit::kExact:
      if (width != out_width || height != out_height) {
        throw ImageError("an image",
                         "it is " + std::to_string(height) + " x " + std::to_string(width) +
                             " pixels, declared are " + std::to_string(out_height) + " x " +
                             std::to_string(out_width),
                         "declare another fit, or resize the images beforehand");
      }
      [[fallthrough]];
    case Fit::kStretch:
      resize.x = stretched(0, width, out_width);
      resize.y = stretched(0, height, out_height);
      break;
    case Fit::kCenterCrop: {
      const auto shorter = static_cast<std::uint32_t>(options.shorter_side);
      const std::uint64_t longer =
          std::uint64_t{shorter} * std::max(width, height) / std::min(width, height);
      if (longer > std::uint64_t{1} << 20) {
        throw ImageError("an image",
                         "its sides, " + std::to_string(width) + " and " + std::to_string(height) +
                             ", are too different to make the shorter one " +
                             std::to_string(shorter),
                         "leave the image out");
      }
      const auto longer_side = static_cast<std::uint32_t>(longer);
      resize.x = centered(width, width <= height ? shorter : longer_side, out_width);
      resize.y = centered(height, width <= height ? longer_side : shorter, out_height);
      break;
    }
    case Fit::kRandomResizedCrop: {
      const JpegRegion box = random_box(options, width, height, random);
      resize.x = stretched(box.left, box.width, out_width);
      resize.y = stretched(box.top, box.height, out_height);
      break;
    }
  }
  resize.mirrored = options.mirror > 0 && random.uniform() < options.mirror;
  resize.planar = options.planar;
  resize.antialias = options.antialias;
  return resize;
}

void read_image(std::span<const std::byte> bytes, const ImageOptions& options, JpegDecoder& decoder,
                Sample& out, std::size_t field) {
  const JpegHeader header = decoder.open(bytes);
  Resize resize = resize_for(options, header.width, header.height, out.random());
  std::uint32_t denominator = 1;
  if (options.scaled_decoding) {
    const double most = std::min(reduction(resize.x), reduction(resize.y));
    while (denominator < 8 && 2 * denominator <= most) denominator *= 2;
    scale_down(resize.x, denominator, header.width);
    scale_down(resize.y, denominator, header.height);
  }
  const std::span<std::uint8_t> room = out.as<std::uint8_t>(field);
  if (denominator == 1 && is_unchanged(resize, header.width, header.height)) {
    decoder.start({0, 0, header.width, header.height});
    decoder.read(room, header.height);
    return;
  }
  const PixelRange columns = source_range(resize.x, resize.antialias);
  const PixelRange rows = source_range(resize.y, resize.antialias);
  const JpegRegion found =
      decoder.start({columns.first, rows.first, columns.count, rows.count}, denominator);
  Resizer resizer(resize, out.scratch(Resizer::scratch_bytes(resize)));
  const std::size_t stride = std::size_t{3} * found.width;
  const auto strip = out.scratch(kStrip * stride + Resizer::kSlack);
  const std::span<std::uint8_t> pixels(reinterpret_cast<std::uint8_t*>(strip.data()), strip.size());
  for (std::uint32_t done = 0; done < rows.count;) {
    const std::uint32_t now = std::min(kStrip, rows.count - done);
    decoder.read(pixels, now);
    resizer.add_rows(pixels.data(), stride, found.left, now);
    done += now;
  }
  resizer.finish(room);
}

}  // namespace leat::feeder
