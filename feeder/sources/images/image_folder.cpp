#include "leat/feeder/sources/image_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/files.h"
#include "leat/feeder/sources/images/image_error.h"
#include "leat/feeder/sources/images/image_list.h"
#include "leat/feeder/sources/open_files.h"
#include "leat/feeder/sources/read_image.h"

namespace leat::feeder {
namespace {

constexpr std::size_t kImageField = 0;
constexpr std::size_t kLabelField = 1;

// The list of what Files is made of, checked.
ImageList listed(const std::vector<std::string>& paths, std::vector<std::int64_t> labels) {
  if (paths.empty()) throw std::invalid_argument("leat: Files without a path");
  if (!labels.empty() && labels.size() != paths.size()) {
    throw std::invalid_argument("leat: Files of " + std::to_string(paths.size()) + " paths and " +
                                std::to_string(labels.size()) + " labels; give one for each path");
  }
  ImageList list;
  list.add_folder("", 0);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].empty() || paths[i].find('\0') != std::string::npos) {
      throw std::invalid_argument("leat: path " + std::to_string(i) + " of Files is " +
                                  (paths[i].empty() ? "empty" : "no path: a byte of it is 0"));
    }
    list.add(paths[i]);
  }
  // Of the others the reads tell: there may be millions. A folder alone is a frequent mistake.
  if (std::error_code ignored; std::filesystem::is_directory(paths[0], ignored)) {
    throw std::invalid_argument("leat: Files: " + paths[0] +
                                " is a folder; give the paths of its images, or, if it has a "
                                "folder for each class, take ImageFolder");
  }
  list.set_labels(std::move(labels));
  list.shrink();
  return list;
}

}  // namespace

void ImageList::add_folder(std::string path, std::int64_t label) {
  folders_.push_back({std::move(path), size(), label});
}

void ImageList::add(std::string_view name) {
  names_ += name;
  ends_.push_back(names_.size());
}

void ImageList::shrink() {
  names_.shrink_to_fit();
  ends_.shrink_to_fit();
}

const ImageList::Folder& ImageList::folder_of(std::uint64_t index) const {
  const auto behind = std::upper_bound(
      folders_.begin(), folders_.end(), index,
      [](std::uint64_t wanted, const Folder& folder) { return wanted < folder.first; });
  return *std::prev(behind);
}

std::string ImageList::path(std::uint64_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  const std::string_view name(names_.data() + begin, ends_[index] - begin);
  std::string path = folder_of(index).path;
  if (!path.empty()) path += '/';
  return path += name;
}

std::int64_t ImageList::label(std::uint64_t index) const {
  return labels_.empty() ? folder_of(index).label : labels_[index];
}

ImageFiles::ImageFiles(std::string name, const ImageOptions& image, bool has_labels)
    : name_(std::move(name)), image_(image), fields_{image_field("image", image)} {
  if (has_labels) fields_.push_back({"label", DType::kInt64, {}});
}

ImageFiles::~ImageFiles() = default;

void ImageFiles::set(ImageList list, std::uint64_t digest) {
  list_ = std::make_unique<const ImageList>(std::move(list));
  digest_ = digest;
}

std::uint64_t ImageFiles::size() const noexcept { return list_->size(); }

void ImageFiles::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  const std::filesystem::path file = list_->path(index);
  std::span<std::byte> bytes;
  {
    const OpenFile opened(file);
    bytes = out.scratch(opened.size());
    const OpenFile::Read read = opened.read(0, bytes);
    if (read.error != 0) cannot_read(file, std::strerror(read.error), advice_for_unreadable());
    bytes = bytes.first(read.bytes);  // it may have become shorter: then it is cut off
  }
  try {
    read_image(bytes, image_, out, kImageField);
  } catch (const ImageError& error) {
    cannot_read(file, error.problem(), error.advice());
  }
  if (fields_.size() > kLabelField) out.as<std::int64_t>(kLabelField)[0] = list_->label(index);
}

std::uint64_t ImageFiles::announce(std::uint64_t index, std::uint64_t /*seed*/,
                                   std::uint64_t /*epoch*/) const noexcept {
  try {
    const OpenFile opened(list_->path(index));
    return opened.size() == 0 ? 0 : opened.announce(0, opened.size());
  } catch (...) {  // the read that follows reports it
    return 0;
  }
}

std::string ImageFiles::path(std::uint64_t index) const {
  check_index(*this, index);
  return list_->path(index);
}

std::int64_t ImageFiles::label(std::uint64_t index) const {
  check_index(*this, index);
  return list_->label(index);
}

ImageFolder::ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options)
    : ImageFiles(options.name, options.image, true) {
  ScannedFolder found = scan_image_folder(root, options);
  classes_ = std::move(found.classes);
  set(std::move(found.list), found.digest);
}

Files::Files(const std::vector<std::string>& paths, std::vector<std::int64_t> labels,
             const FilesOptions& options)
    : ImageFiles(options.name, options.image, !labels.empty()) {
  ImageList list = listed(paths, std::move(labels));
  FilesDigest digest;
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    digest.add(paths[i], static_cast<std::uint64_t>(list.label(i)));
  }
  set(std::move(list), digest.value());
}

}  // namespace leat::feeder
