// Records of fixed size in binary files: embeddings, CIFAR's format, arrays of numpy's tofile().
//
//   byte 0                 header_bytes, skipped
//   byte header_bytes      record after record, and nothing after the last one; a record holds the
//                          tensors of a sample in the order of `fields`, without gaps, row-major,
//                          in the machine's byte order (little-endian)
//
// Example: a label of 8 bytes, then 512 floats
//   const leat::feeder::FixedRecords data(
//       "embeddings_*.bin", {.fields = {{"label", leat::feeder::DType::kInt64, {}},
//                                       {"embedding", leat::feeder::DType::kFloat32, {512}}}});
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

class RecordFiles;

/// The format of the records.
struct FixedRecordsOptions {
  /// The fields of a record, in their order. Each field has a fixed length and at least one byte.
  std::vector<Field> fields;
  /// Bytes to skip at the start of each file; 128 in most .npy files. 0: a .npy file is an error.
  std::uint64_t header_bytes = 0;
  /// Which files of a directory are read, where a directory is named.
  std::string extension = ".bin";
  /// The name of the dataset; empty: "fixed records of" and the pattern.
  std::string name;
};

/// The records of one or more files. The files are mapped, so they may be larger than the memory.
/// Const functions are thread-safe.
class FixedRecords final : public Dataset {
 public:
  /// Maps the files. Throws leat::Error as find_files() does, and for a file that cannot be mapped
  /// or is not a header and whole records (the text says where the last whole record ends);
  /// std::invalid_argument for a field of variable length or without bytes.
  FixedRecords(const FilePatterns& files, FixedRecordsOptions options);
  ~FixedRecords() override;

  [[nodiscard]] std::string_view name() const noexcept override { return options_.name; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return options_.fields; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Copies the record. Throws leat::Error if `index` >= size(), and with file and byte if the file
  /// has shrunk or can no longer be read, or if a byte of a bool is neither 0 nor 1;
  /// std::invalid_argument if the fields of `out` differ.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  [[nodiscard]] std::uint64_t digest() const noexcept override;
  void will_read(std::uint64_t index, std::uint64_t seed,
                 std::uint64_t epoch) const noexcept override;
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;

 private:
  FixedRecordsOptions options_;
  std::uint64_t record_bytes_;
  std::unique_ptr<const RecordFiles> records_;
};

}  // namespace leat::feeder
