// The columns of a table in memory, or in a mapped file, through the Arrow C stream interface: of
// Arrow, DuckDB, polars, nanoarrow and others, without a copy.
//
// | Arrow | field |
// |---|---|
// | int8 to uint64, float16 to float64 | a scalar of that type |
// | bool | uint8, 0 or 1 |
// | date, time, timestamp, duration | int32 or int64, in its unit |
// | fixed_size_list, also nested; fixed_size_binary | a shape: {n, ...}; uint8 {n} |
// | list, large_list of numbers, bools or fixed lists | variable length; shape[0] is the longest |
// | lists with ColumnsOptions::shapes | that shape, for lists of lists, too |
// | binary, string, also large ones and views | uint8 of variable length |
// | dictionary of strings, bytes or numbers | the codes, in the type of its indices |
// | struct {bytes, path}, as Hugging Face's images | uint8 {height, width, 3}: the image, decoded |
// | extension types | as their storage |
//
// All chunks have one dictionary: the first's, and behind it what others add.
//
// All else is an error that names the format: null, decimal, interval, union, map, run-end encoded,
// list views, other structs, lists of strings, lists of lists without a shape. So are nulls,
// with ColumnsOptions::fill excepted.
//
// Example: whatever makes an ArrowArrayStream, here of two columns "x" and "y"
//   ArrowArrayStream stream;
//   program.export_stream(&stream);
//   const leat::feeder::Columns data(stream);             // moves it; data.fields() are x and y
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sources/image.h"

struct ArrowArrayStream;

namespace leat::feeder {

class ArrowTable;

/// How columns become fields; by the names of columns. A name that no column has is an error.
struct ColumnsOptions {
  /// The shapes of columns of lists, whose rows then all have as many values: {"a", {2, 3}}. A
  /// fixed_size_list of 6 may have this shape, too.
  std::map<std::string, std::vector<std::int64_t>> shapes;
  /// The values that take the places of nulls. A null row of variable length becomes an empty one.
  std::map<std::string, std::variant<std::int64_t, double, std::uint64_t>> fill;
  /// How the images of a column are decoded: a struct {bytes, path}, binary, or a view. A struct
  /// that is not named here: ImageOptions{}.
  std::map<std::string, ImageOptions> images;
  std::string name = "columns";  ///< in messages
};

/// The rows of a table. Owns what the stream gives, and releases it in its destructor, in the
/// thread that destroys it. The memory must not change meanwhile. Const functions are thread-safe.
class Columns final : public Dataset {
 public:
  /// Moves `table` and takes all its chunks: an array of structs, whose children are the columns,
  /// or one of any other type, which is the only column. Values are not looked at, except
  /// bitmaps of columns that may have nulls, and all offsets of columns of variable length. Throws
  /// leat::Error, with the column and its format, the chunk or the row, for a type or a null that
  /// no field can have, a chunk that does not fit the schema, a mapped file that has lost what is
  /// looked at, and a producer that fails; std::invalid_argument for options out of range and for
  /// two columns of a name.
  explicit Columns(ArrowArrayStream& table, const ColumnsOptions& options = {});
  /// The same of a table that is fetched. Sample i is row `rows[i]` of it, where `rows` is not
  /// null: a table of one column of uint64. Releases neither if it throws: they are the caller's,
  /// too.
  Columns(std::shared_ptr<const ArrowTable> table, std::shared_ptr<const ArrowTable> rows,
          const ColumnsOptions& options);
  ~Columns() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Copies, and decodes images. Throws leat::Error, with column and row, if an image cannot be
  /// decoded, if offsets, codes or views lead out of their buffers, or if a mapped file has lost
  /// bytes of this chunk; leat::Error if `index` >= size(); std::invalid_argument if the fields of
  /// `out` differ.
  void read(std::uint64_t index, Sample& out) const override;
  /// kSeldom with mapped memory or images, else kNever.
  [[nodiscard]] Blocking blocking() const noexcept override;
  void will_read(std::uint64_t index, std::uint64_t seed,
                 std::uint64_t epoch) const noexcept override;
  /// Announces what lies in mapped files.
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t field) const override;

  /// Returns what the codes of field `field` stand for, by code. Empty if the column is no
  /// dictionary of strings or binary. Throws std::out_of_range.
  [[nodiscard]] std::span<const std::string> categories(std::size_t field) const;

 private:
  struct State;
  struct Place;
  [[nodiscard]] Place place(std::uint64_t index) const;

  std::string name_;
  std::vector<Field> fields_;
  std::unique_ptr<State> state_;
};

}  // namespace leat::feeder
