// Tensors of a batch, as views of the slot that holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "leat/feeder/field.h"

namespace leat::feeder {

class BatchLayout;
struct TensorLayout;

/// One tensor of a batch, in device memory. A view: valid as long as the batch is.
class Tensor {
 public:
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] DType dtype() const noexcept;
  /// [rows, shape of the field ...], row-major.
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept { return shape_; }
  /// Of the rows that are there.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// The first element. Throws std::invalid_argument if T is not the tensor's type.
  template <class T>
  [[nodiscard]] T* data() const {
    check_type(kDTypeOf<T>);
    return reinterpret_cast<T*>(data_);
  }
  /// The first byte.
  [[nodiscard]] std::byte* raw() const noexcept { return data_; }

 private:
  friend class TensorSet;
  Tensor(const TensorLayout& layout, std::byte* data, std::span<const std::int64_t> shape) noexcept
      : layout_(&layout), data_(data), shape_(shape) {}
  void check_type(DType wanted) const;

  const TensorLayout* layout_;
  std::byte* data_;
  std::span<const std::int64_t> shape_;
};

/// The tensors of one slot, or some of them. A view, cheap to copy.
class TensorSet {
 public:
  /// Of the tensors first .. first + count of `layout`, in the slot that begins at `slot`; `shapes`
  /// are those of all its tensors, rows first.
  TensorSet(const BatchLayout& layout, std::size_t first, std::size_t count, std::byte* slot,
            std::span<const std::vector<std::int64_t>> shapes) noexcept
      : layout_(&layout), first_(first), count_(count), slot_(slot), shapes_(shapes) {}

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// The i-th. Throws std::out_of_range.
  [[nodiscard]] Tensor operator[](std::size_t i) const;
  /// The one of that name. Throws std::out_of_range, naming those there are.
  [[nodiscard]] Tensor operator[](std::string_view name) const;
  /// Rows of each tensor.
  [[nodiscard]] std::size_t rows() const noexcept {
    return static_cast<std::size_t>(shapes_[0][0]);
  }

 private:
  const BatchLayout* layout_;
  std::size_t first_;
  std::size_t count_;
  std::byte* slot_;
  std::span<const std::vector<std::int64_t>> shapes_;
};

}  // namespace leat::feeder
