// Always true: a folder is open only while its entries are read, so the depth of the tree does not
// matter. Folders that lead to a folder are known by device and inode: links may form loops.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/files.h"
#include "leat/feeder/sources/images/formats.h"
#include "leat/feeder/sources/images/image_list.h"

namespace leat::feeder {
namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

// Which files are images, by their names.
class Wanted {
 public:
  explicit Wanted(const std::vector<std::string>& extensions) {
    for (const std::string& one : extensions) {
      endings_.push_back((one.starts_with('.') ? "" : ".") + in_lower_case(one));
    }
  }

  // `refused`: the file is an image of a format that is not read here.
  bool operator()(std::string_view file, ImageFormat& format, bool& refused) const {
    refused = false;
    const std::string name = in_lower_case(file);
    if (!endings_.empty()) {
      return std::any_of(endings_.begin(), endings_.end(),
                         [&](const std::string& one) { return name.ends_with(one); });
    }
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return false;
    bool is_image = false;
    format = format_of(std::string_view(name).substr(dot + 1), is_image);
    refused = is_image && !is_read_here(format);
    return is_image;
  }

 private:
  std::vector<std::string> endings_;  // empty: those of all images
};

// A folder that was or will be read.
struct Visit {
  std::string path;  // below the root; "": the root
  std::size_t from;  // the visit that found it
  dev_t device = 0;
  ino_t inode = 0;
};

// The files of a folder.
struct FoundFiles {
  std::string path;  // below the root
  std::vector<std::string> names;
};

class FolderScan {
 public:
  FolderScan(const std::filesystem::path& root, const ImageFolderOptions& options)
      : root_(root.native()), wanted_(options.extensions) {}

  ScannedFolder scan(bool allow_empty) {
    ScannedFolder result;
    visits_ = {{"", 0}};
    result.classes = classes();
    std::string empty;
    std::size_t empty_classes = 0;
    FilesDigest digest;
    for (std::size_t label = 0; label < result.classes.size(); ++label) {
      const std::uint64_t before = result.list.size();
      for (FoundFiles& folder : folders_of(result.classes[label])) {
        result.list.add_folder(path_of(folder.path), static_cast<std::int64_t>(label));
        for (const std::string& file : folder.names) {
          result.list.add(file);
          digest.add_name(folder.path + '/' + file, label);
        }
      }
      if (result.list.size() > before) continue;
      if (++empty_classes == 1) empty = result.classes[label];
    }
    if (empty_classes > 0 && (!allow_empty || result.list.size() == 0)) {
      cannot_read(path_of(empty),
                  "the class has no images" +
                      (empty_classes == 1
                           ? std::string()
                           : ", nor have " + std::to_string(empty_classes - 1) + " other classes"),
                  result.list.size() == 0
                      ? "check the path; the names of images end in .jpg, .jpeg, .png or .webp, or "
                        "as the option extensions says"
                      : "remove its folder, or set the option allow_empty");
    }
    result.list.shrink();
    result.digest = digest.value();
    return result;
  }

 private:
  std::string path_of(const std::string& below) const {
    if (below.empty()) return root_;
    return root_.ends_with('/') ? root_ + below : root_ + '/' + below;
  }

