// Files that are open for reading, and a limit to how many are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace leat::feeder {

/// A file that is open for reading. Const functions are thread-safe.
class OpenFile {
 public:
  /// Does not wait for the other end of a pipe. Throws leat::Error if the file cannot be opened.
  explicit OpenFile(const std::filesystem::path& file);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  /// What a read found.
  struct Read {
    std::size_t bytes = 0;  ///< fewer than asked for only if the file ends there, or after an error
    int error = 0;          ///< errno; 0: there was none
  };
  /// Reads bytes `offset` .. + out.size() with pread(2). Blocks the thread.
  [[nodiscard]] Read read(std::uint64_t offset, std::span<std::byte> out) const noexcept;

 private:
  int descriptor_;
};

/// Opens a file when it is asked for. Once `most` files are open, it closes the file that was
/// opened first. Thread-safe; opening blocks the calling thread, and no call for another file.
class OpenFiles {
 public:
  OpenFiles(std::span<const std::filesystem::path> files, std::size_t most);

  /// File number `file`, open as long as the caller holds it. Throws leat::Error if it cannot be
  /// opened.
  [[nodiscard]] std::shared_ptr<const OpenFile> get(std::size_t file);

 private:
  std::span<const std::filesystem::path> files_;
  std::size_t most_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const OpenFile>> open_;  // by file number; null: not open
  std::deque<std::size_t> order_;                      // open files, oldest first
};

}  // namespace leat::feeder
