// Always true: the header is not trusted. At most kMostText bytes of its text are read.
#include "leat/feeder/sources/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>

#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

constexpr std::uint64_t kVersionAt = 6;
constexpr std::uint64_t kMostText = 65'535;
constexpr std::size_t kMostName = 40;  // of a type that is not known

// Returns false if the text is none of a shape.
bool parse_shape(std::string_view text, std::vector<std::int64_t>& shape) {
  if (!text.starts_with('(') || !text.ends_with(')') || text.size() < 2) return false;
  for (text = text.substr(1, text.size() - 2);;) {
    // Python 2 wrote (1000L,).
    text.remove_prefix(std::min(text.find_first_not_of(" ,L"), text.size()));
    if (text.empty()) return true;
    const auto [stop, error] =
        std::from_chars(text.data(), text.data() + text.size(), shape.emplace_back());
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  }
}

// Returns false if the text is none of a header.
bool parse(std::string_view text, NpyHeader& header) {
  bool has_shape = false;
  bool has_order = false;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!text.starts_with('{')) return false;
  for (text.remove_prefix(1); !text.empty();) {
    const std::string_view key = unquoted(take_literal(text));
    const std::string_view value = take_literal(text);
    if (key == "descr") {
      header.descr = value.starts_with('[') ? value : unquoted(value).substr(0, kMostName);
    } else if (key == "fortran_order") {
      header.is_fortran = value == "True";
      has_order = header.is_fortran || value == "False";
    } else if (key == "shape") {
      has_shape = parse_shape(value, header.shape);
      if (!has_shape) return false;
    }
  }
  return has_shape && has_order && !header.descr.empty();
}

}  // namespace

std::string_view take_literal(std::string_view& text) {
  std::size_t depth = 0;
  char quote = 0;
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    const char letter = text[end];
    if (quote != 0) {
      if (letter == '\\') ++end;
      if (letter == quote) quote = 0;
    } else if (letter == '\'' || letter == '"') {
      quote = letter;
    } else if (letter == '(' || letter == '[' || letter == '{') {
      ++depth;
    } else if (depth == 0 && (letter == ',' || letter == ':' || letter == ')' || letter == ']' ||
                              letter == '}')) {
      break;
    } else if (letter == ')' || letter == ']' || letter == '}') {
      --depth;
    }
  }
  end = std::min(end, text.size());
  std::string_view literal = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  constexpr std::string_view kBlank = " \n";
  literal.remove_prefix(std::min(literal.find_first_not_of(kBlank), literal.size()));
  return literal.substr(0, literal.find_last_not_of(kBlank) + 1);
}

std::string_view unquoted(std::string_view literal) {
  const bool is_string = literal.size() >= 2 && (literal[0] == '\'' || literal[0] == '"') &&
                         literal.back() == literal[0];
  return is_string ? literal.substr(1, literal.size() - 2) : literal;
}

NpyHeader read_npy_header(const MappedFile& file) {
  const auto expect = [&](std::uint64_t bytes) {
    if (bytes <= file.size()) return;
    cannot_read(file.path(),
                "truncated: its .npy header has " + std::to_string(bytes) +
                    " bytes, and the file " + std::to_string(file.size()),
                kFetchAgain);
  };
  std::array<unsigned char, 6> raw{};  // the version, and the length of the text
  expect(kVersionAt + raw.size());
  file.read(kVersionAt, std::as_writable_bytes(std::span(raw)));
  if (raw[0] < 1 || raw[0] > 3 || raw[1] != 0) {
    cannot_read(file.path(),
                "its .npy header (byte 6) is of version " + std::to_string(raw[0]) + "." +
                    std::to_string(raw[1]) + "; 1.0, 2.0 and 3.0 are read",
                "save it again with NumPy");
  }
  const std::uint64_t at = kVersionAt + (raw[0] == 1 ? 4 : 6);
  std::uint64_t length = raw[2] | std::uint64_t{raw[3]} << 8;
  if (raw[0] != 1) length |= std::uint64_t{raw[4]} << 16 | std::uint64_t{raw[5]} << 24;
  expect(at + length);

  NpyHeader header{.begin = at + length};
  std::string text(std::min(length, kMostText), '\0');
  file.read(at, std::as_writable_bytes(std::span(text)));
  if (!parse(text, header)) {
    cannot_read(file.path(),
                "damaged: the text of its .npy header (byte " + std::to_string(at) +
                    ") is not {'descr': ..., 'fortran_order': ..., 'shape': ...}",
                kFetchAgain);
  }
  return header;
}

}  // namespace leat::feeder
