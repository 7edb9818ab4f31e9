#include "leat/feeder/sources/token_shards.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/sources/checks.h"
#include "leat/feeder/sources/known_formats.h"
#include "leat/feeder/sources/mapped_file.h"
#include "leat/feeder/sources/npy.h"
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

// The types of tokens, and NumPy's names for them.
struct TokenType {
  DType dtype;
  std::string_view descr;
};
constexpr std::array<TokenType, 4> kTypes = {{{DType::kUint16, "<u2"},
                                              {DType::kUint32, "<u4"},
                                              {DType::kInt32, "<i4"},
                                              {DType::kInt64, "<i8"}}};

bool is_token(DType dtype) {
  return std::ranges::any_of(kTypes, [&](const TokenType& type) { return type.dtype == dtype; });
}

// One more than the largest number of the type that is not negative.
std::uint64_t limit_of(DType type) {
  const bool is_signed = type == DType::kInt32 || type == DType::kInt64;
  return std::uint64_t{1} << (8 * size_of(type) - (is_signed ? 1 : 0));
}

struct Shard {
  std::uint64_t begin;  // of the tokens
  DType token;
  std::uint64_t tokens;
  std::string_view where = "without a header";
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

// `count` tokens begin at `begin`, says the header at byte `header`. Throws unless they are the
// rest of the file.
void check_count(const MappedFile& file, std::uint64_t header, std::uint64_t begin,
                 std::int64_t count, DType token) {
  const std::uint64_t bytes = file.size() - begin;
  const std::uint64_t whole = bytes / size_of(token);
  // Converted to unsigned, a negative number exceeds the size of any file.
  if (static_cast<std::uint64_t>(count) == whole && bytes % size_of(token) == 0) return;
  cannot_read(
      file.path(),
      (count > 0 && whole < static_cast<std::uint64_t>(count) ? "truncated: " : "wrong size: ") +
          ("its header (byte " + std::to_string(header)) + ") announces " + std::to_string(count) +
          " tokens of " + std::to_string(size_of(token)) + " bytes, and " + std::to_string(bytes) +
          " bytes follow it",
      kFetchAgain);
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
  check_count(file, 8, kHeaderBytes, tokens, format->token);
  return {kHeaderBytes, format->token, static_cast<std::uint64_t>(tokens), "behind llm.c's header"};
}

Shard shard_of_npy(const MappedFile& file) {
  const NpyHeader header = read_npy_header(file);
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    cannot_read(file.path(), "its .npy header says that it holds " + what, advice);
  };
  const auto* const type = std::ranges::find(kTypes, header.descr, &TokenType::descr);
  if (type == kTypes.end()) {
    refuse("values of the type " + start_of(header.descr) +
               "; tokens are <u2, <u4, <i4 or <i8: uint16, uint32, int32 or int64, little-endian",
           "save it again: numpy.save(file, tokens.astype(\"<u4\"))");
  }
  if (header.shape.size() != 1) {
    refuse("an array of " + std::to_string(header.shape.size()) + " dimensions; tokens have one",
           "save it again: numpy.save(file, tokens.reshape(-1))");
  }
  check_count(file, 0, header.begin, header.shape[0], type->dtype);
  if (header.begin % size_of(type->dtype) != 0) {
    cannot_read(file.path(),
                "its tokens begin at byte " + std::to_string(header.begin) +
                    ", which is no multiple of their size, " + std::to_string(size_of(type->dtype)),
                "save it again with NumPy");
  }
  return {header.begin, type->dtype, static_cast<std::uint64_t>(header.shape[0]), "in a .npy file"};
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
  const DType token = options.token.value_or(DType::kUint16);
  if (options.header == TokenHeader::kNone) return shard_without_header(file, token);
  if (options.header == TokenHeader::kLlmC ||
      (file.size() >= 4 && format_of(word(file, 0)) != nullptr)) {
    return shard_with_header(file);
  }
  const KnownFormat* const known = known_format(file);
  if (is_npy(known)) return shard_of_npy(file);
  if (known != nullptr) {
    cannot_read(file.path(), "its first bytes say that it is " + std::string(known->name),
                "write the tokens alone to a file, as numpy's tofile() and save() do; if these "
                "bytes are tokens, set the option header to none");
  }
  return shard_without_header(file, token);
}

std::string to_string(const Shard& shard) {
  return std::string(feeder::to_string(shard.token)) + " tokens " + std::string(shard.where);
}

// --- Tokens. The loops go over blocks of a fixed size, because g++ -O2 vectorises only such loops.
// -O3 and AVX2 gain a fifth at most.

constexpr std::size_t kTokenBlock = 64;

template <class From, class To>
void copy(const std::byte* source, std::span<std::byte> out) {
  const auto* from =
      reinterpret_cast<const From*>(source);  // aligned, because the tokens' begin is
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

// Signed and unsigned tokens have the same bits: none is negative.
void copy_tokens(const std::byte* source, DType token, Sample& sample, std::size_t field) {
  const DType dtype = sample.fields()[field].dtype;
  const std::span<std::byte> out = sample.bytes(field);
  if (size_of(token) == size_of(dtype)) {
    sample.copy(field, {source, out.size()});
  } else if (size_of(token) == 8) {
    copy<std::uint64_t, std::uint32_t>(source, out);
  } else if (size_of(token) == 4) {
    copy<std::uint32_t, std::uint64_t>(source, out);
  } else if (size_of(dtype) == 4) {
    copy<std::uint16_t, std::uint32_t>(source, out);
  } else {
    copy<std::uint16_t, std::uint64_t>(source, out);
  }
}

void check_options(const TokenShardsOptions& options) {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument("leat: TokenShards: " + why);
  };
  if (options.sequence_length == 0) refuse("sequence_length is 0; it is at least 1");
  if (options.sequence_length > std::numeric_limits<std::uint32_t>::max()) {
    refuse("sequence_length is " + std::to_string(options.sequence_length) + "; it is below 2^32");
  }
  const DType token = options.token.value_or(DType::kUint16);
  for (const auto& [name, dtype] : {std::pair("token", token), std::pair("dtype", options.dtype)}) {
    if (is_token(dtype)) continue;
    refuse(std::string(name) + " is " + to_string(dtype) +
           "; it is int32, int64, uint16 or uint32");
  }
}

}  // namespace

