// Token shards: .bin files of tokens, from which windows are cut to train a language model on.
//
// Without a header (nanoGPT): tokens of one type, little-endian, from byte 0 to the end.
//
// A .npy file of NumPy: one dimension of <u2, <u4, <i4 or <i8. Its header says the type.
//
// With the header of llm.c:
//    byte 0      int32   magic number; it says the type of the tokens:
//                        20240520 (GPT-2) uint16, 20240801 (Llama 3) uint32
//    byte 4      int32   version: 1 for GPT-2, 7 for Llama 3
//    byte 8      int32   number of tokens
//    byte 12             zeros up to byte 1024; the header is 256 int32
//    byte 1024           the tokens, and nothing after them
//
// Sources: https://github.com/karpathy/llm.c, dev/data/data_common.py (write_datafile) and
// llmc/dataloader.h; https://github.com/karpathy/nanoGPT, data/openwebtext/prepare.py.
//
// A sample is a window of sequence_length + 1 tokens: x is the window without its last token, y the
// window without its first. Windows begin `stride` tokens apart, from the first token of each
// shard. A window never crosses from one shard into the next; tokens at the end of a shard that do
// not fill a window are not delivered.
//
// Example
//   const leat::feeder::TokenShards text("data/fineweb_train_*.bin", {.sequence_length = 1024});
//   leat::feeder::SampleBuffer window(text.fields());
//   text.read(5, window);               // window.as<std::int32_t>(0) is x, (1) is y
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

namespace leat::feeder {

class MappedFile;

/// The header of a shard.
enum class TokenHeader : std::uint8_t {
  /// llm.c's or NumPy's if the first bytes are its magic bytes, else none. (Read as tokens, llm.c's
  /// would be 55432 or 55713, which GPT-2's vocabulary does not have, or 20 million.) The magic
  /// bytes of another well-known format are an error: zip and .npz, tar, Parquet, Arrow, HDF5,
  /// safetensors, gzip, zstd, xz, bzip2, lz4, PNG, JPEG, LitGPT's packed datasets, indexes of
  /// Megatron, other files of llm.c.
  kAuto,
  kNone,  ///< tokens begin at byte 0, whatever it is
  kLlmC,  ///< llm.c's; a file without it is an error
};

/// The format of the shards, and the windows that are cut from them.
struct TokenShardsOptions {
  /// Tokens in x, and in y; at least 1.
  std::size_t sequence_length = 0;
  /// Tokens from the beginning of one window to the beginning of the next. 0: sequence_length, so
  /// that every token is predicted once.
  std::size_t stride = 0;
  TokenHeader header = TokenHeader::kAuto;
  /// The type of the tokens: kUint16, kUint32, kInt32 or kInt64. None: what the header says;
  /// kUint16 in files without one. A header that says another type is an error.
  std::optional<DType> token;
  /// The type of the tensors delivered: kInt32, kInt64, kUint32; for uint16 tokens also kUint16.
  DType dtype = DType::kInt32;
  /// Tokens are below this number; reading a window with a larger token, or a negative one, is an
  /// error. 0: any token that dtype can hold. A number beyond the tokens' type is an error: above
  /// 65,536 for kUint16.
  std::uint64_t vocabulary = 0;
  /// Which files of a directory are read, where a directory is named.
  std::string extension = ".bin";
};

/// The windows of token shards. Fields of a sample: "x" and "y", each {sequence_length}. The files
/// are mapped into memory. Const functions are thread-safe.
class TokenShards final : public Dataset {
 public:
  /// Maps all shards and checks their headers. Throws leat::Error, which names the file and both
  /// values, if a file cannot be found or mapped; if it is of another format, or a magic number, a
  /// version, a type or the number of tokens is wrong; if a file ends within a token or is shorter
  /// than one window; if shards differ in their header or type; if the options token, dtype or
  /// vocabulary do not fit the tokens' type. Throws std::invalid_argument, which names the option,
  /// for an option out of range.
  TokenShards(const FilePatterns& files, const TokenShardsOptions& options);
  ~TokenShards() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override;
  /// Copies the window and converts the tokens to dtype. Throws leat::Error, with file and byte,
  /// for a token that is negative or not below the vocabulary, and for a file that has shrunk or
  /// can no longer be read; leat::Error if `index` >= size(); std::invalid_argument if the fields
  /// of `out` differ.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] Blocking blocking() const noexcept override { return Blocking::kSeldom; }
  [[nodiscard]] std::uint64_t digest() const noexcept override;
  void will_read(std::uint64_t index, std::uint64_t seed,
                 std::uint64_t epoch) const noexcept override;
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;

  /// Returns the type of the tokens in the files.
  [[nodiscard]] DType token() const noexcept { return token_; }
  /// Tokens in all shards, including those that are in no window.
  [[nodiscard]] std::uint64_t tokens() const noexcept { return tokens_; }

 private:
  struct Shards;
  /// Throws for the first token that is out of bounds in the window at `offset`.
  void check_tokens(const MappedFile& file, std::uint64_t offset) const;

  std::string name_;
  std::size_t sequence_length_;
  std::uint64_t stride_;
  std::uint64_t bound_ = 0;  // tokens must be below it
  DType token_ = DType::kUint16;
  std::uint64_t tokens_ = 0;
  std::vector<Field> fields_;
  std::unique_ptr<Shards> shards_;
};

}  // namespace leat::feeder
