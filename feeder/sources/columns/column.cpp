// Chunks are added: their arrays are checked, and their places are noted.
#include "leat/feeder/sources/columns/column.h"

#include <algorithm>

#include "leat/feeder/sources/columns/bits.h"
#include "leat/feeder/sources/columns/column_walk.h"

namespace leat::feeder {

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
    at = &child_of(array, *type_.child, chunk);
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
  const ArrowArray* const values = is_list ? &child_of(array, 0, chunk) : nullptr;
  const std::uint64_t rows = walk.count;
  chunk.begin = static_cast<std::uint64_t>(array.offset) + walk.first;
  chunk.offsets = {arrow_buffer(array, 1), type_.is_wide};
  const std::size_t width = chunk.offsets.width();
  walk.note(chunk.offsets.data, chunk.begin * width, (rows + 1) * width);
  const std::uint64_t first = chunk.offsets.at(chunk.begin);
  const std::uint64_t last = chunk.offsets.at(chunk.begin + rows);
  chunk.end = is_list ? static_cast<std::uint64_t>(values->length)
                      : std::min(last, type_.is_wide ? kMostArraySlots : kMostNarrow);
  const Offsets::Found found = chunk.offsets.look(chunk.begin, rows, chunk.end);
  if (found.bad) fail_damaged(chunk, *found.bad);
  chunk.end = last;
  longest_ = std::max(longest_, found.longest);
  if (!is_list) {
    chunk.values.data = arrow_buffer(array, 2);
    if (chunk.values.data == nullptr && first < last) fail_chunk(chunk);
    walk.note(chunk.values.data, first, last - first);
    return;
  }
  walk.first = first;
  walk.count = last - first;
  add_values(*values, walk, chunk);
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
  const std::int64_t buffers = array.n_buffers - 3;
  if (buffers > 0 && sizes == nullptr) fail_chunk(chunk);
  walk.note(sizes, 0, 8 * static_cast<std::uint64_t>(buffers));
  for (std::int64_t i = 0; i < buffers; ++i) {
    const auto size = load<std::int64_t>(sizes + 8 * i);
    const std::byte* const data = arrow_buffer(array, i + 2);
    if (size < 0 || (size > 0 && data == nullptr)) fail_chunk(chunk);
    walk.note(data, 0, static_cast<std::uint64_t>(size));
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
    const ArrowArray& below = child_of(*at, 0, chunk);
    add_level(*at, level, walk, chunk);
    at = &below;
  }
  check(*at, type_.leaf, walk, chunk);
  add_nulls(*at, walk, chunk, false);
  walk.first += static_cast<std::uint64_t>(at->offset);
  if (type_.leaf.kind == ArrowType::kFixedBytes) {
    if (!walk.may_have(static_cast<std::uint64_t>(type_.leaf.extent))) fail_chunk(chunk);
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
    if (!walk.may_have(level.extent)) fail_chunk(chunk);
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
  if (!walk.is_within(array, type)) fail_chunk(chunk);
}

// Returns child `i`, and throws if there is none.
const ArrowArray& Column::child_of(const ArrowArray& array, std::size_t i,
                                   const Chunk& chunk) const {
  if (!has_child(array, i)) fail_chunk(chunk);
  return *array.children[i];
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
  Column& dictionary = dictionary_.front();
  chunk.categories = static_cast<std::uint64_t>(own.length);
  dictionary.add(own, 0, chunk.categories, 0, walk.mappings, walk.files);
  if (chunk.categories > 0) {  // else nothing has looked at its buffers
    last_dictionary_ = &own;
    last_codes_ = chunks_.size() - 1;
  }
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

}  // namespace leat::feeder
