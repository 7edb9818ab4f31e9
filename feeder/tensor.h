// The tensors of a batch: views of the slot that holds them.
//
// Example
//   const leat::feeder::Tensor image = batch["image"];   // of a Lease
//   kernel<<<...>>>(image.data<float>(), image.shape()[0]);
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

/// A tensor of a batch, in device memory. A view, cheap to copy, valid as long as its lease.
/// Thread-safe.
class Tensor {
 public:
  /// Returns the name of the tensor's field.
  [[nodiscard]] std::string_view name() const noexcept;
  /// Returns the type of the tensor's elements.
  [[nodiscard]] DType dtype() const noexcept;
  /// [rows, shape of the field ...], row-major.
  [[nodiscard]] std::span<const std::int64_t> shape() const noexcept { return shape_; }
  /// Returns the bytes of all rows that the batch has.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// Returns the address of the first element. Throws std::invalid_argument if T is another type.
  template <class T>
  [[nodiscard]] T* data() const {
    check_type(kDTypeOf<T>);
    return reinterpret_cast<T*>(data_);
  }
  /// A pointer to the first byte.
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

/// Some or all tensors of one slot. A view, cheap to copy, valid as long as its lease. Thread-safe.
class TensorSet {
 public:
  /// The tensors first .. first + count - 1 of `layout`, in the slot that begins at `slot`.
  /// `shapes` holds the shapes of all tensors of the layout, rows first.
  TensorSet(const BatchLayout& layout, std::size_t first, std::size_t count, std::byte* slot,
            std::span<const std::vector<std::int64_t>> shapes) noexcept
      : layout_(&layout), first_(first), count_(count), slot_(slot), shapes_(shapes) {}

  /// Returns how many tensors there are.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// Returns the i-th tensor. Throws std::out_of_range.
  [[nodiscard]] Tensor operator[](std::size_t i) const;
  /// Returns the tensor of that name, the last one if there are several. Throws std::out_of_range,
  /// with the list of names.
  [[nodiscard]] Tensor operator[](std::string_view name) const;
  /// Returns the rows of the first tensor; unless samples are packed, of every tensor.
  [[nodiscard]] std::size_t rows() const noexcept {
    return shapes_.empty() || shapes_[0].empty() ? 0 : static_cast<std::size_t>(shapes_[0][0]);
  }

 private:
  const BatchLayout* layout_;
  std::size_t first_;
  std::size_t count_;
  std::byte* slot_;
  std::span<const std::vector<std::int64_t>> shapes_;
};

}  // namespace leat::feeder
