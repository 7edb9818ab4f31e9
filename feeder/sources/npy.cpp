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

// Returns the rest of the text, from the value of a key on; empty if there is none.
std::string_view value_of(std::string_view key, std::string_view text) {
  for (const std::string_view mark : {key, std::string_view(":")}) {
    text.remove_prefix(std::min(text.find(mark), text.size()));
    text.remove_prefix(std::min(mark.size(), text.size()));
  }
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

// Returns false if the text is none of a header.
bool parse(std::string_view text, NpyHeader& header) {
  const std::string_view descr = value_of("descr", text);
  const bool is_string = descr.starts_with('\'') || descr.starts_with('"');
  header.descr = is_string ? descr.substr(1, descr.find(descr[0], 1) - 1) : descr.substr(0, 40);
  std::string_view shape = value_of("shape", text);
  const std::size_t end = shape.find(')');
  if (descr.empty() || !shape.starts_with('(') || end == std::string_view::npos) return false;
  for (shape = shape.substr(1, end - 1);;) {
    // Python 2 wrote (1000L,).
    shape.remove_prefix(std::min(shape.find_first_not_of(" ,L"), shape.size()));
    if (shape.empty()) return true;
    const auto [stop, error] =
        std::from_chars(shape.data(), shape.data() + shape.size(), header.shape.emplace_back());
    if (error != std::errc{}) return false;
    shape.remove_prefix(static_cast<std::size_t>(stop - shape.data()));
  }
}

}  // namespace

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