  std::vector<std::string> classes() {
    FoundFiles ignored;
    read(0, ignored, true);
    std::vector<std::string> names;
    for (std::size_t i = 1; i < visits_.size(); ++i) names.push_back(visits_[i].path);
    visits_.resize(1);
    if (names.empty()) {
      cannot_read(root_, "there are no folders in it, each of which would be a class",
                  "check the path; for images without classes, take Files");
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // The folders of a class that have images, as they are numbered.
  std::vector<FoundFiles> folders_of(const std::string& name) {
    std::vector<FoundFiles> folders;
    visits_.resize(1);
    visits_.push_back({name, 0});
    for (std::size_t i = 1; i < visits_.size(); ++i) {  // which grows meanwhile
      FoundFiles found;
      read(i, found, false);
      if (found.names.empty()) continue;
      std::sort(found.names.begin(), found.names.end());
      folders.push_back(std::move(found));
    }
    std::sort(folders.begin(), folders.end(),
              [](const FoundFiles& a, const FoundFiles& b) { return a.path < b.path; });
    return folders;
  }

  // Reads a folder: appends its folders to visits_, and, unless there are only to be folders, its
  // images to `found`.
  void read(std::size_t visit, FoundFiles& found, bool folders_only) {
    found.path = visits_[visit].path;
    const std::string path = path_of(found.path);
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
    if (!folder) fail_to_read(path);
    check_loop(visit, dirfd(folder.get()), path);
    for (;;) {
      errno = 0;
      const dirent* const entry = readdir(folder.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name.starts_with('.')) continue;
      const unsigned char type = type_of(*entry, dirfd(folder.get()));
      if (type == DT_DIR) {
        visits_.push_back(
            {found.path.empty() ? std::string(name) : found.path + '/' + entry->d_name, visit});
      } else if (!folders_only && is_image(path, name, type)) {
        found.names.emplace_back(name);
      }
    }
    if (errno != 0) fail_to_read(path);
  }

  // What the entry is, or leads to; DT_UNKNOWN: to nothing.
  static unsigned char type_of(const dirent& entry, int folder) {
    if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return entry.d_type;
    struct stat status {};
    if (fstatat(folder, entry.d_name, &status, 0) != 0) return DT_UNKNOWN;
    if (S_ISDIR(status.st_mode)) return DT_DIR;
    return S_ISREG(status.st_mode) ? DT_REG : DT_FIFO;
  }

  bool is_image(const std::string& folder, std::string_view name, unsigned char type) const {
    ImageFormat format = ImageFormat::kOther;
    bool refused = false;
    if (!wanted_(name, format, refused)) return false;
    const auto fail = [&](const std::string& problem, const std::string& advice) {
      cannot_read(folder + '/' + std::string(name), problem, advice);
    };
    if (refused && format == ImageFormat::kOther) {
      fail("images of this format are not read",
           "convert them to JPEG, PNG or WebP, or name what is to be read in the "
           "option extensions");
    }
    if (refused) {
      const std::string library = format == ImageFormat::kPng ? "libpng" : "libwebp";
      fail("this Leat was built without " + library,
           "build it with " + library + " (Debian: " + library + "-dev)");
    }
    if (type == DT_REG) return true;
    fail(type == DT_UNKNOWN ? "it is a link to nothing, or cannot be looked at"
                            : "it is no regular file",
         "remove it, or put the image there");
    return false;
  }

  // Notes where the folder is, and throws if it is also on the way to itself.
  void check_loop(std::size_t visit, int descriptor, const std::string& path) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0) fail_to_read(path);
    Visit& here = visits_[visit];
    here.device = status.st_dev;
    here.inode = status.st_ino;
    for (std::size_t at = visit; at != 0;) {
      at = visits_[at].from;
      if (visits_[at].device != here.device || visits_[at].inode != here.inode) continue;
      cannot_read(path,
                  "it is a link to " + path_of(visits_[at].path) + ", in which it lies itself",
                  "remove the link");
    }
  }

  [[noreturn]] void fail_to_read(const std::string& path) const {
    const int error = errno;
    if (path == root_) refuse_address(path, error);
    cannot_read(path, std::strerror(error), advice_for_unreadable("it is a folder and"));
  }

  std::string root_;
  Wanted wanted_;
  std::vector<Visit> visits_;  // the root, then folders of one class
};

}  // namespace

ScannedFolder scan_image_folder(const std::filesystem::path& root,
                                const ImageFolderOptions& options) {
  return FolderScan(root, options).scan(options.allow_empty);
}

}  // namespace leat::feeder
