// Files that are read again and again: as many stay open as may.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace leat::feeder {

/// A file open for reading.
class OpenFile {
 public:
  /// Throws leat::Error if it cannot be opened.
  explicit OpenFile(const std::filesystem::path& file);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

/// Opens files when they are wanted, and closes the one that was opened first when there are too
/// many. Thread-safe; blocks while it opens one, but nobody who wants another.
class OpenFiles {
 public:
  OpenFiles(std::span<const std::filesystem::path> files, std::size_t most);

  /// File number `file`; open as long as it is held. Throws leat::Error if it cannot be opened.
  [[nodiscard]] std::shared_ptr<const OpenFile> get(std::size_t file);

 private:
  std::span<const std::filesystem::path> files_;
  std::size_t most_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const OpenFile>> open_;  // by number; null: not open
  std::deque<std::size_t> order_;                      // in which they were opened
};

}  // namespace leat::feeder
