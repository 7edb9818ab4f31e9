// WebDataset: samples as neighbouring files in tar archives ("shards"), read in any order.
//
//   a/0001.jpg   a/0001.cls   a/0001.seg.png   a/0002.jpg   ...
//
// The key of a file is its path up to the first dot of its base name: a/0001. Its extension is the
// rest, in lower case: jpg, cls, seg.png. Neighbouring files with the same key are one sample. A
// key that occurs in several places of a shard is an error if one of the places lacks a part;
// otherwise each place is a sample. A sample that is divided over shards is incomplete in each.
// Files without an extension, files whose base name begins with the dot, and files whose top folder
// begins and ends with "__" are ignored, as are symbolic links and devices; left_out() counts them.
// A hard link counts as a file of its own name with the data of the file that it leads to. That
// file must come before the link in the same shard. Samples are numbered over all shards, in the
// order of the shards.
//
// The constructor reads the headers of every shard once, and keeps 16 bytes for each part of each
// sample, 16 more for each part that is a hard link; while it reads a shard, 16 more for each of
// the shard's samples. In shards with hard links, headers are read twice, and about 40 bytes are
// kept meanwhile for each member's name. A read takes header and data with one pread(2), and
// compares the header, and the time of the shard's last modification: a shard that has changed
// since is an error.
//
// Source: webdataset/tariterators.py of the webdataset library (its README: "The WebDataset
// Format"). That library reads a shard as a stream. Here, a sample that lacks a part or has it
// twice is an error, or is left out.
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

struct WebLink;

/// How a WebDataset is read.
struct WebDatasetOptions {
  /// The parts of every sample, each a field of the dataset.
  std::vector<WebPart> parts = {jpeg_image("image"), class_label("label")};
  /// Leaves out samples that lack a part, and counts them in skipped(). Else they are an error.
  /// Samples whose files are not neighbours are an error in any case.
  bool skip_incomplete = false;
  /// Accepts shards that seem to lack something: shards without a sample, and shards that end with
  /// more 0 bytes than one of tar's records has (10 kB). Else they are an error, because an
  /// interrupted download looks so if its space was reserved. Needed for data that has empty
  /// shards, and for shards that were written by `tar -b` with more than 20 blocks a record.
  bool accept_short_shards = false;
  /// Threads that read the headers of shards at construction. They mostly wait for the disk.
  std::size_t index_threads = 8;
  /// The most files that stay open. Other files are opened for each read.
  std::size_t open_files = 128;
  std::string name = "web dataset";  ///< in messages
};

/// Members of shards that belong to no sample but may hold data. Folders are not counted.
struct WebLeftOut {
  std::uint64_t symbolic_links = 0;
  std::uint64_t devices = 0;            ///< also pipes
  std::uint64_t unknown_members = 0;    ///< of a type that is not known here
  std::uint64_t files_without_key = 0;  ///< without an extension, hidden, or below a folder "__x__"

  /// Adds the counts of `other`.
  WebLeftOut& operator+=(const WebLeftOut& other) noexcept;
  /// Whether all counts are equal.
  friend bool operator==(const WebLeftOut&, const WebLeftOut&) = default;
};
/// A text for messages: "4 symbolic links, 1 files without a key"; "" for none.
[[nodiscard]] std::string to_string(const WebLeftOut& left_out);

/// The samples in the shards of a WebDataset. Const functions are thread-safe. A read draws random
/// numbers in the order of the parts.
class WebDataset final : public Dataset {
 public:
  /// Reads the headers of `shards` (feeder/sources/files.h; of a directory, the files *.tar).
  /// Blocks the thread for about 8 us a sample if the shards are in memory. Throws leat::Error,
  /// with shard, sample and byte, if a shard cannot be read, is not a tar archive, or is
  /// compressed, damaged or cut off, or has no sample; if a sample lacks a part, has it twice, has
  /// files that are not neighbours, has a part whose size does not fit the field, or a part that is
  /// a hard link to anything but an earlier file of the shard; if there are no samples. Throws
  /// std::invalid_argument for no shards or no parts.
  explicit WebDataset(const FilePatterns& shards, const WebDatasetOptions& options = {});
  ~WebDataset() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Reads and decodes; never parks. Throws leat::Error, with shard, file and byte, if the shard
  /// has changed, if an image cannot be decoded, or if a label is not an integer; leat::Error if
  /// `index` >= size(); std::invalid_argument if the fields of `out` differ.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  [[nodiscard]] std::uint64_t digest() const noexcept override;
  /// Announces all parts. Opens the shard, if need be.
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t field) const override;

  /// Returns the key of a sample, read from its shard. Throws as read() does.
  [[nodiscard]] std::string key(std::uint64_t index) const;
  /// Returns how many samples were left out because they lack a part.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }
  /// Returns the counts of other members that belong to no sample. A count that should be 0 reveals
  /// samples that are missing without an error.
  [[nodiscard]] const WebLeftOut& left_out() const noexcept { return left_out_; }

 private:
  struct Shards;
  struct Place;
  [[nodiscard]] Place place(std::uint64_t index, std::size_t part) const;
  [[nodiscard]] WebLink named(const Place& place) const;
  [[nodiscard]] std::span<const std::byte> fetch(const Place& place, Sample& out) const;
  void decode(std::size_t part, const Place& place, std::span<const std::byte> data,
              Sample& out) const;
  [[noreturn]] void fail(const Place& place, const std::string& problem,
                         const std::string& advice) const;

  std::string name_;
  std::vector<WebPart> parts_;
  std::vector<Field> fields_;
  std::uint64_t skipped_ = 0;
  WebLeftOut left_out_;
  std::unique_ptr<Shards> shards_;
};

}  // namespace leat::feeder
