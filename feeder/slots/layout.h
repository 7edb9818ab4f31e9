// Where the tensors of a batch lie in a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "leat/feeder/field.h"

namespace leat::feeder {

/// What a row of a tensor is for.
enum class RowPer : std::uint8_t {
  kSample,
  kElement,  // of packed samples
  kOffset,   // where a packed sample begins, and where the last one ends
};

/// One tensor of a batch: the samples' fields one after the other, [rows, shape...], row-major.
struct TensorLayout {
  Field field;  // of one row
  RowPer per = RowPer::kSample;
  std::size_t rows = 0;          // at most
  std::size_t offset = 0;        // of the tensor in the slot
  std::size_t sample_bytes = 0;  // of one row
};

/// The tensors of a batch of up to `rows` samples, each at a fixed offset that is aligned for any
/// kernel.
///
/// In this order: the dataset's fields; for each that has a variable length, the lengths, int32,
/// named "<field>.length"; what a device transform writes. The first two are staged: they lie in
/// pinned slots too, at the same offsets.
///
/// Packed, a field of variable length has a row for each element, [elements, rest of the shape],
/// and one tensor "offsets", int32 [samples + 1], says where each sample begins in it. What a
/// transform writes with `variable_length` has a row for each element too.
class BatchLayout {
 public:
  static constexpr std::size_t kAlignment = 256;  // of cudaMalloc, and a GPU's largest vector load

  /// Throws std::invalid_argument, naming `dataset`, where there are no fields, a field without
  /// bytes, a name twice among those that are staged or written, or a size that overflows.
  BatchLayout(std::string_view dataset, std::span<const Field> fields,
              std::span<const Field> written, std::size_t rows, std::size_t elements = 0);

  /// Samples at most.
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  /// Elements at most; 0: not packed.
  [[nodiscard]] std::size_t elements() const noexcept { return elements_; }
  /// Of a pinned slot; a multiple of kAlignment.
  [[nodiscard]] std::size_t staged_bytes() const noexcept { return staged_bytes_; }
  /// Of a device slot; likewise.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// All of them.
  [[nodiscard]] std::span<const TensorLayout> tensors() const noexcept { return tensors_; }
  [[nodiscard]] std::span<const TensorLayout> staged() const noexcept {
    return tensors().first(staged_);
  }
  [[nodiscard]] std::span<const TensorLayout> written() const noexcept {
    return tensors().subspan(staged_);
  }
  /// The number, among tensors(), of the one with that name that the consumer gets. Throws
  /// std::out_of_range, naming the tensors there are.
  [[nodiscard]] std::size_t find(std::string_view name) const;
  /// The number of the lengths, or offsets, of dataset field `field`, which has a variable one.
  [[nodiscard]] std::size_t lengths_of(std::size_t field) const noexcept;

 private:
  void add(std::string_view dataset, const Field& field, RowPer per);

  std::size_t rows_;
  std::size_t elements_;
  std::size_t staged_ = 0;  // tensors
  std::size_t staged_bytes_ = 0;
  std::size_t bytes_ = 0;
  std::vector<TensorLayout> tensors_;
  std::vector<std::size_t> lengths_;  // for each dataset field
};

}  // namespace leat::feeder
