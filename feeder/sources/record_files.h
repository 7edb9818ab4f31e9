// Files of records of one size, one after the other, after an optional header:
//
//   byte 0                 header_bytes bytes, ignored
//   byte header_bytes      the records, record_bytes each, and nothing after them
//
// fixed_records.h and cifar10.h say what a record is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "leat/feeder/sources/files.h"
#include "leat/feeder/sources/mapped_file.h"
#include "leat/feeder/sources/shard_index.h"

namespace leat::feeder {

/// The records of several files, numbered over all files. Const functions are thread-safe.
class RecordFiles {
 public:
  /// Maps all files. `record_bytes` is at least 1. Throws leat::Error, with the file and the byte,
  /// if a file cannot be mapped, has no record, or ends within a record or within the header; if
  /// `header_bytes` is 0 and the file has NumPy's header.
  RecordFiles(const std::vector<std::filesystem::path>& files, std::uint64_t header_bytes,
              std::uint64_t record_bytes);

  [[nodiscard]] std::uint64_t size() const noexcept { return index_.size(); }
  [[nodiscard]] std::uint64_t digest() const noexcept { return digest_.value(); }

  /// The place of a record.
  struct Place {
    const MappedFile& file;
    std::uint64_t offset;  ///< of the first byte of the record
    std::uint64_t number;  ///< of the record in the file
  };
  /// Returns the place of record `index` < size().
  [[nodiscard]] Place find(std::uint64_t index) const noexcept;

 private:
  std::uint64_t header_bytes_;
  std::uint64_t record_bytes_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  ShardIndex index_;
  FilesDigest digest_;
};

}  // namespace leat::feeder
