// Tar archives made to order, good and bad, byte by byte: so the tests do not depend on what they
// test, and can lie wherever they like.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {

constexpr std::size_t kTarBlock = 512;

inline Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

inline void set_text(Bytes& header, std::size_t at, const std::string& text) {
  std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
}

/// Makes the checksum of a header right.
inline Bytes with_checksum(Bytes header) {
  set_text(header, 148, "        ");
  unsigned sum = 0;
  for (const std::uint8_t byte : header) sum += byte;
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  set_text(header, 148, text);
  header[154] = 0;
  return header;
}

inline std::string octal(std::uint64_t number, int digits) {
  char text[24];
  std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(number));
  return text;
}

/// A header. `magic`: "ustar" and its version as POSIX or GNU write it, or nothing.
inline Bytes tar_header(const std::string& name, std::uint64_t size, char type = '0',
                        const std::string& magic = std::string("ustar\0"
                                                               "00",
                                                               8)) {
  Bytes header(kTarBlock);
  set_text(header, 0, name.substr(0, 100));
  set_text(header, 100, "0000644");
  set_text(header, 124, octal(size, 11));
  set_text(header, 136, octal(0, 11));
  header[156] = static_cast<std::uint8_t>(type);
  set_text(header, 257, magic);
  return with_checksum(std::move(header));
}

inline Bytes padded(Bytes data) {
  data.resize((data.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return data;
}

/// A file: its header, then its data.
inline Bytes tar_file(const std::string& name, const Bytes& data, char type = '0') {
  return tar_header(name, data.size(), type) + padded(data);
}
inline Bytes tar_file(const std::string& name, const std::string& data, char type = '0') {
  return tar_file(name, bytes_of(data), type);
}

/// A link to `target`.
inline Bytes tar_link(const std::string& name, const std::string& target, std::uint64_t size = 0,
                      char type = '1') {
  Bytes header = tar_header(name, size, type);
  set_text(header, 157, target.substr(0, 100));
  return with_checksum(std::move(header));
}

inline Bytes tar_end() { return Bytes(2 * kTarBlock); }

inline Bytes read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace leat::feeder
