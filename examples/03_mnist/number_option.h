// Numbers on a command line.
#pragma once

#include <charconv>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace mnist {

/// The number that `text`, the value of an option, stands for. `expected` says in words what lies
/// between `least` and `most`. Throws std::invalid_argument: "<option> <text>: <expected> is
/// expected".
template <class Number>
[[nodiscard]] Number number(const std::string& option, std::string_view text, Number least,
                            Number most, const std::string& expected) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole_text = error == std::errc{} && end == text.data() + text.size();
  // In this form, because nan is neither below nor above anything.
  const bool is_in_range = value >= least && value <= most;
  if (is_whole_text && is_in_range) return value;
  throw std::invalid_argument(option + " " + std::string(text) + ": " + expected + " is expected");
}

/// The same for a whole number.
template <class Number>
[[nodiscard]] Number whole_number(const std::string& option, std::string_view text, Number least,
                                  Number most = std::numeric_limits<Number>::max()) {
  return number(option, text, least, most,
                "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace mnist
