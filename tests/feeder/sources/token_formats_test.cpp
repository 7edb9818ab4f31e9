// Token shards in NumPy's files, and files of other formats, which are not taken for tokens.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/sources/token_shards.h"
#include "tests/feeder/sources/npy_headers.h"
#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace token_formats_test {

namespace fs = std::filesystem;
using namespace std::string_literals;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// The bytes of values, little-endian.
template <class T>
Bytes values(const std::vector<T>& all) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(all.data());
  return {first, first + all.size() * sizeof(T)};
}

class TokenFormats : public ::testing::Test {
 protected:
  TokenShards open(const TokenShardsOptions& options) const {
    return TokenShards(directory_.path(), options);
  }
  // Of a directory whose only file is `bytes`.
  std::string error(const Bytes& bytes, TokenShardsOptions options = {}) const {
    const fs::path file = directory_.write("a.bin", bytes);
    if (options.sequence_length == 0) options.sequence_length = 2;
    std::string text = error_of([&] { static_cast<void>(open(options)); });
    expect_contains(text, {"cannot read " + file.string()});
    return text;
  }
  // Tokens of a .npy file arrive in tensors of each type.
  template <class From>
  void expect_read(const std::string& descr, DType token, int major) const {
    const std::vector<From> tokens = {7, 0, 65'535, 3, 1};
    directory_.write("a.bin",
                     npy_header(npy_text("'" + descr + "'", "(5,)"), major) + values(tokens));
    for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUint32}) {
      const TokenShards data = open({.sequence_length = 4, .dtype = dtype, .vocabulary = 65'536});
      EXPECT_EQ(data.token(), token);
      EXPECT_EQ(data.tokens(), 5U);
      ASSERT_EQ(data.size(), 1U);
      SampleBuffer sample(data.fields());
      data.read(0, sample);
      for (std::size_t i = 0; i < 4; ++i) {
        const auto at = [&](std::size_t field) {
          return dtype == DType::kInt64 ? sample.as<std::int64_t>(field)[i]
                 : dtype == DType::kInt32
                     ? sample.as<std::int32_t>(field)[i]
                     : static_cast<std::int64_t>(sample.as<std::uint32_t>(field)[i]);
        };
        EXPECT_EQ(at(0), static_cast<std::int64_t>(tokens[i])) << descr << ' ' << i;
        EXPECT_EQ(at(1), static_cast<std::int64_t>(tokens[i + 1])) << descr << ' ' << i;
      }
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(TokenFormats, NumpysFilesAreReadByTheirHeader) {
  for (const int major : {1, 2, 3}) {
    expect_read<std::uint16_t>("<u2", DType::kUint16, major);
    expect_read<std::uint32_t>("<u4", DType::kUint32, major);
    expect_read<std::int32_t>("<i4", DType::kInt32, major);
    expect_read<std::int64_t>("<i8", DType::kInt64, major);
  }
  // Of Python 2; and headers of two sizes in one dataset.
  directory_.write("b.bin",
                   npy_header("{\"shape\":(100L),\"fortran_order\":True,\"descr\":\"<i8\"}" +
                              std::string(100, ' ')) +
                       Bytes(800));
  EXPECT_EQ(open({.sequence_length = 4}).tokens(), 105U);
}

TEST_F(TokenFormats, TokensThatAreNegativeOrTooLargeAreToldWithTheirPlace) {
  const auto told = [&](const Bytes& bytes, const TokenShardsOptions& options,
                        const std::string& problem) {
    const fs::path file = directory_.write("a.bin", bytes);
    const TokenShards data = open(options);
    SampleBuffer sample(data.fields());
    expect_contains(error_of([&] { data.read(0, sample); }), {file.string(), problem});
  };
  const Bytes narrow = npy_header(npy_text("'<i4'", "(3,)"));
  const Bytes wide = npy_header(npy_text("'<i8'", "(3,)"));
  const auto of64 = [&](std::int64_t token) { return values<std::int64_t>({1, token, 2}); };
  for (const DType dtype : {DType::kInt32, DType::kUint32, DType::kInt64}) {
    const TokenShardsOptions options = {.sequence_length = 2, .dtype = dtype};
    told(narrow + values<std::int32_t>({1, -5, 2}), options, "token -5 at byte 132 is negative");
    told(wide + of64(-5), options, "token -5 at byte 136 is negative");
    if (dtype == DType::kInt64) continue;
    told(wide + of64(1LL << 32), options, "token 4294967296 at byte 136 is not below");
  }
  told(wide + of64(1LL << 31), {.sequence_length = 2},
       "token 2147483648 at byte 136 is not below 2147483648");
  told(wide + of64(500), {.sequence_length = 2, .vocabulary = 500}, "token 500 at byte 136");
  told(values<std::int64_t>({1, -1, 2}), {.sequence_length = 2, .token = DType::kInt64},
       "token -1 at byte 8 is negative");
}

TEST_F(TokenFormats, NumpysFilesThatHoldNoTokensAreToldWithWhatTheyHold) {
  const auto of = [](const std::string& text) { return npy_header(text) + Bytes(24); };
  for (const char* descr : {"'>u2'", "'|u1'", "'<i2'", "'<u8'", "'<f4'", "'|O'", "'<U7'",
                            "[('a', '<u2'), ('b]', '<f4', (2, 3))]", "'\xff\n'"}) {
    expect_contains(error(of(npy_text(descr, "(12,)"))),
                    {"values of the type", "<u2, <u4, <i4 or <i8", "numpy.save("});
  }
  expect_contains(error(of(npy_text("'>u2'", "(12,)"))), {"of the type >u2;"});
  for (const char* shape : {"()", "(3, 4)", "(1, 12, 1)"}) {
    expect_contains(error(of(npy_text("'<u2'", shape, "True"))), {"dimensions", "reshape(-1)"});
  }
  for (const char* shape : {"(13,)", "(9223372036854775807,)"}) {
    expect_contains(error(of(npy_text("'<u2'", shape))),
                    {"truncated: its header (byte 0) announces"});
  }
  expect_contains(error(of(npy_text("'<u2'", "(11,)"))),
                  {"wrong size: its header (byte 0) announces 11 tokens of 2 bytes, and 24 bytes"});
  const std::string text = npy_text("'<u4'", "(4,)");
  expect_contains(
      error(bytes_of("\x93NUMPY\x01"s + '\0' + static_cast<char>(text.size()) + '\0' + text) +
            Bytes(16)),
      {"which is no multiple of their size, 4"});
}

TEST_F(TokenFormats, DamagedHeadersOfNumpyAreToldWithTheirPlace) {
  const Bytes whole = npy_header(npy_text("'<u2'", "(8,)")) + Bytes(16);
  const auto with = [&](std::size_t at, int byte) {
    Bytes bytes = whole;
    bytes[at] = static_cast<std::uint8_t>(byte);
    return bytes;
  };
  for (std::size_t size = 6; size < whole.size(); size += 7) {
    expect_contains(error(first(whole, size)), {"truncated: "});
  }
  expect_contains(error(with(6, 4)), {"(byte 6) is of version 4.0; 1.0, 2.0 and 3.0"});
  expect_contains(error(with(7, 1)), {"of version 1.1"});
  expect_contains(error(with(9, 255)), {"truncated: its .npy header has 65408 bytes"});
  expect_contains(error(with(6, 2)), {"truncated: its .npy header has"});
  for (const std::string& text : std::vector<std::string>{
           "", "{}", "{'descr': '<u2'}", "{'shape': (8,)}", "{'descr': '<u2', 'shape': (8,",
           npy_text("'<u2'", "(8x)"), npy_text("'<u2'", "(99999999999999999999,)"),
           npy_text("'<u2'", "[8]"), npy_text("'<u2'", "8"), npy_text("'<u2", "(8,)")}) {
    expect_contains(error(npy_header(text) + Bytes(16)),
                    {"damaged: the text of its .npy header (byte 10)"});
  }
  expect_contains(error(npy_header(npy_text("'<u2'", "(-8,)")) + Bytes(16)),
                  {"announces -8 tokens"});
  expect_contains(error(npy_header(std::string(70'000, '{') + npy_text("'<u2'", "(8,)"), 2)),
                  {"damaged: ", "(byte 12)"});
}

TEST_F(TokenFormats, FilesOfOtherFormatsAreNotTakenForTokens) {
  struct Row {
    std::string start;
    const char* name;
  };
  const std::string json = "{\"a\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]}}";
  const std::vector<Row> rows = {
      {"PK\x03\x04", "a zip or .npz archive"},
      {std::string(257, 'x') + "ustar", "a tar archive"},
      {"PAR1\x15", "a Parquet file"},
      {"ARROW1\0\0"s, "an Arrow file"},
      {"\xff\xff\xff\xff\xb0\0\0\0\x10\0\0\0\0\0\x0a\0\x0c\0"s, "an Arrow stream"},
      {"\x89HDF\r\n\x1a\n", "an HDF5 file"},
      {static_cast<char>(json.size()) + "\0\0\0\0\0\0\0"s + json, "a safetensors file"},
      {"LITPKDS", "a packed dataset of LitGPT"},
      {"MMIDIDX\0\0"s, "an index of Megatron's"},
      {"\x1f\x8b\x08\0"s, "compressed with gzip"},
      {"\x28\xb5\x2f\xfd", "compressed with zstd"},
      {"\xfd\x37zXZ\0"s, "compressed with xz"},
      {"\x89PNG\r\n\x1a\n", "a PNG image"},
      {"\x50\x2a\x4d\x18", "compressed with zstd"},
      {"BZh11AY&SY", "compressed with bzip2"},
      {"\xff\xd8\xff\xe0", "a JPEG image"},
      {"\xff\xd8\xff\xee", "a JPEG image"},
      {"\x8a\xd8\x34\x01\x01\0\0\0"s, "evaluation data of llm.c"},  // 20240522
      {"\xc6\xd7\x34\x01\x03\0\0\0"s, "a model of llm.c"},          // 20240326
  };
  for (const Row& row : rows) {
    std::string text = row.start;
    text.resize(1200, '\0');
    const Bytes bytes = bytes_of(text);
    expect_contains(error(bytes), {"say that it is "s + row.name, "the option header to none"});
    expect_contains(error(bytes, {.header = TokenHeader::kLlmC}), {"wrong magic number"});
    EXPECT_EQ(open({.sequence_length = 2, .header = TokenHeader::kNone}).tokens(), 600U);
  }
  directory_.write("a.bin", values<std::int64_t>({8, 0x227b, 3, 4}));  // nearly safetensors
  EXPECT_EQ(open({.sequence_length = 2, .token = DType::kInt64}).tokens(), 4U);
}

TEST_F(TokenFormats, AVocabularyThatTheTokensCannotReachIsRefused) {
  const Bytes wide = values<std::uint32_t>({100'000, 100'000, 100'000});
  const auto refused = [&](const Bytes& bytes, std::optional<DType> token,
                           std::uint64_t vocabulary) {
    expect_contains(
        error(bytes, {.token = token, .vocabulary = vocabulary}),
        {"the option vocabulary is " + std::to_string(vocabulary), "the option token (uint32)"});
  };
  refused(wide, std::nullopt, 128'256);
  refused(wide, DType::kUint16, 65'537);
  refused(npy_header(npy_text("'<u2'", "(3,)")) + Bytes(6), std::nullopt, 128'256);
  refused(wide, DType::kUint32, (std::uint64_t{1} << 32) + 1);
  directory_.write("a.bin", wide);
  EXPECT_EQ(open({.sequence_length = 2, .token = DType::kUint32, .vocabulary = 128'256}).tokens(),
            3U);
  EXPECT_EQ(open({.sequence_length = 2, .vocabulary = 65'536}).tokens(), 6U);
}

TEST_F(TokenFormats, AHeaderThatSaysAnotherTypeThanTheOptionIsRefused) {
  const Bytes npy = npy_header(npy_text("'<i8'", "(3,)")) + Bytes(24);
  expect_contains(error(npy, {.token = DType::kUint16}),
                  {"it has int64 tokens in a .npy file, but the option token is uint16"});
  EXPECT_EQ(open({.sequence_length = 2, .token = DType::kInt64}).tokens(), 3U);
  expect_contains(error(npy, {.dtype = DType::kUint16}), {"are int64, which uint16 cannot hold"});
  write_tokens(directory_.path() / "llm", {.tokens = 50});
  expect_contains(error_of([&] {
                    TokenShards(directory_.path() / "llm",
                                {.sequence_length = 2, .token = DType::kUint32});
                  }),
                  {"uint16 tokens behind llm.c's header, but the option token is uint32"});
}

TEST_F(TokenFormats, ShardsWithAndWithoutNumpysHeaderAreNotMixed) {
  directory_.write("b.bin", Bytes(24));
  expect_contains(error_of([&] {
                    directory_.write("a.bin", npy_header(npy_text("'<u2'", "(12,)")) + Bytes(24));
                    static_cast<void>(open({.sequence_length = 2}));
                  }),
                  {"b.bin: it has uint16 tokens without a header", "uint16 tokens in a .npy file"});
  directory_.write("b.bin", npy_header(npy_text("'<i8'", "(3,)")) + Bytes(24));
  expect_contains(error_of([&] { static_cast<void>(open({.sequence_length = 2})); }),
                  {"b.bin: it has int64 tokens in a .npy file, but "});
}

}  // namespace token_formats_test
}  // namespace leat::feeder
