#include "leat/feeder/sources/token_shards.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/mapped_file.h"
#include "leat/feeder/sources/shard_index.h"

namespace leat::feeder {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are read as they lie");

// --- Headers.

constexpr std::uint64_t kHeaderBytes = 1024;

struct Format {
  std::uint32_t magic;
  std::uint32_t version;
  DType token;
};
constexpr std::array<Format, 2> kFormats = {{
    {20240520, 1, DType::kUint16},  // GPT-2
    {20240801, 7, DType::kUint32},  // Llama 3
}};

struct Shard {
  std::uint64_t header_bytes;
  DType token;
  std::uint64_t tokens;
};

std::uint32_t word(const MappedFile& file, std::uint64_t offset) {
  std::uint32_t value = 0;
  file.read(offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

const Format* format_of(std::uint32_t magic) {
  const auto* const found =
      std::find_if(kFormats.begin(), kFormats.end(),
                   [magic](const Format& format) { return format.magic == magic; });
  return found == kFormats.end() ? nullptr : found;
}

Shard shard_with_header(const MappedFile& file) {
  if (file.size() < kHeaderBytes) {
    cannot_read(file.path(),
                "truncated: expected a header of " + std::to_string(kHeaderBytes) +
                    " bytes, found " + std::to_string(file.size()),
                kFetchAgain);
  }
  const std::uint32_t magic = word(file, 0);
  const Format* const format = format_of(magic);
  if (format == nullptr) {
    cannot_read(file.path(),
                "wrong magic number at byte 0: found " + std::to_string(magic) + ", expected " +
                    std::to_string(kFormats[0].magic) + " (GPT-2) or " +
                    std::to_string(kFormats[1].magic) + " (Llama 3)",
                "check that it is a token file of llm.c, or read it as one without a header");
  }
  const std::uint32_t version = word(file, 4);
  if (version != format->version) {
    cannot_read(file.path(),
                "wrong version at byte 4: found " + std::to_string(version) + ", expected " +
                    std::to_string(format->version) + " after magic number " +
                    std::to_string(magic),
                "write it again with the present scripts of llm.c");
  }
  const auto tokens = static_cast<std::int32_t>(word(file, 8));
  const std::uint64_t bytes = file.size() - kHeaderBytes;
  // Converted to 64 unsigned bits, a negative number exceeds the size of any file.
  if (static_cast<std::uint64_t>(static_cast<std::int64_t>(tokens)) * size_of(format->token) !=
      bytes) {
    cannot_read(file.path(),
                (tokens > 0 && bytes / size_of(format->token) < static_cast<std::uint64_t>(tokens)
                     ? std::string("truncated: ")
                     : std::string("wrong size: ")) +
                    "its header (byte 8) announces " + std::to_string(tokens) + " tokens of " +
                    std::to_string(size_of(format->token)) + " bytes, and " +
                    std::to_string(bytes) + " bytes follow it",
                kFetchAgain);
  }
  return {kHeaderBytes, format->token, bytes / size_of(format->token)};
}

Shard shard_without_header(const MappedFile& file, DType token) {
  const std::uint64_t tokens = file.size() / size_of(token);
  if (file.size() % size_of(token) != 0) {
    cannot_read(file.path(),
                "truncated: of its " + std::to_string(file.size()) + " bytes, the last whole " +
                    to_string(token) + " token ends at byte " +
                    std::to_string(tokens * size_of(token)),
                "fetch the file again, and check the type of its tokens");
  }
  return {0, token, tokens};
}

Shard look_at(const MappedFile& file, const TokenShardsOptions& options) {
  const bool has_header = options.header == TokenHeader::kLlmC ||
                          (options.header == TokenHeader::kAuto && file.size() >= 4 &&
                           format_of(word(file, 0)) != nullptr);
  return has_header ? shard_with_header(file) : shard_without_header(file, options.token);
}

std::string to_string(const Shard& shard) {
  return std::string(feeder::to_string(shard.token)) + " tokens " +
         (shard.header_bytes == 0 ? "without a header" : "behind llm.c's header");
}

// --- Tokens. The loops go over blocks of a fixed size, because g++ -O2 vectorises only such loops.
// -O3 and AVX2 gain a fifth at most.

constexpr std::size_t kTokenBlock = 64;

template <class From, class To>
void copy(const std::byte* source, std::span<std::byte> out) {
  const auto* from =
      reinterpret_cast<const From*>(source);  // aligned, because the header's size is
  auto* to = reinterpret_cast<To*>(out.data());
  std::size_t left = out.size() / sizeof(To);
  for (; left >= kTokenBlock; left -= kTokenBlock, from += kTokenBlock, to += kTokenBlock) {
    for (std::size_t i = 0; i < kTokenBlock; ++i) to[i] = static_cast<To>(from[i]);
  }
  for (std::size_t i = 0; i < left; ++i) to[i] = static_cast<To>(from[i]);
}

// Returns the index of one of the first `count` tokens that is not below the bound.
template <class From>
std::optional<std::size_t> first_beyond(const std::byte* source, std::size_t count,
                                        std::uint64_t bound) {
  if (bound > std::numeric_limits<From>::max()) return std::nullopt;
  const auto* const from = reinterpret_cast<const From*>(source);
  const auto least = static_cast<From>(bound);
  std::size_t at = 0;
  for (; count - at >= kTokenBlock; at += kTokenBlock) {
    unsigned beyond = 0;
    for (std::size_t i = 0; i < kTokenBlock; ++i) beyond |= from[at + i] >= least ? 1U : 0U;
    if (beyond != 0) break;
  }
  for (; at < count; ++at) {
    if (from[at] >= least) return at;
  }
  return std::nullopt;
}

// Signed and unsigned tokens have the same bits.
void copy_tokens(const std::byte* source, DType token, DType dtype, std::span<std::byte> out) {
  if (size_of(token) == size_of(dtype)) {
    std::memcpy(out.data(), source, out.size());
  } else if (token == DType::kUint32) {
    copy<std::uint32_t, std::uint64_t>(source, out);
  } else if (size_of(dtype) == 4) {
    copy<std::uint16_t, std::uint32_t>(source, out);
  } else {
    copy<std::uint16_t, std::uint64_t>(source, out);
  }
}

constexpr std::uint64_t kInt32End = std::uint64_t{1} << 31;

void check_options(const TokenShardsOptions& options) {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument("leat: TokenShardsOptions::" + why);
  };
  if (options.sequence_length == 0) refuse("sequence_length is 0; it is at least 1");
  if (options.sequence_length > std::numeric_limits<std::uint32_t>::max()) {
    refuse("sequence_length is " + std::to_string(options.sequence_length) + "; it is below 2^32");
  }
  if (options.token != DType::kUint16 && options.token != DType::kUint32) {
    refuse(std::string("token is ") + to_string(options.token) + "; it is uint16 or uint32");
  }
  if (options.dtype != DType::kUint16 && options.dtype != DType::kUint32 &&
      options.dtype != DType::kInt32 && options.dtype != DType::kInt64) {
    refuse(std::string("dtype is ") + to_string(options.dtype) +
           "; it is int32, int64, uint16 or uint32");
  }
}

}  // namespace

struct TokenShards::Shards {
  std::vector<std::unique_ptr<MappedFile>> files;
  ShardIndex index;
  FilesDigest digest;
};

TokenShards::TokenShards(const FilePatterns& files, const TokenShardsOptions& options)
    : name_("tokens of " + files.text()),
      sequence_length_(options.sequence_length),
      stride_(options.stride == 0 ? options.sequence_length : options.stride),
      bound_(options.vocabulary),
      shards_(std::make_unique<Shards>()) {
  std::vector<std::unique_ptr<MappedFile>>& mapped = shards_->files;
  check_options(options);
  std::optional<Shard> first;
  for (const std::filesystem::path& path : find_files(files, options.extension)) {
    mapped.push_back(std::make_unique<MappedFile>(path));
    const MappedFile& file = *mapped.back();
    const Shard shard = look_at(file, options);
    if (!first) first = shard;
    if (shard.token != first->token || shard.header_bytes != first->header_bytes) {
      cannot_read(file.path(),
                  "it has " + to_string(shard) + ", but " + mapped[0]->path().string() + " has " +
                      to_string(*first),
                  "take shards of one kind");
    }
    if (shard.tokens <= sequence_length_) {
      cannot_read(file.path(),
                  "too few tokens: " + std::to_string(shard.tokens) + ", and a window of " +
                      std::to_string(sequence_length_) + " needs " +
                      std::to_string(sequence_length_ + 1),
                  "leave it out, or take a smaller sequence_length");
    }
    tokens_ += shard.tokens;
    shards_->digest.add(path, file.size());
    shards_->index.add((shard.tokens - sequence_length_ - 1) / stride_ + 1);
  }
  token_ = first->token;
  header_bytes_ = first->header_bytes;
  if (size_of(options.dtype) < size_of(token_)) {
    cannot_read(mapped[0]->path(),
                std::string("its tokens are ") + to_string(token_) + ", which " +
                    to_string(options.dtype) + " cannot hold",
                "ask for int32 or larger");
  }
  if (token_ == DType::kUint32 && options.dtype == DType::kInt32) {
    bound_ = bound_ == 0 ? kInt32End : std::min(bound_, kInt32End);
  }
  const auto length = static_cast<std::int64_t>(sequence_length_);
  fields_ = {{"x", options.dtype, {length}}, {"y", options.dtype, {length}}};
}

TokenShards::~TokenShards() = default;

std::uint64_t TokenShards::size() const noexcept { return shards_->index.size(); }

std::uint64_t TokenShards::digest() const noexcept { return shards_->digest.value(); }

void TokenShards::read(std::uint64_t index, Sample& out) const {
  check_read(*this, index, out);
  const auto [shard, window] = shards_->index.find(index);
  const MappedFile& file = *shards_->files[shard];
  const std::uint64_t offset = header_bytes_ + window * stride_ * size_of(token_);
  const std::uint64_t bytes = (sequence_length_ + 1) * size_of(token_);
  file.check_unchanged(window, bytes);
  file.expect(offset, bytes);
  const std::byte* const x = file.bytes().data() + offset;
  copy_tokens(x, token_, fields_[0].dtype, out.bytes(0));
  copy_tokens(x + size_of(token_), token_, fields_[1].dtype, out.bytes(1));
  if (bound_ != 0) check_tokens(file, offset);
  file.check(offset, bytes);
}

void TokenShards::will_read(std::uint64_t index) const noexcept {
  const auto [shard, window] = shards_->index.find(index);
  shards_->files[shard]->fetch_into_cache(header_bytes_ + window * stride_ * size_of(token_),
                                          (sequence_length_ + 1) * size_of(token_));
}

void TokenShards::check_tokens(const MappedFile& file, std::uint64_t offset) const {
  const std::byte* const tokens = file.bytes().data() + offset;
  const std::size_t count = sequence_length_ + 1;
  const std::optional<std::size_t> beyond =
      token_ == DType::kUint16 ? first_beyond<std::uint16_t>(tokens, count, bound_)
                               : first_beyond<std::uint32_t>(tokens, count, bound_);
  if (!beyond) return;
  std::uint32_t token = 0;
  std::memcpy(&token, tokens + *beyond * size_of(token_), size_of(token_));
  cannot_read(file.path(),
              "token " + std::to_string(token) + " at byte " +
                  std::to_string(offset + *beyond * size_of(token_)) + " is not below " +
                  std::to_string(bound_),
              "check the vocabulary, the type of the tokens, and whether there is a header");
}

}  // namespace leat::feeder
