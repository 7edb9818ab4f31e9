// Always true:
//
//  - Weights are computed in doubles, in Pillow's order. Another order would round differently.
//  - Weights are not negative and sum to 2^22 within a rounding each, so that no sum overflows.
//  - Where rows come first, the held rows are the source rows oldest_ .. added_ - 1, counted from
//    the first one that is needed. All of them fit in for one resulting row.
#include "leat/feeder/sources/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/feeder/sources/resize_kernels.h"

namespace leat::feeder {
namespace {

using resize_kernels::kRows;
using resize_kernels::Taps;
using resize_kernels::WeightPair;

constexpr std::uint32_t kMostPixels = std::uint32_t{1} << 20;  // the most pixels of an axis

[[noreturn]] void refuse_resize(const std::string& why) {
  throw std::invalid_argument("leat: a resize " + why);
}

std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// The position of the filter of one resulting pixel.
class Filter {
 public:
  Filter(const ResizeAxis& axis, bool antialias)
      : axis_(axis),
        scale_((axis.end - axis.begin) / axis.size),
        stretch_(antialias ? std::max(scale_, 1.0) : 1.0) {}

  [[nodiscard]] double center(std::uint32_t pixel) const {
    return axis_.begin + (axis_.first + pixel + 0.5) * scale_;
  }
  // Rounds as Pillow does: adds half a pixel and truncates.
  // NOLINTBEGIN(bugprone-incorrect-roundings)
  [[nodiscard]] std::uint32_t first(double center) const {
    const double left = center - stretch_ + 0.5;
    return std::max(left > 0 ? static_cast<std::uint32_t>(left) : 0, axis_.low);
  }
  [[nodiscard]] std::uint32_t last(double center) const {  // one behind the last
    return std::min(static_cast<std::uint32_t>(center + stretch_ + 0.5), axis_.high);
  }
  // NOLINTEND(bugprone-incorrect-roundings)
  [[nodiscard]] double weight(std::uint32_t source, double center) const {
    return std::max(1.0 - std::abs((source - center + 0.5) * (1.0 / stretch_)), 0.0);
  }
  // Returns the most pairs of source pixels that contribute to one pixel.
  [[nodiscard]] std::size_t pairs() const {
    return static_cast<std::size_t>(std::ceil(stretch_)) + 1;
  }

 private:
  const ResizeAxis& axis_;
  double scale_;
  double stretch_;
};

// Computes the taps of all resulting pixels of an axis, in the order in which the pixels are
// written. Source pixels count from `origin`.
void make_taps(const ResizeAxis& axis, bool antialias, std::uint32_t origin, bool mirrored,
               Taps* taps, WeightPair* pairs) {
  const Filter filter(axis, antialias);
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < axis.count; ++i) {
    const double center = filter.center(mirrored ? axis.count - 1 - i : i);
    const std::uint32_t first = filter.first(center);
    const std::uint32_t count = filter.last(center) - first;
    taps[i] = {first - origin, count, used};
    double sum = 0;
    for (std::uint32_t k = 0; k < count; ++k) sum += filter.weight(first + k, center);
    for (std::uint32_t k = 0; k < count; ++k) {
      const double share = filter.weight(first + k, center) / sum;
      // NOLINTNEXTLINE(bugprone-incorrect-roundings): Pillow's
      const int weight = static_cast<int>(0.5 + share * (1 << resize_kernels::kWeightBits));
      WeightPair& pair = pairs[used + k / 2];
      if (k % 2 == 0) pair = {};
      pair.high[k % 2] = static_cast<std::int16_t>(weight >> resize_kernels::kLowBits);
      pair.low[k % 2] = static_cast<std::int16_t>(weight & ((1 << resize_kernels::kLowBits) - 1));
    }
    used += (count + 1) / 2;
  }
}

// Whether rows come before columns: Pillow's rule, of the image that is resized and the size that
// it gets, whatever is cut out of either. Without antialiasing, which Pillow does not have: never.
bool is_rows_first(const Resize& resize) {
  const auto less = [](const ResizeAxis& axis) {
    return std::int64_t{axis.high} - axis.low - axis.size;
  };
  return resize.antialias && less(resize.y) > std::max<std::int64_t>(2 * less(resize.x), 0);
}

// The layout of the scratch memory of a valid resize.
struct Layout {
  explicit Layout(const Resize& resize)
      : stride(whole_lines(std::size_t{3} * resize.x.count + Resizer::kSlack)),
        pairs_x(whole_lines(resize.x.count * sizeof(Taps))),
        taps_y(pairs_x + pairs_bytes(resize.x, resize.antialias)),
        pairs_y(taps_y + whole_lines(resize.y.count * sizeof(Taps))),
        line(pairs_y + pairs_bytes(resize.y, resize.antialias)),
        is_used(line + stride),
        narrow(is_used + whole_lines(source_range(resize.y, resize.antialias).count)),
        wide(narrow) {
    const std::size_t rows = source_range(resize.y, resize.antialias).count;
    const bool rows_first = is_rows_first(resize);
    wide += stride * (rows_first ? resize.y.count : rows);
    end = wide;
    if (!rows_first) return;
    // Twice the rows that one resulting row needs, so that a row is moved once at most on average.
    held = std::min(rows, 4 * Filter(resize.y, true).pairs());
    wide_stride =
        whole_lines(std::size_t{3} * source_range(resize.x, true).count + Resizer::kSlack);
    end += (held + kRows) * wide_stride;
  }

