// Generated shards for WebDataset (feeder/sources/web_dataset.h), for tests and benchmarks.
//
// Sample i has three files: <i, ten digits>.jpg, an image of bench/data/synthetic_images.h;
// .cls, its label in ASCII; .json, {"index": i, "width": w, "height": h}. A sample depends on the
// seed and i alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "bench/data/synthetic_images.h"

namespace leat::feeder {

/// Writes a tar archive, file by file. Every function throws leat::Error if writing fails. For one
/// thread.
class TarWriter {
 public:
  /// How names of more than 100 bytes are written.
  enum LongNames : std::uint8_t { kPax, kGnu };

  /// Creates `file`.
  explicit TarWriter(const std::filesystem::path& file, LongNames long_names = kPax);

  /// Adds a file with this name and content.
  void add(const std::string& name, std::span<const std::byte> data);
  /// Adds a file with this name and content.
  void add(const std::string& name, const std::string& data);
  /// Writes the end-of-archive mark. Without it the archive is incomplete.
  void finish();

 private:
  void write_member(const std::string& name, char type, std::span<const std::byte> data);

  std::filesystem::path file_;
  LongNames long_names_;
  std::ofstream out_;
};

/// Options of write_synthetic_web(). The defaults resemble ImageNet.
struct SyntheticWebOptions {
  std::uint64_t samples = 1000;
  std::uint64_t samples_per_shard = 500;
  std::uint32_t min_width = 400;
  std::uint32_t max_width = 600;
  std::uint32_t min_height = 300;
  std::uint32_t max_height = 450;
  /// Labels are 0 to classes - 1. If classes is 0, a sample's label is its number.
  std::uint64_t classes = 1000;
  std::uint64_t seed = 0;
  JpegEncoding encoding = {};
};

/// A generated sample: the content of its files.
struct SyntheticSample {
  std::string key;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::byte> jpeg;
  std::int64_t label = 0;
  std::string json;
};
/// Returns sample `index`. Throws leat::Error if libjpeg fails.
[[nodiscard]] SyntheticSample synthetic_sample(const SyntheticWebOptions& options,
                                               std::uint64_t index);

/// Writes the shards synthetic-000000.tar and so on into the existing folder `directory`, and
/// returns them in order. Takes ten seconds for 1000 samples of the default size. Throws
/// leat::Error if a shard cannot be written.
std::vector<std::filesystem::path> write_synthetic_web(const std::filesystem::path& directory,
                                                       const SyntheticWebOptions& options = {});

}  // namespace leat::feeder
