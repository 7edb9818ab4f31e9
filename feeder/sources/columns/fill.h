// The values that take the places of nulls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "leat/feeder/field.h"

namespace leat::feeder {

/// Returns the bytes of `value` as an element of type `dtype`, size_of(dtype) of them. Throws
/// std::invalid_argument, with the column, if the type cannot hold it: a fraction or a number out
/// of range for integers. A float is rounded to nearest.
[[nodiscard]] std::array<std::byte, 8> encode_fill(
    const std::variant<std::int64_t, double, std::uint64_t>& value, DType dtype,
    const std::string& column);

}  // namespace leat::feeder
