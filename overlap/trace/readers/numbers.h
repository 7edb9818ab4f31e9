// Numbers from their decimal text, exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// Returns the text's number times 10^power, rounded half to even; std::nullopt if the text is no
/// number, or the result is beyond 64 bits.
[[nodiscard]] std::optional<std::int64_t> decimal(std::string_view text, int power) noexcept;

/// Returns the nanoseconds that a number of microseconds stands for, as decimal() rounds it.
[[nodiscard]] inline std::optional<Time> nanoseconds(std::string_view microseconds) noexcept {
  return decimal(microseconds, 3);
}

/// Returns a text's number: of a number (12, 12.0, 1.2e1) itself, else what the digits at the end
/// are: 7 of "stream 7". std::nullopt: it ends with none, or they do not fit.
template <class Number>
[[nodiscard]] std::optional<Number> number_of(std::string_view text) noexcept;
extern template std::optional<std::int64_t> number_of(std::string_view text) noexcept;
extern template std::optional<std::uint64_t> number_of(std::string_view text) noexcept;

}  // namespace overlap::trace
