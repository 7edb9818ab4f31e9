// Tar archives, uncompressed: which files are in one, and where. For reading them in any order.
//
// A sequence of members, each a header of 512 bytes, then its data, padded to 512 bytes:
//
//   byte 0    100  name, ends with a 0 byte where it is shorter
//   byte 124   12  size of the data: octal digits; or, the first bit set, binary, big-endian
//   byte 148    8  checksum: the sum of the header's bytes, these eight counted as spaces
//   byte 156    1  type: '0' or 0, a file; '5', a directory; 'x', 'g', 'L', 'K', see below
//   byte 257    8  "ustar\0" "00" (POSIX), "ustar  \0" (GNU), or anything (before 1988)
//   byte 345  155  POSIX: what goes before the name, with a '/' between
//
// A member of type 'x' describes the next one in records "<length> <key>=<value>\n": path, size;
// one of type 'L' is the next one's name (GNU). The end is marked by two blocks of 0 bytes.
//
// Source: POSIX.1-2017, "pax: Extended Description" (ustar, pax); GNU tar's manual, "Basic Tar
// Format". Written out here, because libarchive would bring ICU: 33 MB, for 200 lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/sources/open_files.h"

namespace leat::feeder {

/// A file in an archive.
struct TarMember {
  std::string name;          // with folders
  std::uint64_t begin = 0;   // byte of the archive where its headers begin
  std::uint64_t data = 0;    // byte where its data begins
  std::uint64_t size = 0;    // of its data
  std::uint32_t digest = 0;  // of the bytes begin .. data-1: tar_digest()
};

/// Tells whether headers are still what they were; no protection against who wants to deceive.
[[nodiscard]] std::uint32_t tar_digest(std::span<const std::byte> headers) noexcept;

/// A name for a message: what would break its line as '?'.
[[nodiscard]] std::string printable(std::string_view name);

/// Goes through an archive's headers; the data between is not read. For one thread at a time;
/// blocks it while it reads.
///
/// Throws leat::Error, with the file and the byte in it, for what is not there, cannot be read, is
/// no tar or compressed, is damaged or cut off, or holds a sparse or a divided file. That the mark
/// of the end is missing counts as cut off, and so does anything but 0 bytes behind it: archives
/// that were put one behind the other, of which other programs would read the first.
class TarReader {
 public:
  explicit TarReader(std::filesystem::path file);

  /// The next file; others, such as directories and links, are passed over. False at the end.
  bool next(TarMember& member);
  /// Goes on at byte `begin`, a TarMember's.
  void seek(std::uint64_t begin);

 private:
  struct Header;
  [[nodiscard]] std::span<const std::byte> block(std::uint64_t offset);
  [[nodiscard]] std::optional<Header> header(std::uint64_t offset, bool is_inside);
  [[nodiscard]] std::string text(const Header& header, std::uint64_t data);
  void read_records(const std::string& records, std::uint64_t offset, std::string& name,
                    std::optional<std::uint64_t>& size) const;
  void check_end(std::uint64_t offset);
  [[noreturn]] void fail(const std::string& problem, const char* advice) const;

  std::filesystem::path file_;
  OpenFile open_;
  std::uint64_t size_ = 0;  // of the archive
  std::uint64_t next_ = 0;  // byte of the next header
  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;  // byte of the archive that it begins with
};

}  // namespace leat::feeder
