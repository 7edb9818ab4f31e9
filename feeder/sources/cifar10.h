// CIFAR-10 and CIFAR-100, the binary version: photographs of 32 x 32 pixels in 10 or 100 classes.
//
//   CIFAR-10, data_batch_1.bin to data_batch_5.bin and test_batch.bin; a record of 3073 bytes:
//     byte 0       label, 0 to 9
//     byte 1       1024 bytes of red, 1024 of green, 1024 of blue; each row by row
//   CIFAR-100, train.bin and test.bin; a record of 3074 bytes:
//     byte 0       coarse label, 0 to 19: the superclass
//     byte 1       fine label, 0 to 99: the class
//     byte 2       the colours, as above
//
// Records follow one another from the file's first byte to its last.
//
// Source: A. Krizhevsky, "The CIFAR-10 dataset", https://www.cs.toronto.edu/~kriz/cifar.html
// ("binary version").
//
// Example
//   const leat::feeder::Cifar10 train("data/cifar-10-batches-bin", leat::feeder::Cifar10::kTrain,
//                                     {.label = leat::feeder::DType::kInt64});
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sources/files.h"

namespace leat::feeder {

class RecordFiles;

/// The type of the labels.
struct CifarOptions {
  /// kUint8, kInt32 or kInt64. PyTorch's losses need kInt64.
  DType label = DType::kUint8;
};

/// The base of Cifar10 and Cifar100. Maps the files into memory. Const functions are thread-safe.
class Cifar : public Dataset {
 public:
  /// Which part of the dataset.
  enum Split : std::uint8_t { kTrain, kTest };

  ~Cifar() override;
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Copies the image and checks the labels. (The constructor does not check labels: they are
  /// spread over all pages of the file.) Throws leat::Error, with file and byte, for a label out of
  /// range and for a file that has shrunk or can no longer be read; leat::Error if `index` >=
  /// size(); std::invalid_argument if the fields of `out` differ.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  [[nodiscard]] std::uint64_t digest() const noexcept override;
  void will_read(std::uint64_t index, std::uint64_t seed,
                 std::uint64_t epoch) const noexcept override;
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;

 protected:
  /// `classes` is 10 or 100.
  Cifar(std::size_t classes, std::string name, const std::vector<std::filesystem::path>& files,
        CifarOptions options);

 private:
  std::size_t classes_;
  std::string name_;
  std::vector<Field> fields_;
  std::unique_ptr<const RecordFiles> records_;
};

/// CIFAR-10. Fields of a sample: "image", uint8 {3, 32, 32} (colour, row, column); "label", a
/// scalar, 0 to 9.
class Cifar10 final : public Cifar {
 public:
  static constexpr std::size_t kClasses = 10;

  /// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, of `directory`. Throws
  /// leat::Error, with the file, if one is missing, unreadable, empty or truncated;
  /// std::invalid_argument for another type of labels.
  Cifar10(const std::filesystem::path& directory, Split split, CifarOptions options = {});
  /// Reads files of that format, named by patterns (sources/files.h). Throws as above.
  explicit Cifar10(const FilePatterns& files, CifarOptions options = {});
};

/// CIFAR-100. Fields of a sample: "image", uint8 {3, 32, 32}; "label", the class, 0 to 99;
/// "coarse_label", the superclass, 0 to 19.
class Cifar100 final : public Cifar {
 public:
  static constexpr std::size_t kClasses = 100;
  static constexpr std::size_t kCoarseClasses = 20;

  /// Reads train.bin or test.bin of `directory`. Throws as Cifar10 does.
  Cifar100(const std::filesystem::path& directory, Split split, CifarOptions options = {});
  /// Reads files of that format, named by patterns (sources/files.h). Throws as Cifar10 does.
  explicit Cifar100(const FilePatterns& files, CifarOptions options = {});
};

}  // namespace leat::feeder
