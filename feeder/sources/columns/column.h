// A column of an Arrow table: where its values lie, and the read of a row.
//
// A row, or a slot of a list of variable length, is a number of neighbouring values: lists within
// it have a fixed extent, or have been found to have all the same. So its place is computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/sample.h"
#include "leat/feeder/sources/columns/arrow_abi.h"
#include "leat/feeder/sources/columns/column_type.h"
#include "leat/feeder/sources/mapped_memory.h"
#include "leat/feeder/sources/offsets.h"

namespace leat::feeder {

struct ColumnWalk;

/// One column. Const functions are thread-safe; the arrays have to outlive it.
class Column {
 public:
  explicit Column(const ColumnType& type);

  /// Adds a chunk: rows [base, base + rows) of `array`. Adds its memory to `mappings`, and their
  /// numbers to `files`. `row` is the number of its first row in the table, for messages. Throws as
  /// Columns() does.
  void add(const ArrowArray& array, std::uint64_t base, std::uint64_t rows, std::uint64_t row,
           FileMappings& mappings, std::vector<std::size_t>& files);
  /// Returns the field, once all chunks are added.
  [[nodiscard]] Field field() const;
  [[nodiscard]] const ColumnType& type() const noexcept { return type_; }

  /// Reads row `row` of chunk `chunk` into field `f`. Throws as Columns::read() does.
  void read(std::size_t chunk, std::uint64_t row, Sample& out, std::size_t f) const;
  /// Returns the length of a row of variable length. Throws as read() does.
  [[nodiscard]] std::size_t length(std::size_t chunk, std::uint64_t row) const;
  /// Returns where a row's values lie; of bools, the bytes around them. Throws as read() does.
  [[nodiscard]] std::span<const std::byte> values(std::size_t chunk, std::uint64_t row) const;
  /// Returns the memory that a read touches first: offsets or views, else values.
  [[nodiscard]] const std::byte* first_touched(std::size_t chunk, std::uint64_t row) const noexcept;
  /// Returns what the codes stand for, if that is strings or binary.
  [[nodiscard]] std::span<const std::string> categories() const noexcept {
    const bool is_text = !dictionary_.empty() && is_bytes(dictionary_[0].type_.leaf);
    return is_text ? std::span<const std::string>(categories_) : std::span<const std::string>();
  }

 private:
  // A row or a slot is `per` values; number 0 from `first` on.
  struct Values {
    const std::byte* data = nullptr;
    std::uint64_t first = 0;
    std::uint64_t per = 1;
  };
  // A bitmap with nulls: a row or a slot has `per` bits, number 0 from `first` on. A bit is of so
  // many values.
  struct Validity {
    const std::byte* bits;
    std::uint64_t first;
    std::uint64_t per;
    std::uint64_t values = 0;
  };
  struct Chunk {
    std::uint64_t row = 0;  // the first one's number in the table
    Offsets offsets;        // of lists, and of bytes that are no views
    const ArrowArray* views = nullptr;
    std::uint64_t begin = 0;  // the number of row 0's offset or view
    std::uint64_t end = 0;    // offsets lead no further
    Values values;
    std::optional<Validity> null_row;  // of variable length
    std::vector<Validity> nulls;       // within rows, or within the slots of variable length
    std::uint64_t categories = 0;
    std::vector<std::uint64_t> codes;  // by the chunk's own; empty: they are the column's
  };
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  using Walk = ColumnWalk;
  static constexpr std::uint64_t kViewBytes = 16;

  void add_offsets(const ArrowArray& array, Walk& walk, Chunk& chunk);
  void add_views(const ArrowArray& array, const Walk& walk, Chunk& chunk);
  void add_values(const ArrowArray& array, Walk& walk, Chunk& chunk) const;
  void add_level(const ArrowArray& array, const ColumnType::Level& level, Walk& walk,
                 const Chunk& chunk) const;
  void add_nulls(const ArrowArray& array, const Walk& walk, Chunk& chunk, bool of_rows) const;
  void unify(const ArrowArray& codes, Chunk& chunk, const Walk& walk);
  void check(const ArrowArray& array, const ArrowType& type, const Walk& walk,
             const Chunk& chunk) const;
  [[nodiscard]] const ArrowArray& child_of(const ArrowArray& array, std::size_t i,
                                           const Chunk& chunk) const;
  [[nodiscard]] std::uint64_t row_of(const Chunk& chunk, std::uint64_t item) const;
  [[nodiscard]] Range range_of(const Chunk& chunk, std::uint64_t row) const;
  [[nodiscard]] std::span<const std::byte> bytes_of(const Chunk& chunk, std::uint64_t row) const;
  [[nodiscard]] bool is_null_row(const Chunk& chunk, std::uint64_t row) const noexcept;
  void copy(const Chunk& chunk, Range items, Sample& out, std::size_t f) const;
  void translate(const Chunk& chunk, std::uint64_t row, std::span<std::byte> code) const;
  [[noreturn]] void fail_chunk(const Chunk& chunk) const;
  [[noreturn]] void fail_damaged(const Chunk& chunk, std::uint64_t row) const;

  ColumnType type_;
  std::vector<Chunk> chunks_;
  std::vector<const std::byte*> plain_;  // by chunk: row 0 of what is copied as it lies, or null
  std::size_t row_bytes_ = 0;            // of such a row
  std::uint64_t longest_ = 0;
  std::vector<Column> dictionary_;               // one, whose rows are the categories of each chunk
  const ArrowArray* last_dictionary_ = nullptr;  // that is no repetition
  std::size_t last_codes_ = 0;                   // the chunk that has it
  std::vector<std::string> categories_;
  std::unordered_map<std::string, std::uint64_t> codes_;  // of the categories
};

}  // namespace leat::feeder
