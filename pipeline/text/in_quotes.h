// A text of the user's in an error.
#pragma once

#include <string>
#include <string_view>

namespace leat::pipeline {

/// The first 40 characters in quotes, with ? for each that is not printable ASCII.
[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, 40)) quoted += c >= ' ' && c <= '~' ? c : '?';
  return quoted + (text.size() > 40 ? "...\"" : "\"");
}

}  // namespace leat::pipeline
