// NumPy's files, .npy, as shards: each an array with an entry for each sample.
//
// Example
//   using leat::feeder::NpyArrays;
//   const leat::feeder::Npy pairs({NpyArrays{"x", "data/x_*.npy"},
//                                  NpyArrays{"y", "data/y_*.npy"}});
//   const leat::feeder::Npy records("data/records_*.npy");   // of a structured type
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sources/files.h"

namespace leat::feeder {

/// Some arrays of .npy files, one behind the other, and their name. A value.
struct NpyArrays {
  std::string
      name;  ///< of the field; with a structured type, before its members' names: "x.member"
  FilePatterns files;
};

/// Samples in .npy files (versions 1.0 to 3.0), along the first axis. The files of an array have
/// one type and one shape of a sample; two arrays may be cut into files at different samples. The
/// files are mapped into memory. Const functions are thread-safe.
///
/// Types: integers, floats, little-endian; bools, as uint8; datetime64 and timedelta64, as int64.
/// A structured type is a field for each of its members; padding is left out.
class Npy final : public Dataset {
 public:
  /// Maps all files and reads their headers. A directory stands for its files *.npy. Throws
  /// leat::Error, with the file and the byte, if a file cannot be found or mapped, is no .npy file,
  /// is damaged or cut off, has another type or shape than the first, or a type that no field
  /// has: big-endian, complex, strings, objects; if it is in Fortran's order, or a single number;
  /// if arrays differ in the number of samples. Throws std::invalid_argument for no arrays and for
  /// two fields of a name.
  explicit Npy(std::vector<NpyArrays> arrays, std::string name = {});
  /// One array. The field is "x", or the members of a structured type by their own names.
  explicit Npy(const FilePatterns& files, std::string name = {});
  ~Npy() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  /// Copies. Throws leat::Error, with file and byte, for a file that has shrunk, was written again
  /// or can no longer be read; leat::Error if `index` >= size(); std::invalid_argument if the
  /// fields of `out` differ.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  [[nodiscard]] std::uint64_t digest() const noexcept override { return digest_; }
  void will_read(std::uint64_t index, std::uint64_t seed,
                 std::uint64_t epoch) const noexcept override;
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;

 private:
  struct Array;
  void add(const std::string& prefix, const FilePatterns& files, FilesDigest& digest);

  std::string name_;
  std::vector<Field> fields_;
  std::uint64_t size_ = 0;
  std::uint64_t digest_ = 0;
  std::vector<std::unique_ptr<const Array>> arrays_;
};

}  // namespace leat::feeder