struct TokenShards::Shards {
  std::vector<std::unique_ptr<MappedFile>> files;
  std::vector<std::uint64_t> begins;  // of the tokens in each file
  ShardIndex index;
  FilesDigest digest;
};

TokenShards::TokenShards(const FilePatterns& files, const TokenShardsOptions& options)
    : name_("tokens of " + files.text()),
      sequence_length_(options.sequence_length),
      stride_(options.stride == 0 ? options.sequence_length : options.stride),
      shards_(std::make_unique<Shards>()) {
  std::vector<std::unique_ptr<MappedFile>>& mapped = shards_->files;
  check_options(options);
  std::optional<Shard> first;
  for (const std::filesystem::path& path : find_files(files, options.extension)) {
    mapped.push_back(std::make_unique<MappedFile>(path));
    const MappedFile& file = *mapped.back();
    const Shard shard = look_at(file, options);
    if (!first) first = shard;
    if (options.token.value_or(shard.token) != shard.token) {
      cannot_read(file.path(),
                  "it has " + to_string(shard) + ", but the option token is " +
                      feeder::to_string(*options.token),
                  "leave the option out, and check that it is the right file");
    }
    if (shard.token != first->token || shard.where != first->where) {
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
    shards_->begins.push_back(shard.begin);
    shards_->digest.add(path, file.size());
    shards_->index.add((shard.tokens - sequence_length_ - 1) / stride_ + 1);
  }
  token_ = first->token;
  const auto refuse = [&](const std::string& why, const std::string& advice) {
    cannot_read(mapped[0]->path(), std::string("its tokens are ") + to_string(token_) + ", " + why,
                advice);
  };
  if (size_of(options.dtype) == 2 && token_ != options.dtype) {
    refuse(std::string("which ") + to_string(options.dtype) + " cannot hold",
           "ask for int32 or larger");
  }
  if (options.vocabulary > limit_of(token_)) {
    refuse("all of them below " + std::to_string(limit_of(token_)) +
               ", and the option vocabulary is " + std::to_string(options.vocabulary),
           "if they are wider, say so by the option token (uint32); else lower the vocabulary");
  }
  bound_ = std::min(limit_of(options.dtype), limit_of(token_));
  if (options.vocabulary != 0) bound_ = std::min(bound_, options.vocabulary);
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
  const std::uint64_t offset = shards_->begins[shard] + window * stride_ * size_of(token_);
  const std::uint64_t bytes = (sequence_length_ + 1) * size_of(token_);
  file.check_unchanged(window, bytes);
  file.expect(offset, bytes);
  const std::byte* const x = file.bytes().data() + offset;
  copy_tokens(x, token_, out, 0);
  copy_tokens(x + size_of(token_), token_, out, 1);
  check_tokens(file, offset);
  file.check(offset, bytes);
}

void TokenShards::will_read(std::uint64_t index, std::uint64_t /*seed*/,
                            std::uint64_t /*epoch*/) const noexcept {
  const auto [shard, window] = shards_->index.find(index);
  shards_->files[shard]->fetch_into_cache(
      shards_->begins[shard] + window * stride_ * size_of(token_),
      (sequence_length_ + 1) * size_of(token_));
}

std::uint64_t TokenShards::announce(std::uint64_t index, std::uint64_t /*seed*/,
                                    std::uint64_t /*epoch*/) const noexcept {
  const auto [shard, window] = shards_->index.find(index);
  return shards_->files[shard]->announce(
      shards_->begins[shard] + window * stride_ * size_of(token_),
      (sequence_length_ + 1) * size_of(token_));
}

void TokenShards::check_tokens(const MappedFile& file, std::uint64_t offset) const {
  const std::byte* const tokens = file.bytes().data() + offset;
  const std::size_t count = sequence_length_ + 1;
  // As unsigned numbers, negative ones are beyond the bound.
  const std::optional<std::size_t> beyond =
      size_of(token_) == 2   ? first_beyond<std::uint16_t>(tokens, count, bound_)
      : size_of(token_) == 4 ? first_beyond<std::uint32_t>(tokens, count, bound_)
                             : first_beyond<std::uint64_t>(tokens, count, bound_);
  if (!beyond) return;
  std::uint64_t token = 0;
  std::memcpy(&token, tokens + *beyond * size_of(token_), size_of(token_));
  const std::int64_t value =
      token_ == DType::kInt32 ? static_cast<std::int32_t>(token) : static_cast<std::int64_t>(token);
  cannot_read(file.path(),
              "token " + std::to_string(value) + " at byte " +
                  std::to_string(offset + *beyond * size_of(token_)) +
                  (value < 0 ? " is negative" : " is not below " + std::to_string(bound_)),
              "check the vocabulary, the type of the tokens, and whether there is a header");
}

}  // namespace leat::feeder
