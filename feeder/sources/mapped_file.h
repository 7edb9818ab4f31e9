// Mapped files: files as memory, read page by page, and errors instead of SIGBUS when they shrink.
//
// Example
//   const leat::feeder::MappedFile file("data/train.bin");
//   file.read(1024, record);                    // copies; throws if those bytes are not there
//   file.expect(1024, 100);
//   count(file.bytes().subspan(1024, 100));     // looks at them where they lie,
//   file.check(1024, 100);                      // and asks afterwards whether they were there
//
// A file that is replaced (written under another name and renamed) stays unchanged for a program
// that has mapped the old one. A file that is truncated in place loses its end: reads there get
// zeros instead of SIGBUS (guarded_range.h), and check() throws.
//
// check() needs no system call in the normal case. A file that has lost a whole page has lost its
// last page, so check() touches the last page after each read. Only a read of the last page itself
// has to ask for the size of the file, because the rest of that page, after the end of the file,
// reads as zeros without a fault.
//
// A file that is written again in place, with the same size, has a new modification time. Datasets
// call check_unchanged(), which looks at that time once for each mebibyte read, and for the first
// sample of a file. Once it finds a change, each check() throws. Data read before may mix both
// contents. Not detected: writes that do not set the time (to a page that another program has
// mapped, until the kernel writes it back), and a file that becomes longer.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "leat/feeder/sources/guarded_range.h"
#include "leat/feeder/sources/open_files.h"

namespace leat::feeder {

/// How a file is read: whether the kernel reads ahead.
enum class Access : std::uint8_t {
  kRandom,      ///< pieces in any order; the kernel does not read ahead
  kSequential,  ///< from front to back; the kernel reads ahead
};

/// A whole file, read-only, with the size that it had when it was opened. Holds no file descriptor.
/// Const functions are thread-safe; a read of a page that is not in memory blocks the thread.
class MappedFile {
 public:
  /// Maps `path`. Throws leat::Error, with the file, if it cannot be opened or mapped, is not a
  /// regular file, or is empty.
  explicit MappedFile(std::filesystem::path path, Access access = Access::kRandom);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() = default;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Returns the size when the file was opened; at least 1.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Returns the content. Bytes that the file has lost since read as zeros; check() detects that.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(pages_.get()), size_};
  }

  /// Has the disk fetch bytes [offset, offset + count) that are not in memory, for a later read.
  /// Without it, a file opened for random access is fetched page by page, each page when it is
  /// touched. Does not wait for the disk: takes 1 us, or 10 us if bytes have to be fetched. Returns
  /// `count`; 0, without effect, for bytes outside the file, if the kernel refuses, and for
  /// kSequential.
  std::uint64_t announce(std::uint64_t offset, std::uint64_t count) const noexcept;
  /// Announces bytes that are read next, if there are enough of them (32 KiB) for that to pay.
  void expect(std::uint64_t offset, std::uint64_t count) const noexcept;
  /// Has the processor fetch bytes [offset, offset + count) that are in memory into its cache, for
  /// a read some hundred nanoseconds later. The bytes must be in the file.
  void fetch_into_cache(std::uint64_t offset, std::uint64_t count) const noexcept;
  /// Copies the bytes from `offset` on. Throws as check() does.
  void read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Checks bytes [offset, offset + count) after they were read in place. Throws leat::Error, with
  /// the file, the byte and the reason, if the bytes were not the file's, because it has shrunk or
  /// could not be read, or if check_unchanged() has thrown. Throws std::out_of_range for bytes that
  /// never were in the file.
  void check(std::uint64_t offset, std::uint64_t count) const;
  /// Checks, at each read of a sample, that the file was not written again. `number` is the
  /// sample's number in this file, from 0, `bytes` its size. Asks the kernel (1 us) for some, as
  /// said above. Throws leat::Error, with the file, if it was written again since it was opened.
  void check_unchanged(std::uint64_t number, std::uint64_t bytes) const;

 private:
  void check_with_size(std::uint64_t offset, std::uint64_t count) const;
  [[noreturn]] void fail_rewritten() const;
  // The file, as its name leads to it now; nothing if the name leads to another file or to none.
  [[nodiscard]] std::optional<FileStamp> stamp_now() const;

  struct Unmap {
    std::size_t size;
    void operator()(void* pages) const noexcept;
  };

  std::filesystem::path path_;
  std::filesystem::path absolute_;  // also after a change of the working directory
  Access access_;
  std::size_t size_ = 0;
  std::uint64_t last_page_ = 0;  // where it begins
  dev_t device_ = 0;             // identify the file, also after a rename
  ino_t inode_ = 0;
  FileStamp stamp_;
  mutable std::atomic<bool> is_rewritten_ = false;
  std::unique_ptr<void, Unmap> pages_;
  std::unique_ptr<GuardedRange> guard_;  // destroyed before the pages
};

}  // namespace leat::feeder
