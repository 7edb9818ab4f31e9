// The types of the elements of tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leat/csp/base/required.h"

namespace leat::gpu {

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
  kFloat16,   ///< IEEE 754 binary16
  kBFloat16,  ///< the upper half of a float
  kFloat32,
  kFloat64,
  kBool,  ///< 1 byte: 0 or 1
};

/// Returns the bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype) noexcept;
/// Returns the name of the type: "uint8", "float32", ...
[[nodiscard]] const char* to_string(DType dtype) noexcept;

/// The bits of an IEEE 754 binary16 number, for which C++20 has no type.
struct Float16 {
  std::uint16_t bits;
};
/// The bits of a bfloat16 number: the upper half of a 32-bit float.
struct BFloat16 {
  std::uint16_t bits;
};

/// The DType of a C++ type. Does not compile for a type that is not a tensor element.
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
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;

}  // namespace leat::gpu
