// IDX files made to order, good and bad, in a directory that goes away. Gzip is written by hand, in
// stored (uncompressed) blocks: the tests then do not depend on the library that they test, and can
// lie wherever they like. That compressed data is read is what the real MNIST files show.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/error.h"
#include "tests/support/child.h"
#include "tests/support/memory.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/texts.h"

namespace leat::feeder {

using support::expect_contains;

using Bytes = std::vector<std::uint8_t>;

/// A directory for temporary files.
class TemporaryDirectory : public support::TemporaryDirectory {
 public:
  /// Writes, or overwrites, a file.
  std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::path file = path() / name;
    std::ofstream out(file, std::ios::binary);
    for (const std::uint8_t byte : bytes) out.put(static_cast<char>(byte));
    out.close();
    if (!out) throw std::runtime_error("cannot write " + file.string());
    return file;
  }
  /// Writes a file again in place; its time of last modification is a second later.
  std::filesystem::path rewrite(const std::string& name, const Bytes& bytes) const {
    const auto before = std::filesystem::last_write_time(path() / name);
    std::filesystem::path file = write(name, bytes);
    std::filesystem::last_write_time(file, before + std::chrono::seconds(1));
    return file;
  }
};

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Bytes big_endian(std::uint32_t number) {
  return {static_cast<std::uint8_t>(number >> 24), static_cast<std::uint8_t>(number >> 16),
          static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)};
}

inline Bytes little_endian(std::uint32_t number) {
  Bytes bytes = big_endian(number);
  std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

/// A header of unsigned bytes with these extents.
inline Bytes idx_header(std::initializer_list<std::uint32_t> shape) {
  Bytes bytes = big_endian(0x800 + static_cast<std::uint32_t>(shape.size()));
  for (const std::uint32_t extent : shape) bytes = std::move(bytes) + big_endian(extent);
  return bytes;
}

/// RFC 1952, section 8.
inline std::uint32_t crc32_of(const Bytes& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return ~crc;
}

constexpr std::size_t kGzipHeader = 10;
constexpr std::size_t kGzipTrailer = 8;  // checksum, length

/// One gzip member of stored blocks.
inline Bytes gzip(const Bytes& bytes) {
  Bytes out = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
  std::size_t at = 0;
  do {
    const std::size_t length = std::min<std::size_t>(bytes.size() - at, 0xffff);
    const bool is_last = at + length == bytes.size();
    const auto low = static_cast<std::uint8_t>(length);
    const auto high = static_cast<std::uint8_t>(length >> 8);
    out = std::move(out) + Bytes{static_cast<std::uint8_t>(is_last), low, high,
                                 static_cast<std::uint8_t>(~low), static_cast<std::uint8_t>(~high)};
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
    at += length;
  } while (at < bytes.size());
  return std::move(out) + little_endian(crc32_of(bytes)) +
         little_endian(static_cast<std::uint32_t>(bytes.size()));
}

/// The first `count` bytes, at most all of them.
inline Bytes first(const Bytes& bytes, std::size_t count) {
  return {bytes.begin(),
          bytes.begin() + static_cast<std::ptrdiff_t>(std::min(count, bytes.size()))};
}

inline Bytes without_last(const Bytes& bytes) { return first(bytes, bytes.size() - 1); }

/// What `f` throws, as text; a failure of the test if that is not a leat::Error of one line.
template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with("leat: ")) << text;
    EXPECT_NE(text.find("; "), std::string::npos) << "no advice: " << text;
    return text;
  }
  ADD_FAILURE() << "no leat::Error";
  return "";
}

/// What `f` throws in a child process that has `bytes` of memory left, as text.
template <class F>
std::string error_without_memory(std::size_t bytes, const F& f) {
  return support::in_child([&]() -> std::string {
    if (!support::limit_growth(bytes)) return "no limit was set";
    return support::text_thrown_by<OutOfMemory>(f);
  });
}

}  // namespace leat::feeder
