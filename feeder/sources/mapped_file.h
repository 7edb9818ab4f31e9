// Files in memory, page by page as they are read, and what happens when they shrink.
//
// Example
//   const leat::feeder::MappedFile file("data/train.bin");
//   file.read(1024, record);                    // copies; throws if those bytes are not there
//   file.expect(1024, 100);
//   count(file.bytes().subspan(1024, 100));     // looks at them where they lie,
//   file.check(1024, 100);                      // and asks afterwards whether they were there
//
// A file that is replaced (written under another name and renamed, as it should be) stays what it
// was to those who have it mapped. One that is cut off in place loses its end under their feet:
// whoever reads there gets zeros instead of SIGBUS (guarded_range.h), and check() throws.
//
// How check() can tell, without a system call where all is well: a file that lost a whole page lost
// its last one, which is therefore touched after each read; and only reads of the last page itself
// have to ask for the file's size, since behind a file's end its last page is zeros without a
// fault. What changes in place without a change of the size is not noticed; nor is what shrinks and
// has grown again before the check, in pages that were never missed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "leat/feeder/sources/guarded_range.h"

namespace leat::feeder {

/// How a file is read, so that the kernel reads ahead or not.
enum class Access : std::uint8_t {
  kRandom,      // pieces, in any order: nothing is read that was not asked for
  kSequential,  // from front to back
};

/// A whole file, read-only, as long as it was when it was opened. No file descriptor is held.
/// Everything is const, and thread-safe; reading blocks the thread where a page is not in memory.
class MappedFile {
 public:
  /// Throws leat::Error, with the file, if it cannot be opened or mapped, is no regular file (of a
  /// pipe it would wait for the other end), or is empty.
  explicit MappedFile(std::filesystem::path path, Access access = Access::kRandom);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() = default;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// When it was opened; at least 1.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// All of it. What the file has lost since reads as zeros: check() tells.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(pages_.get()), size_};
  }

  /// To be called before bytes [offset, offset + count) are looked at: has the disk fetch them all
  /// at once, where that pays. Opened for random access, each page would be waited for by itself.
  void expect(std::uint64_t offset, std::uint64_t count) const noexcept;
  /// Bytes [offset, offset + count), which are in the file, will be looked at after some hundred
  /// nanoseconds: has the processor fetch those that are in memory into its cache.
  void fetch_into_cache(std::uint64_t offset, std::uint64_t count) const noexcept;
  /// Copies the bytes from `offset` on; throws as check() does.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// To be called after bytes [offset, offset + count) were looked at: throws leat::Error, with the
  /// file and what happened at which byte, if they were not the file's, because it has shrunk or
  /// could not be read. Throws std::out_of_range for what never was in the file.
  void check(std::uint64_t offset, std::uint64_t count) const;

 private:
  void check_with_size(std::uint64_t offset, std::uint64_t count) const;

  struct Unmap {
    std::size_t size;
    void operator()(void* pages) const noexcept;
  };

  std::filesystem::path path_;
  std::filesystem::path absolute_;  // whatever becomes the working directory
  Access access_;
  std::size_t size_ = 0;
  std::uint64_t last_page_ = 0;  // where it begins
  dev_t device_ = 0;             // which file it is, whatever becomes of its name
  ino_t inode_ = 0;
  std::unique_ptr<void, Unmap> pages_;
  std::unique_ptr<GuardedRange> guard_;  // goes before the pages do
};

}  // namespace leat::feeder
