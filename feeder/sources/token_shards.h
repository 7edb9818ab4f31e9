// Token shards: the tokens of a text, one after the other, in .bin files, from which sequences are
// cut for a language model to be trained on.
//
//   without a header (nanoGPT): uint16 or uint32 tokens, little-endian, from byte 0 to the end
//
//   with llm.c's header:
//     byte 0      int32   magic: 20240520 (GPT-2), the tokens are uint16; 20240801 (Llama 3),
//     uint32 byte 4      int32   version: 1 for GPT-2, 7 for Llama 3 byte 8      int32   number of
//     tokens byte 12             zeros up to byte 1024: 256 int32 in all byte 1024           the
//     tokens, and nothing after them
//
// Sources: https://github.com/karpathy/llm.c, dev/data/data_common.py (write_datafile) and
// llmc/dataloader.h; https://github.com/karpathy/nanoGPT, data/openwebtext/prepare.py.
//
// A sample is a window of sequence_length tokens and the one that comes next: x are all but the
// last of these, y all but the first. Windows begin `stride` tokens apart, from the first token of
// each shard, and never cross from one shard into the next; tokens at a shard's end that fill no
// window are in none.
//
// Example
//   const leat::feeder::TokenShards text("data/fineweb_train_*.bin", {.sequence_length = 1024});
//   leat::feeder::SampleBuffer window(text.fields());
//   text.read(5, window);               // window.as<std::int32_t>(0) is x, (1) is y
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

class MappedFile;

/// What begins a shard.
enum class TokenHeader : std::uint8_t {
  /// llm.c's where the first four bytes are one of its magic numbers, else none. (As tokens these
  /// bytes would be 55432 or 55713, more than GPT-2's vocabulary has, or 20 million.)
  kAuto,
  kNone,
  kLlmC,
};

/// What shards are made of, and what is cut from them.
struct TokenShardsOptions {
  /// Tokens in x, and in y; at least 1.
  std::size_t sequence_length = 0;
  /// From the beginning of a window to that of the next; 0: sequence_length, so that every token is
  /// predicted once.
  std::size_t stride = 0;
  TokenHeader header = TokenHeader::kAuto;
  /// kUint16 or kUint32: the tokens of files without a header.
  DType token = DType::kUint16;
  /// Of the tensors delivered: kInt32, kInt64, kUint32, or, of uint16 tokens, kUint16.
  DType dtype = DType::kInt32;
  /// Tokens have to be below; 0: below what dtype can hold. A larger one is an error when it is
  /// read.
  std::uint64_t vocabulary = 0;
  /// Of the files that are meant where a directory is named.
  std::string extension = ".bin";
};

/// The windows of token shards, which are mapped (sources/mapped_file.h). Fields of a sample: "x"
/// and "y", {sequence_length}. Everything is const and thread-safe.
class TokenShards final : public Dataset {
 public:
  /// Opens all shards and looks at their headers. Throws leat::Error, as find_files() and
  /// MappedFile do, and with the file and both values where a magic number, a version, or the
  /// number of tokens is not what it has to be, where a file ends within a token or has too few of
  /// them for one window, and where shards differ in their header or type. Throws
  /// std::invalid_argument for options that cannot be, naming them.
  TokenShards(const FilePatterns& files, const TokenShardsOptions& options);
  ~TokenShards() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Copies and widens. Throws leat::Error, with file and byte, for a token that is not below the
  /// vocabulary, and for a file that has shrunk or cannot be read any more; leat::Error if `index`
  /// >= size(), std::invalid_argument if `out` is of other fields.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  void will_read(std::uint64_t index) const noexcept override;

  /// kUint16 or kUint32: in the files.
  [[nodiscard]] DType token() const noexcept { return token_; }
  /// In all shards together, with those that no window has.
  [[nodiscard]] std::uint64_t tokens() const noexcept { return tokens_; }

 private:
  struct Shards;
  /// Throws for the first token that is out of bounds in the window at `offset`.
  void check_tokens(const MappedFile& file, std::uint64_t offset) const;

  std::string name_;
  std::size_t sequence_length_;
  std::uint64_t stride_;
  std::uint64_t bound_ = 0;  // tokens are below it; 0: as they must be
  std::uint64_t header_bytes_ = 0;
  DType token_ = DType::kUint16;
  std::uint64_t tokens_ = 0;
  std::vector<Field> fields_;
  std::unique_ptr<Shards> shards_;
};

}  // namespace leat::feeder
