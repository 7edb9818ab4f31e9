// Many file names in little memory (for image_folder.h), and looking through folders for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/feeder/sources/image_folder.h"

namespace leat::feeder {

/// The files of an ImageFiles, with their labels: 8 bytes and the name of each. Const functions are
/// thread-safe.
class ImageList {
 public:
  /// Begins a folder, whose files are added next and have this label. "": no folder.
  void add_folder(std::string path, std::int64_t label);
  /// Adds a file of the last folder.
  void add(std::string_view name);
  /// Labels of each file, in place of their folders'.
  void set_labels(std::vector<std::int64_t> labels) { labels_ = std::move(labels); }
  /// Gives back what was allocated in advance.
  void shrink();

  [[nodiscard]] std::uint64_t size() const noexcept { return ends_.size(); }
  [[nodiscard]] std::string path(std::uint64_t index) const;
  [[nodiscard]] std::int64_t label(std::uint64_t index) const;

 private:
  struct Folder {
    std::string path;
    std::uint64_t first;  // of its files
    std::int64_t label;
  };
  [[nodiscard]] const Folder& folder_of(std::uint64_t index) const;

  std::vector<Folder> folders_;
  std::string names_;                // one behind the other
  std::vector<std::uint64_t> ends_;  // of the names
  std::vector<std::int64_t> labels_;
};

/// The images below a folder.
struct ScannedFolder {
  std::vector<std::string> classes;
  ImageList list;
  std::uint64_t digest = 0;
};

/// Looks through `root`. Blocks and throws as the constructor of ImageFolder does.
[[nodiscard]] ScannedFolder scan_image_folder(const std::filesystem::path& root,
                                              const ImageFolderOptions& options);

}  // namespace leat::feeder
