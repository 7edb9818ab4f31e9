// MNIST, and the datasets in the same four files (Fashion-MNIST, KMNIST, parts of EMNIST): images
// of one channel with labels 0 to 9.
//
// Example:
//   const leat::feeder::Mnist train("examples/data/mnist", leat::feeder::Mnist::kTrain);
//   leat::feeder::SampleBuffer first(train.fields());
//   train.read(0, first);                       // first.as<std::uint8_t>(1)[0], its label, is 5
//   const leat::feeder::Mnist parts("data/images_{0..7}.idx");  // and labels_0.idx to labels_7.idx
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sources/files.h"

namespace leat::feeder {

/// One split of a dataset in this format, all in memory (47 MB for MNIST's training images).
///
/// Fields of a sample: "image", uint8 {rows, columns}, from 0 (background) to 255 (ink); "label",
/// uint8, a scalar, 0 to 9. Const functions are thread-safe. Only the constructor blocks.
class Mnist final : public Dataset {
 public:
  /// Which part of the dataset.
  enum Split : std::uint8_t { kTrain, kTest };

  static constexpr std::size_t kClasses = 10;

  /// Reads from `directory` the files train-images-idx3-ubyte and train-labels-idx1-ubyte, or
  /// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte; if one does not exist, the file of that
  /// name with ".gz". Throws leat::Error, with the file and the reason, if a file is missing or
  /// damaged, if the numbers of images and labels differ, if a label is above 9, or if there are no
  /// images or no pixels. Blocks the thread: half a second for MNIST's compressed training set.
  Mnist(const std::filesystem::path& directory, Split split);
  /// Reads files of that format. Patterns (sources/files.h) name the files of images. A file of
  /// labels has the same name, with "labels" in place of the last "images" and "idx1" in place of
  /// "idx3": "train-images-0-idx3-ubyte.gz", "train-labels-0-idx1-ubyte.gz". Throws as above, and
  /// for a name without "images" and for images of two sizes; std::invalid_argument for a folder,
  /// which has files of labels, too.
  explicit Mnist(const FilePatterns& images);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return labels_.size(); }
  /// Returns the digest of the decompressed data and of the names without ".gz".
  [[nodiscard]] std::uint64_t digest() const noexcept override { return digest_.value(); }
  /// Copies the sample; never parks. Throws leat::Error if `index` >= size(), std::invalid_argument
  /// if the fields of `out` differ; `out` is then unchanged.
  void read(std::uint64_t index, Sample& out) const override;

  /// Height of an image; 28 for MNIST.
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  /// Width of an image; 28 for MNIST.
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
  /// All images, [size, rows, columns], row-major. Valid for the dataset's life.
  [[nodiscard]] std::span<const std::uint8_t> images() const noexcept { return images_; }
  /// All labels, [size]. Valid for the dataset's life.
  [[nodiscard]] std::span<const std::uint8_t> labels() const noexcept { return labels_; }

 private:
  struct Files {
    std::filesystem::path images;
    std::filesystem::path labels;
  };
  Mnist(std::string name, const std::vector<Files>& files);
  [[nodiscard]] static std::vector<Files> find_both(const std::filesystem::path& directory,
                                                    Split split);
  [[nodiscard]] static std::vector<Files> with_labels(const FilePatterns& images);
  void append(const std::filesystem::path& image_file, const std::filesystem::path& label_file);

  std::string name_;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::vector<std::uint8_t> images_;
  std::vector<std::uint8_t> labels_;
  std::vector<Field> fields_;
  FilesDigest digest_;
};

}  // namespace leat::feeder
