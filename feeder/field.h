// What a sample consists of: tensors with a name, a type of elements and a shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace leat::feeder {

/// The type of a tensor's elements.
enum class DType : std::uint8_t {
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,   // IEEE 754 binary16
  kBFloat16,  // the upper half of a float
  kFloat32,
  kFloat64,
};

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype) noexcept;
/// "uint8", "float32", ...
[[nodiscard]] const char* to_string(DType dtype) noexcept;

/// The bits of a 16-bit float, for which C++20 has no type.
struct Float16 {
  std::uint16_t bits;
};
/// The same of bfloat16, the upper half of a 32-bit one.
struct BFloat16 {
  std::uint16_t bits;
};

/// The DType of a C++ type; not defined for types that are no tensor element.
template <class T>
inline constexpr DType kDTypeOf = T::not_an_element_type;
template <>
inline constexpr DType kDTypeOf<std::int8_t> = DType::kInt8;
template <>
inline constexpr DType kDTypeOf<std::int16_t> = DType::kInt16;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<std::uint8_t> = DType::kUint8;
template <>
inline constexpr DType kDTypeOf<std::uint16_t> = DType::kUint16;
template <>
inline constexpr DType kDTypeOf<std::uint32_t> = DType::kUint32;
template <>
inline constexpr DType kDTypeOf<std::uint64_t> = DType::kUint64;
template <>
inline constexpr DType kDTypeOf<Float16> = DType::kFloat16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;

/// One tensor of a sample: all samples have it with the same type and, but for the length of one
/// that is of variable length, the same shape.
struct Field {
  std::string name;  // "image"
  DType dtype = DType::kUint8;
  std::vector<std::int64_t> shape;  // of one sample, row-major; empty: a scalar
  /// The first extent differs from sample to sample; shape[0] is the longest.
  bool variable_length = false;

  /// Elements of one sample, of the longest.
  [[nodiscard]] std::size_t elements() const noexcept;
  /// Bytes of one sample, of the longest.
  [[nodiscard]] std::size_t bytes() const noexcept { return elements() * size_of(dtype); }
  /// Bytes of a step along the first extent; bytes() of a scalar.
  [[nodiscard]] std::size_t row_bytes() const noexcept;
  friend bool operator==(const Field&, const Field&) = default;
};

}  // namespace leat::feeder