  static std::size_t pairs_bytes(const ResizeAxis& axis, bool antialias) {
    return whole_lines(axis.count * Filter(axis, antialias).pairs() * sizeof(WeightPair));
  }

  std::size_t stride;
  std::size_t pairs_x;  // the taps of x are at 0
  std::size_t taps_y;
  std::size_t pairs_y;
  std::size_t line;
  std::size_t is_used;
  std::size_t narrow;
  std::size_t wide;  // where rows come first: the held rows, and kRows results
  std::size_t wide_stride = 0;
  std::size_t held = 0;  // rows; 0: columns come first
  std::size_t end;
};

}  // namespace

PixelRange source_range(const ResizeAxis& axis, bool antialias) {
  if (!(axis.begin < axis.end) || axis.begin < axis.low || axis.end > axis.high) {
    refuse_resize("is of [" + std::to_string(axis.begin) + ", " + std::to_string(axis.end) +
                  "), which is empty or not within pixels " + std::to_string(axis.low) + " to " +
                  std::to_string(axis.high));
  }
  if (axis.high > kMostPixels || axis.size > kMostPixels)
    refuse_resize("has more than 2^20 pixels");
  if (axis.count == 0 || axis.first > axis.size || axis.count > axis.size - axis.first) {
    refuse_resize("computes pixels that it has not: " + std::to_string(axis.count) + " from " +
                  std::to_string(axis.first) + " on, of " + std::to_string(axis.size));
  }
  const Filter filter(axis, antialias);
  const std::uint32_t first = filter.first(filter.center(0));
  return {first, filter.last(filter.center(axis.count - 1)) - first};
}

std::size_t Resizer::scratch_bytes(const Resize& resize) {
  static_cast<void>(source_range(resize.x, resize.antialias));  // throws if the resize is not valid
  static_cast<void>(source_range(resize.y, resize.antialias));
  return Layout(resize).end;
}

Resizer::Resizer(const Resize& resize, std::span<std::byte> scratch)
    : resize_(resize),
      columns_(source_range(resize.x, resize.antialias)),
      rows_(source_range(resize.y, resize.antialias)) {
  const Layout layout(resize_);
  if (scratch.size() < layout.end) {
    refuse_resize("needs " + std::to_string(layout.end) + " bytes of scratch memory, not " +
                  std::to_string(scratch.size()));
  }
  stride_ = layout.stride;
  std::byte* const at = scratch.data();
  taps_x_ = reinterpret_cast<Taps*>(at);
  pairs_x_ = reinterpret_cast<WeightPair*>(at + layout.pairs_x);
  taps_y_ = reinterpret_cast<Taps*>(at + layout.taps_y);
  pairs_y_ = reinterpret_cast<WeightPair*>(at + layout.pairs_y);
  line_ = reinterpret_cast<std::uint8_t*>(at + layout.line);
  narrow_ = reinterpret_cast<std::uint8_t*>(at + layout.narrow);
  is_used_ = reinterpret_cast<std::uint8_t*>(at + layout.is_used);
  wide_ = reinterpret_cast<std::uint8_t*>(at + layout.wide);
  wide_stride_ = layout.wide_stride;
  most_held_ = static_cast<std::uint32_t>(layout.held);
  make_taps(resize_.x, resize_.antialias, columns_.first, resize_.mirrored, taps_x_, pairs_x_);
  make_taps(resize_.y, resize_.antialias, rows_.first, false, taps_y_, pairs_y_);
  std::memset(is_used_, 0, rows_.count);
  for (std::uint32_t y = 0; y < resize_.y.count; ++y) {
    std::memset(is_used_ + taps_y_[y].first, 1, taps_y_[y].count);
  }
}

void Resizer::add_rows(const std::uint8_t* pixels, std::size_t stride, std::uint32_t left,
                       std::uint32_t rows) {
  if (rows > rows_.count - added_ || left > columns_.first) {
    refuse_resize("is given rows or columns that it does not need");
  }
  const std::uint8_t* const begin = pixels + std::size_t{3} * (columns_.first - left);
  if (most_held_ > 0) {
    for (std::uint32_t row = 0; row < rows; ++row) add_row(begin + row * stride);
    return;
  }
  const std::uint8_t* from[kRows];
  std::uint8_t* to[kRows];
  std::uint32_t gathered = 0;
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (is_used_[added_ + row] != 0) {
      from[gathered] = begin + row * stride;
      to[gathered++] = narrow_ + (added_ + row) * stride_;
    }
    if (gathered == 0 || (gathered < kRows && row + 1 < rows)) continue;
    along_x(from, to, gathered);
    gathered = 0;
  }
  added_ += rows;
}

