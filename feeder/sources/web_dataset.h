// WebDataset: samples as neighbouring files in tar archives ("shards"), read in any order.
//
//   a/0001.jpg   a/0001.cls   a/0001.seg.png   a/0002.jpg   ...
//
// A file's key is its path up to the first dot in its base name, a/0001; its extension is the rest
// in lower case, jpg, cls, seg.png. Neighbours of one key are a sample. Passed over is what has no
// extension or nothing before the dot, and where the first part of the path begins and ends with
// "__". Sample i of a dataset is the i-th over all shards, in their order.
//
// Each shard's headers are gone through once, at construction, and where each part of a sample lies
// is remembered: 16 bytes each. A read takes header and data in one pread(2), and sees by the
// header whether the shard is still what it was.
//
// Source: webdataset/tariterators.py of the webdataset library (its README: "The WebDataset
// Format"). Its streams take what is in a shard as it comes; samples that lack a part, or have one
// twice, are errors here, or left out. Tar: feeder/sources/tar.h.
//
// Example:
//   const ImageOptions crop{.fit = Fit::kRandomResizedCrop, .mirror = 0.5};
//   const WebDataset train("data/train-{000..127}.tar",
//                          {.parts = {jpeg_image("image", crop), class_label("label")}});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"
#include "leat/feeder/sources/files.h"
#include "leat/feeder/sources/web_part.h"

namespace leat::feeder {

/// For a WebDataset.
struct WebDatasetOptions {
  std::vector<WebPart> parts = {jpeg_image("image"), class_label("label")};
  /// Samples that lack a part are left out, and skipped() counts them. Else they are an error.
  bool skip_incomplete = false;
  /// Threads that go through shards at construction; most of it is waiting for the disk.
  std::size_t index_threads = 8;
  /// Files that are kept open; others are opened for a read.
  std::size_t open_files = 128;
  std::string name = "web dataset";  // for messages
};

/// Samples in the shards of a WebDataset. Thread safety: everything is const and may be called from
/// any number of threads. Random numbers are drawn in the order of parts.
class WebDataset final : public Dataset {
 public:
  /// Goes through the headers of `shards` (feeder/sources/files.h; a directory's end in ".tar").
  /// Blocks the thread meanwhile: for some 8 us a sample where the shards are in memory. Throws
  /// leat::Error, with shard, sample and byte, if a shard cannot be read or is no tar, compressed,
  /// damaged or cut off (feeder/sources/tar.h); if a sample lacks a part, has one twice, or one of
  /// a size that is not the field's; if there are no samples. std::invalid_argument for no shards
  /// or no parts.
  explicit WebDataset(const FilePatterns& shards, const WebDatasetOptions& options = {});
  ~WebDataset() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Reads and decodes; never parks. Throws leat::Error, with shard, file and byte, if the shard is
  /// no longer what it was, if an image cannot be decoded or a label is no integer;
  /// std::invalid_argument if `out` is of other fields.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t field) const override;

  /// The key of a sample: read from its shard. Throws as read().
  [[nodiscard]] std::string key(std::uint64_t index) const;
  /// Samples that were left out, as they lacked a part.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }

 private:
  struct Shards;
  struct Place;
  [[nodiscard]] Place place(std::uint64_t index, std::size_t part) const;
  [[nodiscard]] std::span<const std::byte> fetch(const Place& place, Sample& out) const;
  void decode(std::size_t part, const Place& place, std::span<const std::byte> data,
              Sample& out) const;
  [[noreturn]] void fail(const Place& place, const std::string& problem,
                         const std::string& advice) const;

  std::string name_;
  std::vector<WebPart> parts_;
  std::vector<Field> fields_;
  std::uint64_t skipped_ = 0;
  std::unique_ptr<Shards> shards_;
};

}  // namespace leat::feeder
