// MNIST: handwritten digits, and whatever is distributed in its four files (Fashion-MNIST, KMNIST,
// parts of EMNIST): images of one channel with labels 0 to 9.
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

/// One split of an MNIST-like dataset, wholly in memory (47 MB for MNIST's training images).
///
/// Fields of a sample: "image", uint8 {rows, columns}, 0 = background to 255 = ink; "label", uint8,
/// a scalar, 0 to 9. Thread safety: everything is const and may be called from any number of fibers
/// and threads. Nothing but the constructor blocks.
class Mnist final : public Dataset {
 public:
  enum Split : std::uint8_t { kTrain, kTest };

  static constexpr std::size_t kClasses = 10;

  /// Reads, from `directory`, train-images-idx3-ubyte and train-labels-idx1-ubyte, or
  /// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte; where one is not there, the same name with
  /// ".gz". Format: feeder/sources/idx.h. Throws leat::Error, with the file and what is wrong in
  /// it, if one is missing or damaged, if their counts differ, if a label is above 9, or if there
  /// are no images or no pixels in them. Blocks the thread: half a second for MNIST's compressed
  /// training set.
  Mnist(const std::filesystem::path& directory, Split split);
  /// Files of that format, those of images by pattern (sources/files.h). The labels of each are in
  /// the file of its name with "labels" for the last "images", and "idx1" for "idx3":
  /// "train-images-0-idx3-ubyte.gz", "train-labels-0-idx1-ubyte.gz". Throws as above, also for a
  /// name without "images", and for images of two sizes.
  explicit Mnist(const FilePatterns& images);

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return labels_.size(); }
  /// Copies; never parks. Throws leat::Error if `index` >= size(), std::invalid_argument if `out`
  /// is of other fields, and writes nothing then.
  void read(std::uint64_t index, Sample& out) const override;

  /// Height and width of an image; 28 and 28 for MNIST.
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
  [[nodiscard]] static std::vector<Files> with_labels(
      const std::vector<std::filesystem::path>& images);
  void append(const std::filesystem::path& image_file, const std::filesystem::path& label_file);

  std::string name_;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::vector<std::uint8_t> images_;
  std::vector<std::uint8_t> labels_;
  std::vector<Field> fields_;
};

}  // namespace leat::feeder
