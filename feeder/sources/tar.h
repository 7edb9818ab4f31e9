// Uncompressed tar archives: which files are in an archive and where, to read them in any order.
//
// An archive is a sequence of members. A member is a header of 512 bytes, and its data, padded to a
// multiple of 512 bytes:
//
//   byte 0    100  name, ends with a 0 byte where it is shorter
//   byte 124   12  size of the data: octal digits; or, the first bit set, binary, big-endian
//   byte 148    8  checksum: the sum of the header's bytes, these eight counted as spaces
//   byte 156    1  type: '0' or 0, a file; '1', a hard link; '2', a symbolic link; '5', a
//                  directory; 'x', 'g', 'L', 'K', see below
//   byte 157  100  of a link: the name that it leads to
//   byte 257    8  "ustar\0" "00" (POSIX), "ustar  \0" (GNU), or anything (before 1988)
//   byte 345  155  POSIX: a prefix of the name, to be joined by a '/'
//
// A member of type 'x' describes the next member in records "<length> <key>=<value>\n": path,
// linkpath, size. A member of type 'L' holds the name of the next member, one of type 'K' the name
// that it leads to (GNU). Two blocks of 0 bytes mark the end; up to 19 more may pad the archive to
// a whole number of records of 20 blocks.
//
// A hard link has the data of the file that it leads to. Data of its own may follow its header: pax
// can write it (POSIX.1-2001), but older programs gave a size without data. As in libarchive, the
// bytes that follow decide.
//
// Source: POSIX.1-2017, "pax: Extended Description" (ustar, pax); GNU tar's manual, "Basic Tar
// Format". libarchive would replace these 200 lines, and add a dependency on ICU of 33 MB.
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

/// What a member of an archive is.
enum class TarKind : std::uint8_t {
  kFile,      // also a hard link with data of its own
  kHardLink,  // its data is that of the file `link`
  kSymbolicLink,
  kDevice,   // also a pipe
  kFolder,   // also the archive's label: nothing that could be taken for data
  kUnknown,  // of a type that tar.h does not know
};

/// A member of an archive.
struct TarMember {
  std::string name;  // with folders
  std::string link;  // of a link: what it leads to, as written there
  TarKind kind = TarKind::kFile;
  std::uint64_t begin = 0;   // byte of the archive where its headers begin
  std::uint64_t data = 0;    // byte where its data begins
  std::uint64_t size = 0;    // of its data
  std::uint32_t digest = 0;  // of the bytes begin .. data-1: tar_digest()
};

/// A digest that detects changed headers. It does not protect against deliberate forgery.
[[nodiscard]] std::uint32_t tar_digest(std::span<const std::byte> headers) noexcept;

/// Reads the headers of an archive and skips the data. For one thread at a time. Blocks the thread
/// while it reads.
///
/// Every function throws leat::Error, with the file and the byte, if the file is missing,
/// unreadable, compressed, not a tar archive, damaged or cut off, or if it holds a sparse or a
/// divided file. An archive without the mark of its end counts as cut off. So does one with more
/// than 10,752 bytes of 0 at its end: where a download was interrupted, space that was reserved for
/// the rest is 0. Anything but 0 bytes after the mark is an error, too: in concatenated archives
/// other programs would read only the first.
class TarReader {
 public:
  /// Opens `file`. `accept_zeros`: any number of 0 bytes may end the archive.
  explicit TarReader(std::filesystem::path file, bool accept_zeros = false);

  /// Gets the next member. False at the end.
  bool next(TarMember& member);
  /// Continues at byte `begin` of a TarMember.
  void seek(std::uint64_t begin);
  /// Returns the stamp of the archive when it was opened.
  [[nodiscard]] const FileStamp& stamp() const noexcept { return open_.stamp(); }

 private:
  struct Header;
  [[nodiscard]] std::span<const std::byte> block(std::uint64_t offset);
  void read_window(std::uint64_t offset, std::uint64_t most);
  [[nodiscard]] std::optional<Header> header(std::uint64_t offset, bool is_inside);
  [[nodiscard]] bool may_begin(std::uint64_t offset, bool is_end);
  [[nodiscard]] std::string text(const Header& header, std::uint64_t data);
  void read_records(const std::string& records, std::uint64_t offset, TarMember& member,
                    std::optional<std::uint64_t>& size) const;
  void check_end(std::uint64_t offset);
  [[noreturn]] void fail(const std::string& problem, const std::string& advice) const;

  std::filesystem::path file_;
  OpenFile open_;
  bool accept_zeros_;
  std::uint64_t size_ = 0;  // of the archive, in bytes
  std::uint64_t next_ = 0;  // byte of the next header
  std::vector<std::byte> window_;
  std::uint64_t window_begin_ = 0;  // byte of the archive at which the window begins
};

}  // namespace leat::feeder
