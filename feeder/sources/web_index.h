// The index of a WebDataset's shards: which samples they hold, and where (for web_dataset.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/sources/open_files.h"
#include "leat/feeder/sources/web_dataset.h"
#include "leat/feeder/sources/web_part.h"

namespace leat::feeder {

/// The place of a part of a sample in its shard.
struct WebMember {
  std::uint32_t begin = 0;    // first of its headers, in blocks of 512 bytes
  std::uint32_t headers = 0;  // number of header blocks
  std::uint32_t size = 0;     // bytes of data, which follows the headers
  std::uint32_t digest = 0;   // tar_digest() of the headers
};

/// A part that is a hard link: its WebMember describes the file that the link leads to.
struct WebLink {
  std::uint64_t member = 0;  // its number in `members`
  std::uint32_t begin = 0;   // of the link, which has its sample's name, in blocks
  std::uint32_t digest = 0;  // tar_digest() of its headers
};

/// A shard's samples.
struct WebShard {
  std::vector<WebMember> members;  // [sample][part]
  std::vector<WebLink> links;      // in the order of `member`
  std::uint64_t samples = 0;
  std::uint64_t skipped = 0;  // samples that lack a part
  WebLeftOut left_out;
  FileStamp stamp;  // of the archive
};

/// The name of a file, split by the rules of WebDataset.
struct WebName {
  std::string_view key;
  std::string extension;  // in lower case
};
/// Splits a path. Returns nothing for a file that belongs to no sample.
[[nodiscard]] std::optional<WebName> split_web_name(std::string_view path);

/// Reads the headers of a shard, for the parts and under the rules of `options`, whose extensions
/// are in lower case. Blocks and throws as WebDataset's constructor does.
[[nodiscard]] WebShard index_web_shard(const std::filesystem::path& shard,
                                       const WebDatasetOptions& options);

/// Reads the headers of all shards, on up to options.index_threads threads. Throws the error of the
/// first shard that has one.
[[nodiscard]] std::vector<WebShard> index_web_shards(std::span<const std::filesystem::path> shards,
                                                     const WebDatasetOptions& options);

}  // namespace leat::feeder
