#include "leat/feeder/sources/token_shards.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/data/synthetic.h"
#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {
namespace token_shards_test {

namespace fs = std::filesystem;

constexpr std::uint32_t kVocabulary = 50'257;

// Every window is the tokens that were written, and those of each shard follow one another. T: of
// the tensors.
template <class T>
void expect_windows(const SyntheticTokens& what, std::size_t length, std::size_t stride) {
  const TemporaryDirectory directory;
  write_tokens(directory.path(), what);
  const TokenShards data(directory.path(), {.sequence_length = length,
                                            .stride = stride,
                                            .token = what.token,
                                            .dtype = kDTypeOf<T>,
                                            .vocabulary = what.vocabulary});
  EXPECT_EQ(data.token(), what.token);
  EXPECT_EQ(data.tokens(), what.tokens);
  ASSERT_EQ(data.fields().size(), 2U);
  EXPECT_EQ(data.fields()[0], (Field{"x", kDTypeOf<T>, {static_cast<std::int64_t>(length)}}));
  EXPECT_EQ(data.fields()[1].name, "y");
  SampleBuffer sample(data.fields());
  const std::size_t step = stride == 0 ? length : stride;
  std::uint64_t index = 0;
  for (std::uint64_t shard = 0; shard < what.shards; ++shard) {
    const std::uint64_t tokens =
        what.tokens / what.shards + (shard < what.tokens % what.shards ? 1 : 0);
    for (std::uint64_t first = 0; first + length < tokens; first += step, ++index) {
      data.read(index, sample);
      for (std::size_t i = 0; i < length; ++i) {
        const auto token = [&](std::uint64_t p) {
          return T(synthetic_token(what.seed, shard, p, what.vocabulary));
        };
        ASSERT_EQ(sample.as<T>(0)[i], token(first + i)) << index << ' ' << i;
        ASSERT_EQ(sample.as<T>(1)[i], token(first + i + 1)) << index << ' ' << i;
      }
    }
  }
  EXPECT_EQ(data.size(), index);
  EXPECT_EQ(data.blocking(), Blocking::kSeldom);
}

TEST(TokenShards, WindowsAreTheTokensWrittenForAllTypes) {
  for (const bool header : {false, true}) {
    const SyntheticTokens narrow = {.tokens = 3001, .shards = 3, .seed = 1, .header = header};
    SyntheticTokens wide = narrow;
    wide.token = DType::kUint32;
    wide.vocabulary = 128'256;
    expect_windows<std::int32_t>(narrow, 100, 0);
    expect_windows<std::int64_t>(narrow, 100, 0);
    expect_windows<std::uint32_t>(narrow, 100, 0);
    expect_windows<std::uint16_t>(narrow, 100, 0);
    expect_windows<std::int32_t>(wide, 100, 0);
    expect_windows<std::int64_t>(wide, 100, 0);
    expect_windows<std::uint32_t>(wide, 100, 0);
  }
}

TEST(TokenShards, WindowsMayOverlapOrLeaveGaps) {
  const SyntheticTokens what = {.tokens = 1000, .shards = 3, .seed = 2};
  for (const std::size_t length : {1U, 2U, 63U, 64U, 65U, 332U}) {
    for (const std::size_t stride : {0U, 1U, 7U, 64U, 1000U}) {
      SCOPED_TRACE(std::to_string(length) + " every " + std::to_string(stride));
      expect_windows<std::int32_t>(what, length, stride);
    }
  }
}

TEST(TokenShards, EveryTokenButTheFirstIsPredictedOnceWhereTheyFit) {
  const TemporaryDirectory directory;
  write_tokens(directory.path(), {.tokens = 101, .shards = 1});
  EXPECT_EQ(TokenShards(directory.path(), {.sequence_length = 10}).size(), 10U);
  EXPECT_EQ(TokenShards(directory.path(), {.sequence_length = 100}).size(), 1U);
  EXPECT_EQ(TokenShards(directory.path(), {.sequence_length = 51}).size(), 1U);
}

TEST(TokenShards, HeaderIsRecognised) {
  const TemporaryDirectory directory;
  write_tokens(directory.path() / "h", {.tokens = 50, .token = DType::kUint32});
  write_tokens(directory.path() / "n", {.tokens = 50, .header = false});
  const TokenShardsOptions any = {.sequence_length = 5};
  EXPECT_EQ(TokenShards(directory.path() / "h", any).token(), DType::kUint32);
  EXPECT_EQ(TokenShards(directory.path() / "n", any).token(), DType::kUint16);
  EXPECT_EQ(TokenShards(directory.path() / "h", any).tokens(), 50U);
  // Read as what it is not, the header is tokens too.
  EXPECT_EQ(
      TokenShards(directory.path() / "h", {.sequence_length = 5, .header = TokenHeader::kNone})
          .tokens(),
      512U + 100U);
}

class BadTokens : public ::testing::Test {
 protected:
  static Bytes header(std::uint32_t magic, std::uint32_t version, std::uint32_t tokens) {
    Bytes bytes = little_endian(magic) + little_endian(version) + little_endian(tokens);
    bytes.resize(1024);
    return bytes;
  }
  std::string error_with(const TokenShardsOptions& options) const {
    return error_of([&] { const TokenShards data(directory_.path(), options); });
  }
  std::string error(const Bytes& bytes, TokenHeader expected = TokenHeader::kLlmC) {
    const fs::path file = directory_.write("a.bin", bytes);
    std::string text = error_with({.sequence_length = 4, .header = expected});
    expect_contains(text, {"cannot read " + file.string()});
    return text;
  }

