// Records of fixed size in binary files: CIFAR's format, embeddings, whatever a script has written
// with numpy's tofile().
//
//   byte 0                 header_bytes, skipped
//   byte header_bytes      record after record, and nothing behind the last one; a record is the
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

/// What a record is.
struct FixedRecordsOptions {
  /// In the order in which they lie in a record; each of fixed length and at least a byte.
  std::vector<Field> fields;
  /// Skipped at the start of each file.
  std::uint64_t header_bytes = 0;
  /// Of the files that are meant where a directory is named.
  std::string extension = ".bin";
  /// Dataset::name(); empty: "fixed records of" and the pattern.
  std::string name;
};

/// The records of one or more files, which are mapped (sources/mapped_file.h): as many may be read
/// as fit on the disk. Everything is const and thread-safe.
class FixedRecords final : public Dataset {
 public:
  /// Throws leat::Error as find_files() (sources/files.h) and RecordFiles do: for a file whose size
  /// is not that of its header and of whole records, with where the last whole one ends;
  /// std::invalid_argument for fields that cannot be.
  FixedRecords(const FilePatterns& files, FixedRecordsOptions options);
  ~FixedRecords() override;

  [[nodiscard]] std::string_view name() const noexcept override { return options_.name; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return options_.fields; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Copies. Throws leat::Error if `index` >= size(), and with file and byte if the file has shrunk
  /// or cannot be read any more; std::invalid_argument if `out` is of other fields.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  void will_read(std::uint64_t index) const noexcept override;

 private:
  FixedRecordsOptions options_;
  std::uint64_t record_bytes_;
  std::unique_ptr<const RecordFiles> records_;
};

}  // namespace leat::feeder
