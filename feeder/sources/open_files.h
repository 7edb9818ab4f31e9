// Files that are open for reading, and a limit on their number.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace leat::feeder {

/// The size of a file, and when it was last modified.
struct FileStamp {
  FileStamp() = default;
  explicit FileStamp(const struct stat& status) noexcept
      : bytes(static_cast<std::uint64_t>(status.st_size)), modified(status.st_mtim) {}

  std::uint64_t bytes = 0;
  timespec modified = {};

  /// Returns whether a file that had this stamp, and has the stamp `now`, was written again with
  /// the same size. (Reads detect a shorter file; nothing reads appended data.)
  [[nodiscard]] bool is_rewritten(const FileStamp& now) const noexcept {
    return bytes == now.bytes &&
           (modified.tv_sec != now.modified.tv_sec || modified.tv_nsec != now.modified.tv_nsec);
  }
};

/// A regular file that is open for reading. Const functions are thread-safe.
class OpenFile {
 public:
  /// Throws leat::Error if `file` cannot be opened or is no regular file: a directory, a pipe, a
  /// device. Never waits for the other end of a pipe.
  explicit OpenFile(const std::filesystem::path& file);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Opens `file`; null if the process or the machine has too many open files. Throws leat::Error
  /// as the constructor does.
  [[nodiscard]] static std::shared_ptr<const OpenFile> open_if_descriptors_are_left(
      const std::filesystem::path& file);

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Bytes in the file when it was opened.
  [[nodiscard]] std::uint64_t size() const noexcept { return stamp_.bytes; }
  /// Returns the stamp when the file was opened.
  [[nodiscard]] const FileStamp& stamp() const noexcept { return stamp_; }
  /// Asks the kernel whether the file was written again since it had the stamp `before`.
  [[nodiscard]] bool is_rewritten(const FileStamp& before) const noexcept;
  /// Returns the device and the inode of the file.
  [[nodiscard]] dev_t device() const noexcept { return device_; }
  [[nodiscard]] ino_t inode() const noexcept { return inode_; }

  /// What a read found.
  struct Read {
    std::size_t bytes = 0;  ///< fewer than asked for only if the file ends there, or after an error
    int error = 0;          ///< errno; 0: there was none
  };
  /// Reads bytes `offset` .. + out.size() with pread(2). Blocks the thread.
  [[nodiscard]] Read read(std::uint64_t offset, std::span<std::byte> out) const noexcept;
  /// Has the disk fetch, of `count` > 0 bytes from `offset` on, those that are not in memory, for a
  /// later read. Does not wait for them. Returns `count`; 0 if the kernel refuses.
  std::uint64_t announce(std::uint64_t offset, std::uint64_t count) const noexcept;

 private:
  OpenFile(const std::filesystem::path& file, int descriptor);

  int descriptor_;
  FileStamp stamp_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// Opens a file when it is asked for. Once `most` files are open, it closes the file that was
/// opened first. If no more files can be opened, it closes half of its files, and from then on
/// keeps no more than are left. Thread-safe; opening blocks the calling thread, but no call for
/// another file.
class OpenFiles {
 public:
  OpenFiles(std::span<const std::filesystem::path> files, std::size_t most);

  /// Returns file number `file`, open while the caller holds it. Throws leat::Error if that fails.
  [[nodiscard]] std::shared_ptr<const OpenFile> get(std::size_t file);

 private:
  using Files = std::vector<std::shared_ptr<const OpenFile>>;
  [[nodiscard]] std::shared_ptr<const OpenFile> open(std::size_t file);
  // Takes the oldest files out until `most` are left. The caller destroys them without the lock.
  [[nodiscard]] Files take_oldest(std::size_t most);

  std::span<const std::filesystem::path> files_;
  std::mutex mutex_;               // guards all members below
  std::size_t most_;               // files to keep open
  Files open_;                     // by file number; null: not open
  std::deque<std::size_t> order_;  // open files, oldest first
};

}  // namespace leat::feeder
