// Always true once the constructor has returned: images_ holds labels_.size() images of
// rows_ x columns_ > 0 pixels, and every label is below kClasses.
#include "leat/feeder/sources/mnist.h"

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/idx.h"

namespace leat::feeder {
namespace {

namespace fs = std::filesystem;

// Returns the path of the file, plain or compressed. If it exists and cannot be read, read_idx()
// reports the error.
fs::path find(const fs::path& directory, const std::string& name) {
  for (const char* extension : {"", ".gz"}) {
    fs::path file = directory / (name + extension);
    std::error_code error;
    // Returns a broken link, too: opening it reports the error.
    if (fs::symlink_status(file, error).type() != fs::file_type::not_found) return file;
  }
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  const std::string where = directory.string();
  if (!fs::exists(status)) refuse_address(where, ENOENT);
  throw Error("leat: no MNIST in " + where + ": " +
              (!fs::exists(status)         ? "there is no such directory"
               : !fs::is_directory(status) ? "that is no directory"
                                           : "it has neither " + name + " nor " + name + ".gz") +
              "; expected are {train,t10k}-images-idx3-ubyte[.gz] and "
              "{train,t10k}-labels-idx1-ubyte[.gz]");
}

}  // namespace

Mnist::Mnist(const fs::path& directory, Split split)
    : Mnist(split == kTrain ? "mnist train" : "mnist test", find_both(directory, split)) {}

Mnist::Mnist(const FilePatterns& images)
    : Mnist("mnist of " + images.text(), with_labels(images)) {}

// Finds both files before reading one, so that a missing file is reported at once.
std::vector<Mnist::Files> Mnist::find_both(const fs::path& directory, Split split) {
  const std::string prefix = split == kTrain ? "train" : "t10k";
  return {{find(directory, prefix + "-images-idx3-ubyte"),
           find(directory, prefix + "-labels-idx1-ubyte")}};
}

std::vector<Mnist::Files> Mnist::with_labels(const FilePatterns& images) {
  for (const std::string& one : images.all()) {
    std::error_code error;                        // of what is no path but a pattern
    if (!fs::is_directory(one, error)) continue;  // which has files of labels, too
    throw std::invalid_argument("leat: mnist: " + one +
                                " is a folder: give the split to read from it, train or test, or "
                                "the files of its images");
  }
  std::vector<Files> files;
  for (const fs::path& image_file : find_files(images, "")) {
    std::string name = image_file.filename().string();
    const std::size_t at = name.rfind("images");
    if (at == std::string::npos) {
      throw Error("leat: " + image_file.string() +
                  " has no \"images\" in its name, which names the file of its labels; rename it, "
                  "or give a pattern that does not match it");
    }
    name.replace(at, 6, "labels");
    if (const std::size_t rank = name.rfind("idx3"); rank != std::string::npos) {
      name.replace(rank, 4, "idx1");
    }
    files.push_back({image_file, image_file.parent_path() / name});
  }
  return files;
}

Mnist::Mnist(std::string name, const std::vector<Files>& files) : name_(std::move(name)) {
  for (const Files& both : files) append(both.images, both.labels);
  fields_ = {{"image",
              DType::kUint8,
              {static_cast<std::int64_t>(rows_), static_cast<std::int64_t>(columns_)}},
             {"label", DType::kUint8, {}}};
}

void Mnist::append(const fs::path& image_file, const fs::path& label_file) {
  IdxArray labels = read_idx(label_file, 1);
  IdxArray images = read_idx(image_file, 3);
  const auto by = [](std::size_t rows, std::size_t columns) {
    return std::to_string(rows) + " x " + std::to_string(columns);
  };

  if (images.shape[0] != labels.shape[0]) {
    throw Error("leat: " + image_file.string() + " holds " + std::to_string(images.shape[0]) +
                " images, but " + label_file.string() + " " + std::to_string(labels.shape[0]) +
                " labels; take both from one dataset");
  }
  if (images.values.empty()) {
    throw Error("leat: " + image_file.string() +
                " holds no pixels: " + std::to_string(images.shape[0]) + " images of " +
                by(images.shape[1], images.shape[2]) + " (byte 4 of its header); " + kFetchAgain);
  }
  if (!labels_.empty() && (images.shape[1] != rows_ || images.shape[2] != columns_)) {
    throw Error("leat: " + image_file.string() + " holds images of " +
                by(images.shape[1], images.shape[2]) +
                " (byte 8 of its header), the files before " + by(rows_, columns_) +
                "; take all of them from one dataset");
  }
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    if (labels.values[i] >= kClasses) {
      throw Error("leat: label " + std::to_string(labels.values[i]) + " of sample " +
                  std::to_string(labels_.size() + i) + " in " + label_file.string() + " (byte " +
                  std::to_string(8 + i) +
                  ", decompressed) is above 9; check that it is a dataset " + "of 10 classes");
    }
  }
  rows_ = images.shape[1];
  columns_ = images.shape[2];
  for (const auto& [file, bytes] :
       {std::pair(image_file, images.values.size()), std::pair(label_file, labels.values.size())}) {
    digest_.add(file.extension() == ".gz" ? file.stem() : file, bytes);
  }
  if (labels_.empty()) {
    images_ = std::move(images.values);
    labels_ = std::move(labels.values);
  } else {
    try {
      images_.insert(images_.end(), images.values.begin(), images.values.end());
      labels_.insert(labels_.end(), labels.values.begin(), labels.values.end());
    } catch (const std::bad_alloc&) {
      lacks_memory(image_file, images.values.size(),
                   "there is no memory for its images behind those of the files before",
                   "take fewer files, or convert them to fixed records, which are mapped");
    }
  }
}

void Mnist::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  const std::size_t pixels = rows_ * columns_;
  out.copy(0, std::as_bytes(std::span(images_).subspan(index * pixels, pixels)));
  out.bytes(1)[0] = std::byte{labels_[index]};
}

}  // namespace leat::feeder
