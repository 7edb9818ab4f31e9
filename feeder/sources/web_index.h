// What a shard of a WebDataset holds, and where: for feeder/sources/web_dataset.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/sources/web_part.h"

namespace leat::feeder {

/// Where a part of a sample lies in its shard.
struct WebMember {
  std::uint32_t begin = 0;    // of its headers, in tar's blocks of 512 bytes
  std::uint32_t headers = 0;  // blocks
  std::uint32_t size = 0;     // bytes of data, which follows them
  std::uint32_t digest = 0;   // tar_digest() of the headers
};

/// A shard's samples.
struct WebShard {
  std::vector<WebMember> members;  // [sample][part]
  std::uint64_t samples = 0;
  std::uint64_t skipped = 0;  // as they lacked a part
};

/// A file's name, split as WebDataset does it.
struct WebName {
  std::string_view key;
  std::string extension;  // in lower case
};
/// Nothing for a file that belongs to no sample.
[[nodiscard]] std::optional<WebName> split_web_name(std::string_view path);

/// Goes through a shard's headers; the parts' extensions are in lower case. Blocks, and throws, as
/// WebDataset's constructor.
[[nodiscard]] WebShard index_web_shard(const std::filesystem::path& shard,
                                       std::span<const WebPart> parts, bool skip_incomplete);

/// The same for all shards, with up to `threads` threads. What is wrong in the first shard that
/// something is wrong in is thrown.
[[nodiscard]] std::vector<WebShard> index_web_shards(std::span<const std::filesystem::path> shards,
                                                     std::span<const WebPart> parts,
                                                     bool skip_incomplete, std::size_t threads);

}  // namespace leat::feeder
