// Where the tensors of a batch lie in a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/batch_source.h"
#include "leat/feeder/field.h"

namespace leat::feeder {

/// What one row of a tensor stands for.
enum class RowPer : std::uint8_t {
  kSample,
  kElement,  // of a packed sample
  kOffset,   // where a packed sample begins, and where the last one ends
  kBatch,    // the whole tensor: of a batch source
};

/// One tensor of a batch: the samples' fields one after the other, [rows, shape...], row-major.
struct TensorLayout {
  Field field;  // of one row
  RowPer per = RowPer::kSample;
  std::size_t rows = 0;                  // the most that a batch can have
  std::size_t offset = 0;                // from the start of the slot
  std::size_t sample_bytes = 0;          // the most bytes of one row
  std::optional<std::size_t> length_of;  // rows are as long as the batch's longest of this field
};

/// Returns the bytes of one row in a batch whose longest samples are `longest`, by dataset field.
[[nodiscard]] std::size_t row_bytes_of(const TensorLayout& tensor,
                                       std::span<const std::size_t> longest) noexcept;

/// The tensors of a batch of up to `rows` samples, each at a fixed offset that is aligned for any
/// kernel. In this order:
///  1. the dataset's fields;
///  2. the lengths of each field of variable length: int32, named "<field>.length";
///  3. the fields that a device transform writes.
/// 1 and 2 are staged: they are in pinned slots too, at the same offsets.
///
/// If samples are packed, a field of variable length has a row for each element: [elements, rest of
/// the shape]. Instead of the lengths there is one tensor "offsets", int32 [samples + 1], with the
/// beginning of each sample. A transform's field with `variable_length` has a row for each element,
/// too.
///
/// `to_longest` (PadTo::kBatch): each batch decides how long the rows of variable length are.
class BatchLayout {
 public:
  static constexpr std::size_t kAlignment = 256;  // as cudaMalloc's; a GPU's vector loads need less

  /// Throws std::invalid_argument, with the name of the dataset or "device_transform", if there are
  /// no fields, a field has no bytes, two staged or two written fields have one name, a size
  /// overflows, or a written field is shorter than the field whose length it takes.
  BatchLayout(std::string_view dataset, std::span<const Field> fields,
              std::span<const Field> written, std::size_t rows, std::size_t elements = 0,
              bool to_longest = false);

  /// Of a batch source before its first batch: no tensors.
  BatchLayout() = default;
  /// Of a batch from a batch source. Throws as layout_of().
  explicit BatchLayout(std::span<const PlacedTensor> tensors);

  /// Returns the most samples in a batch.
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  /// Returns the most elements in a batch; 0: not packed.
  [[nodiscard]] std::size_t elements() const noexcept { return elements_; }
  /// Returns the size of a pinned slot, a multiple of kAlignment.
  [[nodiscard]] std::size_t staged_bytes() const noexcept { return staged_bytes_; }
  /// Returns the size of a device slot, a multiple of kAlignment.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Returns all tensors; staged() and written() return a part each.
  [[nodiscard]] std::span<const TensorLayout> tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::span<const TensorLayout> staged() const noexcept {
    return tensors().first(staged_);
  }
  [[nodiscard]] std::span<const TensorLayout> written() const noexcept {
    return tensors().subspan(staged_);
  }
  /// Says where a byte of a slot is, for row_bytes_of(): "its byte 24, in row 3 of tensor "id"".
  /// Without `longest`, rows have their most bytes.
  [[nodiscard]] std::string place_of(std::size_t byte,
                                     std::span<const std::size_t> longest = {}) const;
  /// Returns the index, in tensors(), of the tensor that a consumer gets by `name`. Throws
  /// std::out_of_range, with the names of all tensors, if there is none.
  [[nodiscard]] std::size_t find(std::string_view name) const;
  /// Returns the index of the tensor with the lengths, or offsets, of dataset field `field`. The
  /// field must have variable length.
  [[nodiscard]] std::size_t lengths_of(std::size_t field) const noexcept;

 private:
  void follow_length(std::span<const Field> fields, TensorLayout& written) const;
  void add(const std::string& owner, const Field& field, RowPer per);

  std::size_t rows_ = 0;
  std::size_t elements_ = 0;
  std::size_t staged_ = 0;  // number of staged tensors
  std::size_t staged_bytes_ = 0;
  std::size_t bytes_ = 0;
  std::vector<TensorLayout> tensors_;
  std::vector<std::size_t> lengths_;  // by dataset field
};

}  // namespace leat::feeder
