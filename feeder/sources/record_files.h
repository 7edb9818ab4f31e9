// Files of records that are all of one size, one after the other behind an optional header:
//
//   byte 0                 header_bytes, whatever they are
//   byte header_bytes      the records, record_bytes each, and nothing after them
//
// What is read from them has more to say about a record: fixed_records.h, cifar10.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "leat/feeder/sources/mapped_file.h"
#include "leat/feeder/sources/shard_index.h"

namespace leat::feeder {

/// The records of several files, numbered one file after the other. Const and thread-safe.
class RecordFiles {
 public:
  /// Maps them all. `record_bytes` is at least 1. Throws leat::Error, with the file and the byte,
  /// if one cannot be mapped, has no record, or ends within one (or within the header): such a file
  /// is truncated.
  RecordFiles(const std::vector<std::filesystem::path>& files, std::uint64_t header_bytes,
              std::uint64_t record_bytes);

  [[nodiscard]] std::uint64_t size() const noexcept { return index_.size(); }

  struct Place {
    const MappedFile& file;
    std::uint64_t offset;  // of the record's first byte
  };
  /// Of record `index` < size().
  [[nodiscard]] Place find(std::uint64_t index) const noexcept;

 private:
  std::uint64_t header_bytes_;
  std::uint64_t record_bytes_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  ShardIndex index_;
};

}  // namespace leat::feeder
