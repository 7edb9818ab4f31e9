// Reads of a column's rows. Always true: what is copied lies between the offsets that were checked
// when the chunk was added. Mapped memory may change, so reads compare offsets, views and codes
// again.
#include <cstring>

#include "leat/feeder/sources/columns/bits.h"
#include "leat/feeder/sources/columns/column.h"
#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/read_image.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kInlineBytes = 12;  // a view has the bytes themselves, behind their number

}  // namespace

Column::Range Column::range_of(const Chunk& chunk, std::uint64_t row) const {
  const Range range{chunk.offsets.at(chunk.begin + row), chunk.offsets.at(chunk.begin + row + 1)};
  if (range.begin > range.end || range.end > chunk.end) fail_damaged(chunk, row);
  return range;
}

// The bytes of a row of strings or binary.
std::span<const std::byte> Column::bytes_of(const Chunk& chunk, std::uint64_t row) const {
  if (chunk.views == nullptr) {
    const auto [begin, end] = range_of(chunk, row);
    return {chunk.values.data + begin, static_cast<std::size_t>(end - begin)};
  }
  const ArrowArray& views = *chunk.views;
  const std::byte* const view = arrow_buffer(views, 1) + (chunk.begin + row) * kViewBytes;
  const auto size = load<std::int32_t>(view);
  if (size < 0) fail_damaged(chunk, row);
  const auto bytes = static_cast<std::size_t>(size);
  if (bytes <= kInlineBytes) return {view + 4, bytes};
  const auto number = load<std::int32_t>(view + 8);
  const auto begin = load<std::int32_t>(view + 12);
  if (number < 0 || number >= views.n_buffers - 3 || begin < 0) fail_damaged(chunk, row);
  const auto all =
      load<std::int64_t>(arrow_buffer(views, views.n_buffers - 1) + 8 * std::ptrdiff_t{number});
  if (std::int64_t{begin} + size > all) fail_damaged(chunk, row);
  return {arrow_buffer(views, number + 2) + begin, bytes};
}

bool Column::is_null_row(const Chunk& chunk, std::uint64_t row) const noexcept {
  return chunk.null_row && !bit(chunk.null_row->bits, chunk.null_row->first + row);
}

void Column::read(std::size_t number, std::uint64_t row, Sample& out, std::size_t f) const {
  if (const std::byte* const first = plain_[number]; first != nullptr) {
    out.copy(f, {first + row * row_bytes_, row_bytes_});
    return;
  }
  const Chunk& chunk = chunks_[number];
  switch (type_.how) {
    case ColumnType::kFixed: copy(chunk, {row, row + 1}, out, f); return;
    case ColumnType::kCodes:
      copy(chunk, {row, row + 1}, out, f);
      if (!chunk.nulls.empty() && !bit(chunk.nulls[0].bits, chunk.nulls[0].first + row)) return;
      translate(chunk, row, out.bytes(f));
      return;
    case ColumnType::kList: {
      const Range range = is_null_row(chunk, row) ? Range{0, 0} : range_of(chunk, row);
      out.set_length(f, static_cast<std::size_t>(range.end - range.begin));
      copy(chunk, range, out, f);
      return;
    }
    case ColumnType::kBytes: {
      std::span<const std::byte> bytes;
      if (!is_null_row(chunk, row)) bytes = bytes_of(chunk, row);
      out.set_length(f, bytes.size());
      out.copy(f, bytes);
      return;
    }
    case ColumnType::kImage: try { read_image(bytes_of(chunk, row), type_.image, out, f);
      } catch (const ImageError& error) {
        type_.refuse("row " + std::to_string(chunk.row + row) + ": " + error.problem(),
                     error.advice());
      }
  }
}

// Copies the values of rows or slots, and puts the fill in the places of nulls.
void Column::copy(const Chunk& chunk, Range items, Sample& out, std::size_t f) const {
  const Values& values = chunk.values;
  const std::uint64_t first = values.first + items.begin * values.per;
  const auto count = static_cast<std::size_t>((items.end - items.begin) * values.per);
  if (count == 0) return;
  if (type_.leaf.kind == ArrowType::kBits) {
    const std::span<std::byte> room = out.bytes(f);
    for (std::size_t i = 0; i < count; ++i) room[i] = std::byte{bit(values.data, first + i)};
  } else {
    out.copy(f, {values.data + first * type_.width, count * type_.width});
  }
  for (const Validity& level : chunk.nulls) {
    std::byte* to = out.bytes(f).data();
    const std::uint64_t end = level.first + items.end * level.per;
    for (std::uint64_t at = level.first + items.begin * level.per; at < end; ++at) {
      for (std::uint64_t i = 0; i < level.values; ++i, to += type_.width) {
        if (!bit(level.bits, at)) std::memcpy(to, type_.fill->data(), type_.width);
      }
    }
  }
}

// Replaces the code that was read, which is the chunk's own, by the column's.
void Column::translate(const Chunk& chunk, std::uint64_t row, std::span<std::byte> code) const {
  std::uint64_t own = 0;  // a negative one is beyond all others
  std::memcpy(&own, code.data(), type_.width);
  if (own >= chunk.categories) fail_damaged(chunk, row);
  if (!chunk.codes.empty()) std::memcpy(code.data(), &chunk.codes[own], type_.width);
}

std::size_t Column::length(std::size_t number, std::uint64_t row) const {
  const Chunk& chunk = chunks_[number];
  if (is_null_row(chunk, row)) return 0;
  if (type_.how == ColumnType::kBytes) return bytes_of(chunk, row).size();
  const auto [begin, end] = range_of(chunk, row);
  return static_cast<std::size_t>(end - begin);
}

std::span<const std::byte> Column::values(std::size_t number, std::uint64_t row) const {
  const Chunk& chunk = chunks_[number];
  if (type_.how == ColumnType::kBytes || type_.how == ColumnType::kImage)
    return bytes_of(chunk, row);
  const auto [begin, end] =
      type_.how == ColumnType::kList ? range_of(chunk, row) : Range{row, row + 1};
  const std::uint64_t first = chunk.values.first + begin * chunk.values.per;
  const auto count = static_cast<std::size_t>((end - begin) * chunk.values.per);
  if (type_.leaf.kind == ArrowType::kBits)
    return {chunk.values.data + first / 8, (first % 8 + count + 7) / 8};
  return {chunk.values.data + first * type_.width, count * type_.width};
}

const std::byte* Column::first_touched(std::size_t number, std::uint64_t row) const noexcept {
  if (plain_[number] != nullptr) return plain_[number] + row * row_bytes_;
  const Chunk& chunk = chunks_[number];
  if (chunk.views != nullptr)
    return arrow_buffer(*chunk.views, 1) + (chunk.begin + row) * kViewBytes;
  if (chunk.offsets.data != nullptr) {
    return chunk.offsets.data + (chunk.begin + row) * chunk.offsets.width();
  }
  const std::uint64_t first = chunk.values.first + row * chunk.values.per;
  return chunk.values.data +
         (type_.leaf.kind == ArrowType::kBits ? first / 8 : first * type_.width);
}

}  // namespace leat::feeder
