// Generated data of any size for benchmarks and tests, in the formats of feeder/sources. The
// content depends on a seed and on numbers alone, so a test can check any sample that it gets.
//
// Example
//   leat::feeder::write_tokens("data", {.tokens = 1'000'000, .shards = 4, .seed = 1});
//   const leat::feeder::TokenShards text("data", {.sequence_length = 1024});
//   // text: token 0 of shard 2 is synthetic_token(1, 2, 0, 50257)
//
// Each function writes shards into `directory`, which it creates if needed, and returns the files
// in order. Where samples do not divide evenly, the first shards have one more. Files are written
// under another name and renamed, so a reader that has mapped an old file keeps it. The functions
// throw leat::Error, with the file, if a file cannot be written; std::invalid_argument for no
// shards, or more shards than samples. They block the thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "leat/feeder/field.h"

namespace leat::feeder {

/// The bytes of sample `index`.
void synthetic_bytes(std::uint64_t seed, std::uint64_t index, std::span<std::byte> out) noexcept;
/// Returns the label of sample `index`, below `classes`.
[[nodiscard]] std::uint32_t synthetic_label(std::uint64_t seed, std::uint64_t index,
                                            std::uint32_t classes) noexcept;
/// Token `position` of shard `shard`, below `vocabulary`.
[[nodiscard]] std::uint32_t synthetic_token(std::uint64_t seed, std::uint64_t shard,
                                            std::uint64_t position,
                                            std::uint32_t vocabulary) noexcept;

/// Options of write_records().
struct SyntheticRecords {
  std::uint64_t samples = 0;
  std::size_t shards = 1;
  std::uint64_t seed = 0;
  std::size_t record_bytes = 4096;
  /// Zeros at the start of each file.
  std::size_t header_bytes = 0;
};
/// Writes records_00000.bin and so on, for FixedRecords. Record i, counted over all files, is
/// synthetic_bytes(seed, i).
std::vector<std::filesystem::path> write_records(const std::filesystem::path& directory,
                                                 const SyntheticRecords& what);

/// Options of write_cifar10().
struct SyntheticCifar10 {
  std::uint64_t samples = 50'000;
  std::size_t shards = 5;
  std::uint64_t seed = 0;
};
/// Writes data_batch_1.bin and so on, for Cifar10. The pixels of sample i are
/// synthetic_bytes(seed, i), its label is synthetic_label(seed, i, 10). Cifar10::kTrain reads five
/// shards.
std::vector<std::filesystem::path> write_cifar10(const std::filesystem::path& directory,
                                                 const SyntheticCifar10& what);

/// Options of write_tokens().
struct SyntheticTokens {
  std::uint64_t tokens = 0;
  std::size_t shards = 1;
  std::uint64_t seed = 0;
  /// kUint16 or kUint32.
  DType token = DType::kUint16;
  /// True: with llm.c's header. False: tokens begin at byte 0.
  bool header = true;
  std::uint32_t vocabulary = 50'257;
};
/// Writes tokens_00000.bin and so on, for TokenShards. Token p of shard s is
/// synthetic_token(seed, s, p, vocabulary). A shard with a header has at most 2^31 - 1 tokens.
std::vector<std::filesystem::path> write_tokens(const std::filesystem::path& directory,
                                                const SyntheticTokens& what);

}  // namespace leat::feeder
