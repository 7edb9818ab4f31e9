// Fields: the name, element type and shape of each tensor of a sample.
//
// Example
//   const leat::feeder::Field image{"image", leat::feeder::DType::kUint8, {28, 28}};
//   image.bytes();                                              // 784
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "leat/gpu/dtype.h"

namespace leat::feeder {

using gpu::BFloat16;
using gpu::DType;
using gpu::Float16;
using gpu::kDTypeOf;
using gpu::size_of;
using gpu::to_string;

/// One tensor of a sample. Every sample has it, with the same type and the same shape; only the
/// first extent of a field of variable length differs. A value.
struct Field {
  std::string name;  ///< "image"
  DType dtype = DType::kUint8;
  std::vector<std::int64_t> shape;  ///< of one sample, row-major; empty: a scalar
  /// The first extent differs from sample to sample; shape[0] is the largest.
  bool variable_length = false;

  /// Returns the elements of one sample; for variable length, of the longest sample.
  [[nodiscard]] std::size_t elements() const noexcept;
  /// Returns the bytes of one sample; for variable length, of the longest sample.
  [[nodiscard]] std::size_t bytes() const noexcept { return elements() * size_of(dtype); }
  /// Returns the bytes of one step along the first extent; for a scalar, bytes().
  [[nodiscard]] std::size_t row_bytes() const noexcept;
  friend bool operator==(const Field&, const Field&) = default;
};

/// For datasets: returns the index of the first byte that is neither 0 nor 1, hence no bool;
/// data.size() if there is none.
[[nodiscard]] std::size_t first_no_bool(std::span<const std::byte> data) noexcept;

}  // namespace leat::feeder