  TemporaryDirectory directory_;
};

constexpr std::uint32_t kGpt2 = 20240520;
constexpr std::uint32_t kLlama3 = 20240801;

TEST_F(BadTokens, WrongMagicShowsFoundAndExpected) {
  expect_contains(error(header(20240522, 1, 10) + Bytes(20)),
                  {"wrong magic number at byte 0: found 20240522, expected 20240520 (GPT-2) or "
                   "20240801 (Llama 3)"});
}

TEST_F(BadTokens, WrongVersionShowsFoundAndExpected) {
  for (const TokenHeader expected : {TokenHeader::kLlmC, TokenHeader::kAuto}) {
    expect_contains(error(header(kGpt2, 7, 10) + Bytes(20), expected),
                    {"wrong version at byte 4: found 7, expected 1 after magic number 20240520"});
    expect_contains(error(header(kLlama3, 1, 10) + Bytes(40), expected),
                    {"wrong version at byte 4: found 1, expected 7 after magic number 20240801"});
  }
}

TEST_F(BadTokens, TruncatedHeaderShowsExpectedAndFound) {
  expect_contains(error(first(header(kGpt2, 1, 10), 1023)),
                  {"truncated: expected a header of 1024 bytes, found 1023"});
  expect_contains(error(first(header(kGpt2, 1, 10), 4), TokenHeader::kAuto),
                  {"truncated: expected a header of 1024 bytes, found 4"});
}

TEST_F(BadTokens, CountThatDoesNotFitTheFileShowsBoth) {
  expect_contains(error(header(kGpt2, 1, 10) + Bytes(19)),
                  {"truncated: its header (byte 8) announces 10 tokens of 2 bytes, and 19 bytes "
                   "follow it"});
  expect_contains(error(header(kLlama3, 7, 10) + Bytes(44)),
                  {"wrong size: its header (byte 8) announces 10 tokens of 4 bytes, and 44 bytes"});
  expect_contains(error(header(kGpt2, 1, 0xffffffff) + Bytes(20)), {"announces -1 tokens"});
  expect_contains(error(header(kGpt2, 1, 0x80000000) + Bytes(20)),
                  {"announces -2147483648 tokens"});
  expect_contains(error(header(kGpt2, 1, 0x7fffffff) + Bytes(20)),
                  {"truncated: its header (byte 8) announces 2147483647 tokens"});
}

TEST_F(BadTokens, FileThatEndsWithinATokenIsTruncated) {
  expect_contains(error(Bytes(21), TokenHeader::kNone),
                  {"truncated: of its 21 bytes, the last whole uint16 token ends at byte 20"});
  expect_contains(error_with({.sequence_length = 4, .token = DType::kUint32}),
                  {"the last whole uint32 token ends at byte 20"});
}

TEST_F(BadTokens, TooFewTokensForAWindowAreToldWithTheShard) {
  expect_contains(error(header(kGpt2, 1, 0)), {"too few tokens: 0, and a window of 4 needs 5"});
  expect_contains(error(header(kGpt2, 1, 4) + Bytes(8)),
                  {"too few tokens: 4, and a window of 4 needs 5", "smaller sequence_length"});
  directory_.write("a.bin", Bytes(10));
  EXPECT_EQ(TokenShards(directory_.path(), {.sequence_length = 4}).size(), 1U);
  const fs::path short_one = directory_.write("b.bin", Bytes(8));
  expect_contains(error_with({.sequence_length = 4}), {short_one.string(), "too few tokens: 4"});
}

TEST_F(BadTokens, ShardsOfDifferentKindsAreRefused) {
  directory_.write("a.bin", header(kGpt2, 1, 10) + Bytes(20));
  directory_.write("b.bin", header(kLlama3, 7, 10) + Bytes(40));
  expect_contains(
      error_with({.sequence_length = 4}),
      {(directory_.path() / "b.bin").string() +
           ": it has uint32 tokens behind llm.c's header, but ",
       (directory_.path() / "a.bin").string() + " has uint16 tokens behind llm.c's header"});
  directory_.write("b.bin", Bytes(20));
  expect_contains(error_with({.sequence_length = 4}), {"it has uint16 tokens without a header"});
}

TEST_F(BadTokens, WhatTheTensorsCannotHoldIsRefused) {
  directory_.write("a.bin", header(kLlama3, 7, 10) + Bytes(40));
  expect_contains(error_with({.sequence_length = 4, .dtype = DType::kUint16}),
                  {"its tokens are uint32, which uint16 cannot hold"});
  // 2^31 as an int32 would be negative.
  directory_.write("a.bin", Bytes(16) + little_endian(0x7fffffff) + little_endian(0x80000000));
  for (const DType dtype : {DType::kInt32, DType::kUint32, DType::kInt64}) {
    const TokenShards data(directory_.path(),
                           {.sequence_length = 5, .token = DType::kUint32, .dtype = dtype});
    SampleBuffer sample(data.fields());
    if (dtype == DType::kInt32) {
      expect_contains(error_of([&] { data.read(0, sample); }),
                      {"token 2147483648 at byte 20 is not below 2147483648"});
    } else {
      EXPECT_NO_THROW(data.read(0, sample));
    }
  }
}

TEST_F(BadTokens, TokenBeyondTheVocabularyIsToldWithItsByte) {
  // At each place of windows that are longer and shorter than what is looked at at once.
  for (const std::size_t length : {3U, 64U, 150U}) {
    for (std::size_t bad = 0; bad <= length; bad += 7) {
      Bytes tokens(2 * (length + 1));
      tokens[2 * bad] = 0x51;
      tokens[2 * bad + 1] = 0xc4;  // 50257
      directory_.write("a.bin", tokens);
      const TokenShards data(directory_.path(),
                             {.sequence_length = length, .vocabulary = kVocabulary});
      SampleBuffer sample(data.fields());
      expect_contains(error_of([&] { data.read(0, sample); }),
                      {(directory_.path() / "a.bin").string(),
                       "token 50257 at byte " + std::to_string(2 * bad) + " is not below 50257"});
      const TokenShards larger(directory_.path(),
                               {.sequence_length = length, .vocabulary = kVocabulary + 1});
      EXPECT_NO_THROW(larger.read(0, sample));
      const TokenShards largest(directory_.path(),
                                {.sequence_length = length, .vocabulary = 65'536});
      EXPECT_NO_THROW(largest.read(0, sample));
    }
  }
}

// Windows that lie neither at the beginning of the file nor near its end.
TEST_F(BadTokens, AShardThatIsWrittenAgainIsAnErrorInEachPass) {
  write_tokens(directory_.path(), {.tokens = 20'000, .seed = 1});
  const fs::path file = directory_.path() / "tokens_00000.bin";
  const TokenShards shards(directory_.path(), {.sequence_length = 8191});
  SampleBuffer window(shards.fields());
  ASSERT_EQ(shards.size(), 2U);
  for (const std::uint64_t i : {1U, 0U}) shards.read(i, window);
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  for (const std::uint64_t i : {0U, 1U}) {
    expect_contains(error_of([&] { shards.read(i, window); }),
                    {"cannot read " + file.string() + ": it was written again"});
  }
}

TEST_F(BadTokens, OptionsThatCannotBeAreACallersError) {
  directory_.write("a.bin", Bytes(22));
  for (const TokenShardsOptions& options :
       std::vector<TokenShardsOptions>{{.sequence_length = 0},
                                       {.sequence_length = std::numeric_limits<std::size_t>::max()},
                                       {.sequence_length = 5, .token = DType::kInt16},
                                       {.sequence_length = 5, .dtype = DType::kFloat32},
                                       {.sequence_length = 5, .dtype = DType::kUint64}}) {
    EXPECT_THROW(TokenShards(directory_.path(), options), std::invalid_argument);
  }
}

}  // namespace token_shards_test
}  // namespace leat::feeder
