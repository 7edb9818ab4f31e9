// What the type of a column becomes: a field, and the levels from a row down to its values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/feeder/sources/columns.h"
#include "leat/feeder/sources/columns/arrow_abi.h"
#include "leat/feeder/sources/columns/arrow_type.h"

namespace leat::feeder {

/// The type of a column, and what the options say of it. A value.
struct ColumnType {
  enum How : std::uint8_t {
    kFixed,  ///< numbers of a shape
    kCodes,  ///< of a dictionary
    kList,   ///< of variable length
    kBytes,  ///< of variable length: strings, binary
    kImage,  ///< such bytes, decoded
  };
  /// A fixed list, or a list whose rows all have `extent` slots.
  struct Level {
    ArrowType type;
    std::uint64_t extent;
  };

  /// The type of the column `name_of` of the table `table_of`. Throws as Columns() does.
  ColumnType(const ArrowSchema& schema, std::string name_of, std::string table_of,
             const ColumnsOptions& options);
  /// Throws leat::Error: "leat: cannot read column "x" of <table>: <problem>; <advice>".
  [[noreturn]] void refuse(const std::string& problem, const std::string& advice) const;

  std::string name;
  std::string table;
  How how = kFixed;
  std::optional<std::size_t> child;  ///< the bytes of a struct {bytes, path}
  bool is_wide = false;              ///< the offsets of variable length have 64 bits
  std::vector<Level> levels;         ///< of a row, or of a slot of a list of variable length
  ArrowType leaf;                    ///< of the values; of codes
  std::size_t width = 1;             ///< bytes of a value; of a bool in a field
  std::vector<std::int64_t> shape;   ///< of a row, or of a slot
  std::optional<std::array<std::byte, 8>> fill;
  ImageOptions image;
  std::vector<ColumnType> dictionary;  ///< of kCodes, one: of the values

 private:
  void plan(const ArrowSchema& schema, std::span<const std::int64_t> wanted);
  void plan_levels(const ArrowSchema& schema, std::span<const std::int64_t> wanted);
};

/// Whether arrays of such a type are strings or binary.
[[nodiscard]] inline bool is_bytes(const ArrowType& type) noexcept {
  return type.kind == ArrowType::kBytes || type.kind == ArrowType::kViews;
}

}  // namespace leat::feeder