// Resizes 1 to kRows rows along x.
void Resizer::along_x(const std::uint8_t** from, std::uint8_t** to, std::uint32_t rows) const {
  for (; rows < kRows; ++rows) {  // fills up with copies of the last row
    from[rows] = from[rows - 1];
    to[rows] = to[rows - 1];
  }
  resize_kernels::fastest().along_x(from, {taps_x_, resize_.x.count}, pairs_x_, to);
}

// Holds one more row, and computes the resulting rows that it completes.
void Resizer::add_row(const std::uint8_t* pixels) {
  if (added_ - oldest_ == most_held_) {
    const std::uint32_t first = taps_y_[made_].first;  // of the rows that are still needed
    std::memmove(wide_, wide_ + (first - oldest_) * wide_stride_, (added_ - first) * wide_stride_);
    oldest_ = first;
  }
  std::memcpy(wide_ + (added_ - oldest_) * wide_stride_, pixels, std::size_t{3} * columns_.count);
  ++added_;
  std::uint8_t* const results = wide_ + most_held_ * wide_stride_;
  for (; made_ < resize_.y.count && taps_y_[made_].first + taps_y_[made_].count <= added_;) {
    Taps taps = taps_y_[made_];
    taps.first -= oldest_;
    const std::uint32_t place = made_++ % kRows;
    resize_kernels::fastest().along_y(wide_, wide_stride_, taps, pairs_y_,
                                      results + place * wide_stride_,
                                      (std::size_t{3} * columns_.count + 15) / 16 * 16);
    if (place + 1 < kRows && made_ < resize_.y.count) continue;
    const std::uint8_t* from[kRows];
    std::uint8_t* to[kRows];
    for (std::uint32_t i = 0; i <= place; ++i) {
      from[i] = results + i * wide_stride_;
      to[i] = narrow_ + (made_ - 1 - place + i) * stride_;
    }
    along_x(from, to, place + 1);
  }
}

void Resizer::finish(std::span<std::uint8_t> out) {
  const std::size_t width = resize_.x.count;
  const std::size_t height = resize_.y.count;
  if (out.size() < 3 * width * height) refuse_resize("has no room for its result");
  if (added_ < rows_.count) refuse_resize("was given too few rows");
  const auto& kernels = resize_kernels::fastest();
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* line = narrow_ + y * stride_;
    if (most_held_ == 0) {
      kernels.along_y(narrow_, stride_, taps_y_[y], pairs_y_, line_, (3 * width + 15) / 16 * 16);
      line = line_;
    }
    if (!resize_.planar) {
      std::memcpy(out.data() + 3 * width * y, line, 3 * width);
      continue;
    }
    for (std::size_t channel = 0; channel < 3; ++channel) {
      std::uint8_t* const to = out.data() + (channel * height + y) * width;
      for (std::size_t x = 0; x < width; ++x) to[x] = line[3 * x + channel];
    }
  }
}

void resize_image(std::span<const std::uint8_t> pixels, std::uint32_t width, const Resize& resize,
                  std::span<std::uint8_t> out) {
  const PixelRange columns = source_range(resize.x, resize.antialias);
  const PixelRange rows = source_range(resize.y, resize.antialias);
  const std::size_t stride = std::size_t{3} * width;
  if (columns.first + columns.count > width ||
      pixels.size() / stride < std::size_t{rows.first} + rows.count) {
    refuse_resize("needs pixels that the image has not");
  }
  constexpr std::size_t kAlignment = 64;
  const std::size_t bytes = Resizer::scratch_bytes(resize);
  std::vector<std::byte> memory(bytes + kAlignment);
  void* aligned_memory = memory.data();
  std::size_t room = memory.size();
  Resizer resizer(
      resize,
      {static_cast<std::byte*>(std::align(kAlignment, bytes, aligned_memory, room)), bytes});
  const std::uint8_t* const first = pixels.data() + rows.first * stride;
  // add_rows() may read beyond a row's end. So the last rows are copied to memory with slack.
  const auto tail =
      static_cast<std::uint32_t>(std::min<std::size_t>(rows.count, Resizer::kSlack / stride + 1));
  resizer.add_rows(first, stride, 0, rows.count - tail);
  std::vector<std::uint8_t> last(tail * stride + Resizer::kSlack);
  std::memcpy(last.data(), first + (rows.count - tail) * stride, tail * stride);
  resizer.add_rows(last.data(), stride, 0, tail);
  resizer.finish(out);
}

}  // namespace leat::feeder
