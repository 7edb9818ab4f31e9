// Always true: what is copied lies between the offsets that were checked when the chunk was added.
// Mapped memory may change, so reads compare offsets, views and codes again.
#include "leat/feeder/sources/columns/column.h"

#include <algorithm>
#include <cstring>

#include "leat/feeder/sources/columns/bits.h"
#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/read_image.h"

namespace leat::feeder {
namespace {

constexpr std::uint64_t kViewBytes = 16;
constexpr std::size_t kInlineBytes = 12;  // a view has the bytes themselves, behind their number

}  // namespace

// The rows, or the slots of a list of variable length: `count` of them, each `per` slots of the
// present level, the first from `first` on.
struct Column::Walk {
  std::uint64_t first;
  std::uint64_t per;
  std::uint64_t count;
  FileMappings& mappings;
  std::vector<std::size_t>& files;

  void note(const std::byte* data, std::uint64_t from, std::uint64_t bytes) const {
    if (data != nullptr && bytes > 0) mappings.add({data + from, bytes}, files);
  }
  void note_bits(const std::byte* data, std::uint64_t from, std::uint64_t bits) const {
    note(data, from / 8, (from % 8 + bits + 7) / 8);
  }
};

Column::Column(const ColumnType& type) : type_(type) {
  for (const ColumnType& values : type.dictionary) dictionary_.emplace_back(values);
  row_bytes_ = field().bytes();
}

void Column::add(const ArrowArray& array, std::uint64_t base, std::uint64_t rows, std::uint64_t row,
                 FileMappings& mappings, std::vector<std::size_t>& files) {
  Chunk& chunk = chunks_.emplace_back();
  chunk.row = row;
  plain_.push_back(nullptr);
  if (rows == 0) return;
  Walk walk{base, 1, rows, mappings, files};
  const ArrowArray* at = &array;
  if (type_.child) {
    check(array, {.kind = ArrowType::kStruct}, walk, chunk);
    add_nulls(array, walk, chunk, true);
    walk.first += static_cast<std::uint64_t>(array.offset);
    if (static_cast<std::uint64_t>(array.n_children) <= *type_.child) fail_chunk(chunk);
    at = array.children[*type_.child];
  }
  if (type_.leaf.kind == ArrowType::kViews) {
    add_views(*at, walk, chunk);
  } else if (type_.how == ColumnType::kList || type_.leaf.kind == ArrowType::kBytes) {
    add_offsets(*at, walk, chunk);
  } else {
    add_values(*at, walk, chunk);
    const bool is_plain = type_.how == ColumnType::kFixed && type_.leaf.kind != ArrowType::kBits;
    if (is_plain && chunk.nulls.empty()) plain_.back() = values(chunks_.size() - 1, 0).data();
    if (type_.how == ColumnType::kCodes) unify(*at, chunk, walk);
  }
}

void Column::add_offsets(const ArrowArray& array, Walk& walk, Chunk& chunk) {
  const bool is_list = type_.how == ColumnType::kList;
  check(array, {.kind = is_list ? ArrowType::kList : ArrowType::kBytes}, walk, chunk);
  add_nulls(array, walk, chunk, true);
  if (is_list && array.n_children != 1) fail_chunk(chunk);
  const std::uint64_t rows = walk.count;
  chunk.begin = static_cast<std::uint64_t>(array.offset) + walk.first;
  chunk.offsets = {arrow_buffer(array, 1), type_.is_wide};
  const std::size_t width = chunk.offsets.width();
  walk.note(chunk.offsets.data, chunk.begin * width, (rows + 1) * width);
  const std::uint64_t first = chunk.offsets.at(chunk.begin);
  const std::uint64_t last = chunk.offsets.at(chunk.begin + rows);
  chunk.end = is_list ? static_cast<std::uint64_t>(array.children[0]->length) : last;
  const Offsets::Found found = chunk.offsets.look(chunk.begin, rows, chunk.end);
  if (found.bad) fail_damaged(chunk, *found.bad);
  longest_ = std::max(longest_, found.longest);
  if (!is_list) {
    chunk.values.data = arrow_buffer(array, 2);
    walk.note(chunk.values.data, first, last - first);
    return;
  }
  walk.first = first;
  walk.count = last - first;
  add_values(*array.children[0], walk, chunk);
  // Slot 0 is not the first that these rows have.
  chunk.values.first -= first * chunk.values.per;
  for (Validity& level : chunk.nulls) level.first -= first * level.per;
}

void Column::add_views(const ArrowArray& array, const Walk& walk, Chunk& chunk) {
  check(array, type_.leaf, walk, chunk);
  add_nulls(array, walk, chunk, true);
  chunk.views = &array;
  chunk.begin = static_cast<std::uint64_t>(array.offset) + walk.first;
  walk.note(arrow_buffer(array, 1), chunk.begin * kViewBytes, walk.count * kViewBytes);
  const std::byte* const sizes = arrow_buffer(array, array.n_buffers - 1);
  for (std::int64_t i = 2; i < array.n_buffers - 1; ++i) {
    walk.note(arrow_buffer(array, i), 0, load<std::uint64_t>(sizes + 8 * (i - 2)));
  }
  for (std::uint64_t i = 0; i < walk.count; ++i) {
    if (!is_null_row(chunk, i))
      longest_ = std::max<std::uint64_t>(longest_, bytes_of(chunk, i).size());
  }
}

void Column::add_values(const ArrowArray& array, Walk& walk, Chunk& chunk) const {
  const ArrowArray* at = &array;
  for (const ColumnType::Level& level : type_.levels) {
    check(*at, level.type, walk, chunk);
    add_nulls(*at, walk, chunk, false);
    if (at->n_children != 1) fail_chunk(chunk);
    add_level(*at, level, walk, chunk);
    at = at->children[0];
  }
  check(*at, type_.leaf, walk, chunk);
  add_nulls(*at, walk, chunk, false);
  walk.first += static_cast<std::uint64_t>(at->offset);
  if (type_.leaf.kind == ArrowType::kFixedBytes) {
    walk.first *= static_cast<std::uint64_t>(type_.leaf.extent);
    walk.per *= static_cast<std::uint64_t>(type_.leaf.extent);
  }
  chunk.values = {arrow_buffer(*at, 1), walk.first, walk.per};
  for (Validity& level : chunk.nulls) level.values = walk.per / level.per;
  const std::uint64_t values = walk.count * walk.per;
  if (type_.leaf.kind == ArrowType::kBits) {
    walk.note_bits(chunk.values.data, walk.first, values);
  } else {
    walk.note(chunk.values.data, walk.first * type_.width, values * type_.width);
  }
}

// Goes down one level: `walk` then has the slots of the level below.
void Column::add_level(const ArrowArray& array, const ColumnType::Level& level, Walk& walk,
                       const Chunk& chunk) const {
  const std::uint64_t slots = walk.count * walk.per;
  walk.first += static_cast<std::uint64_t>(array.offset);
  if (level.type.kind == ArrowType::kFixedList) {
    walk.first *= level.extent;
  } else if (slots > 0) {
    const Offsets offsets{arrow_buffer(array, 1), level.type.is_wide};
    walk.note(offsets.data, walk.first * offsets.width(), (slots + 1) * offsets.width());
    for (std::uint64_t i = 0; i < slots; ++i) {
      const std::uint64_t length = offsets.at(walk.first + i + 1) - offsets.at(walk.first + i);
      if (length == level.extent) continue;
      type_.refuse("row " + std::to_string(chunk.row + i / walk.per) + " has a list of " +
                       std::to_string(length) + ", where the shape says " +
                       std::to_string(level.extent),
                   "give the shape that all rows have; rows of several shapes cannot be read");
    }
    walk.first = offsets.at(walk.first);
  }
  walk.per *= level.extent;
}

// Throws if the array cannot be one of `type` that has all these slots.
void Column::check(const ArrowArray& array, const ArrowType& type, const Walk& walk,
                   const Chunk& chunk) const {
  const std::uint64_t end = walk.first + walk.count * walk.per;
  const bool has_buffers = type.kind == ArrowType::kViews ? array.n_buffers >= type.buffers()
                                                          : array.n_buffers == type.buffers();
  if (!has_buffers || array.offset < 0 || array.length < 0 ||
      end > static_cast<std::uint64_t>(array.length) ||
      (type.buffers() > 1 && end > 0 && array.buffers[1] == nullptr)) {
    fail_chunk(chunk);
  }
}

// Notes where nulls are. Throws if there are some, and there is no fill.
void Column::add_nulls(const ArrowArray& array, const Walk& walk, Chunk& chunk,
                       bool of_rows) const {
  const std::uint64_t first = static_cast<std::uint64_t>(array.offset) + walk.first;
  const std::uint64_t slots = walk.count * walk.per;
  if (array.null_count == 0 || array.buffers[0] == nullptr || slots == 0) return;
  const std::byte* const bits = arrow_buffer(array, 0);
  walk.note_bits(bits, first, slots);
  const std::uint64_t null = first_zero(bits, first, slots);
  if (null == slots) return;
  if (!type_.fill) {
    const std::uint64_t item = null / walk.per;
    type_.refuse("row " + std::to_string(chunk.row + row_of(chunk, item)) +
                     (chunk.offsets.data == nullptr && walk.per == 1 ? " is null" : " has a null"),
                 type_.how == ColumnType::kImage
                     ? "leave such rows out, or put the bytes of the files into the table"
                     : "leave such rows out, or say what a null is: fill");
  }
  if (of_rows) {
    chunk.null_row = {bits, first, 1};
  } else {
    chunk.nulls.push_back({bits, first, walk.per});
  }
}

// The row that slot `item` of a list, counted from the first that is used, belongs to.
std::uint64_t Column::row_of(const Chunk& chunk, std::uint64_t item) const {
  if (chunk.offsets.data == nullptr) return item;
  const std::uint64_t slot = chunk.offsets.at(chunk.begin) + item;
  std::uint64_t row = 0;
  while (chunk.offsets.at(chunk.begin + row + 1) <= slot) ++row;
  return row;
}

// Has the codes of all chunks stand for the same.
void Column::unify(const ArrowArray& codes, Chunk& chunk, const Walk& walk) {
  if (codes.dictionary == nullptr || codes.dictionary->length < 0) fail_chunk(chunk);
  const ArrowArray& own = *codes.dictionary;
  if (last_dictionary_ != nullptr && is_same_memory(own, *last_dictionary_)) {
    chunk.categories = chunks_[last_codes_].categories;
    chunk.codes = chunks_[last_codes_].codes;
    return;
  }
  last_dictionary_ = &own;
  last_codes_ = chunks_.size() - 1;
  Column& dictionary = dictionary_.front();
  chunk.categories = static_cast<std::uint64_t>(own.length);
  dictionary.add(own, 0, chunk.categories, 0, walk.mappings, walk.files);
  const std::size_t number = dictionary.chunks_.size() - 1;
  bool is_same = true;
  for (std::uint64_t i = 0; i < chunk.categories; ++i) {
    const std::span<const std::byte> bytes = dictionary.values(number, i);
    const auto [found, is_new] = codes_.try_emplace(
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), codes_.size());
    if (is_new) categories_.push_back(found->first);
    chunk.codes.push_back(found->second);
    is_same = is_same && found->second == i;
  }
  if (is_same) chunk.codes.clear();
  const std::size_t bits = 8 * type_.width - (type_.leaf.dtype <= DType::kInt64 ? 1 : 0);
  if (bits >= 32 || categories_.size() <= std::size_t{1} << bits) return;
  type_.refuse("its chunks have " + std::to_string(categories_.size()) +
                   " categories together, and codes of type " + to_string(type_.leaf.dtype) +
                   " cannot tell them apart",
               "cast the codes to int32, or unify the dictionaries");
}

void Column::fail_chunk(const Chunk& chunk) const {
  type_.refuse("chunk " + std::to_string(chunks_.size() - 1) + ", from row " +
                   std::to_string(chunk.row) + " on, does not fit the stream's schema",
               "look into the program that makes the stream");
}

void Column::fail_damaged(const Chunk& chunk, std::uint64_t row) const {
  type_.refuse("row " + std::to_string(chunk.row + row) +
                   " is damaged: its offsets or its code lead out of the values",
               "make the table again, and do not change memory or files that are in use");
}

Field Column::field() const {
  Field field{type_.name, type_.leaf.dtype, type_.shape};
  if (type_.how != ColumnType::kList && type_.how != ColumnType::kBytes) return field;
  field.variable_length = true;
  const auto longest = static_cast<std::int64_t>(std::max<std::uint64_t>(longest_, 1));
  field.shape.insert(field.shape.begin(), longest);
  return field;
}

// --- Reads.

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
