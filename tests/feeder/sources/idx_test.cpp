#include "leat/feeder/sources/idx.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>

#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {
namespace idx_test {

const Bytes kSix = {10, 20, 30, 40, 50, 60};

// The text of the error of reading `bytes` as `dimensions`; it names the file.
std::string error_of_reading(const Bytes& bytes, unsigned dimensions) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.write("file", bytes);
  std::string text = error_of([&] { static_cast<void>(read_idx(file, dimensions)); });
  expect_contains(text, {"cannot read " + file.string() + ": "});
  return text;
}

TEST(Idx, ReadsPlainFiles) {
  const TemporaryDirectory directory;
  const IdxArray array = read_idx(directory.write("a", idx_header({2, 3}) + kSix), 2);
  EXPECT_EQ(array.shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(array.values, kSix);
}

TEST(Idx, ReadsGzipFilesWhateverTheirName) {
  const TemporaryDirectory directory;
  const IdxArray array = read_idx(directory.write("a", gzip(idx_header({6}) + kSix)), 1);
  EXPECT_EQ(array.shape, std::vector<std::size_t>{6});
  EXPECT_EQ(array.values, kSix);
}

TEST(Idx, ReadsGzipFilesOfSeveralMembers) {
  const TemporaryDirectory directory;
  const Bytes bytes = gzip(idx_header({6})) + gzip({}) + gzip(kSix) + gzip({});
  EXPECT_EQ(read_idx(directory.write("a.gz", bytes), 1).values, kSix);
}

TEST(Idx, ReadsPayloadsLargerThanItsBuffers) {
  const TemporaryDirectory directory;
  Bytes payload(200000);
  std::iota(payload.begin(), payload.end(), std::uint8_t{0});
  const Bytes bytes = idx_header({200, 10, 100}) + payload;
  EXPECT_EQ(read_idx(directory.write("a", bytes), 3).values, payload);
  EXPECT_EQ(read_idx(directory.write("a.gz", gzip(bytes)), 3).values, payload);
}

TEST(Idx, ReadsEmptyArrays) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(read_idx(directory.write("a", idx_header({0})), 1).values.empty());
  EXPECT_TRUE(read_idx(directory.write("b", gzip(idx_header({7, 0, 9}))), 3).values.empty());
  // Its product is zero, whatever stands beside the zero.
  EXPECT_TRUE(
      read_idx(directory.write("c", idx_header({0xffffffff, 0xffffffff, 0})), 3).values.empty());
}

TEST(Idx, WhatCannotBeOpenedIsNamed) {
  const TemporaryDirectory directory;
  const auto told = [](const std::filesystem::path& file, const char* why) {
    expect_contains(error_of([&] { static_cast<void>(read_idx(file, 1)); }), {file.string(), why});
  };
  told(directory.path() / "nothing", "No such file or directory");
  told(directory.path(), "it is a directory");
  const std::filesystem::path loop = directory.path() / "loop";
  std::filesystem::create_symlink(loop, loop);
  told(loop, "Too many levels of symbolic links");
  if (geteuid() == 0) return;  // who may read everything
  const std::filesystem::path secret = directory.write("a", idx_header({0}));
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  told(secret, "Permission denied");
}

TEST(Idx, WrongMagicShowsFoundAndExpected) {
  expect_contains(error_of_reading(idx_header({6}) + kSix, 3),
                  {"wrong magic number: found 0x00000801, expected 0x00000803"});
  expect_contains(error_of_reading(gzip(idx_header({1, 2, 3}) + kSix), 1),
                  {"wrong magic number: found 0x00000803, expected 0x00000801"});
  // Signed bytes; floats; text.
  expect_contains(error_of_reading(Bytes{0, 0, 9, 1, 0, 0, 0, 0}, 1), {"found 0x00000901"});
  expect_contains(error_of_reading(Bytes{0, 0, 13, 1, 0, 0, 0, 0}, 1), {"found 0x00000d01"});
  expect_contains(error_of_reading(Bytes{'<', 'h', 't', 'm', 'l', '>'}, 1), {"found 0x3c68746d"});
  // Little-endian, by a careless writer.
  expect_contains(error_of_reading(Bytes{1, 8, 0, 0, 6, 0, 0, 0} + kSix, 1), {"found 0x01080000"});
}

TEST(Idx, TruncatedHeaderShowsExpectedAndFound) {
  const Bytes header = idx_header({1, 2, 3});
  for (const std::size_t length : {0U, 1U, 3U, 4U, 15U}) {
    const Bytes start = first(header, length);
    const std::string problem = "expected a header of 16 bytes, found " + std::to_string(length);
    expect_contains(error_of_reading(start, 3), {"truncated", problem});
    expect_contains(error_of_reading(gzip(start), 3), {"truncated", problem});
  }
}

TEST(Idx, TruncatedPayloadShowsExpectedAndFound) {
  const Bytes bytes = without_last(idx_header({1, 2, 3}) + kSix);
  expect_contains(error_of_reading(bytes, 3),
                  {"truncated: expected 22 bytes (a header of 16, then 1 x 2 x 3), found 21"});
  expect_contains(error_of_reading(gzip(bytes), 3),
                  {"truncated: expected 22 bytes (a header of 16, then 1 x 2 x 3), found 21"});
}

TEST(Idx, GzipCutOffAnywhereIsTruncated) {
  const Bytes whole = gzip(idx_header({6}) + kSix);
  const std::size_t data_end = whole.size() - kGzipTrailer;
  for (std::size_t length = 2; length < whole.size(); ++length) {
    const std::string text = error_of_reading(first(whole, length), 1);
    if (length < data_end) {
      expect_contains(text, {"truncated: expected ", ", found "});
    } else {
      expect_contains(text, {"truncated: the gzip data ends before its checksum",
                             "at byte " + std::to_string(length) + " of the file"});
    }
  }
}

TEST(Idx, WrongChecksumIsCorrupt) {
  Bytes bytes = gzip(idx_header({6}) + kSix);
  bytes[bytes.size() - kGzipTrailer] ^= 1;
  expect_contains(error_of_reading(bytes, 1), {"corrupt gzip data (zlib: incorrect data check)"});

  bytes = gzip(idx_header({6}) + kSix);
  bytes[bytes.size() - kGzipTrailer - 1] ^= 1;  // the last pixel
  expect_contains(error_of_reading(bytes, 1), {"corrupt gzip data (zlib: incorrect data check)"});
}

TEST(Idx, WrongLengthInTheTrailerIsCorrupt) {
  Bytes bytes = gzip(idx_header({6}) + kSix);
  bytes.back() ^= 1;
  expect_contains(error_of_reading(bytes, 1), {"corrupt gzip data (zlib: incorrect length check)"});
}

TEST(Idx, CorruptGzipIsToldWithItsOffset) {
  Bytes bytes = gzip(idx_header({6}) + kSix);
  bytes[kGzipHeader] = 7;  // a block of the type that does not exist
  expect_contains(error_of_reading(bytes, 1),
                  {"corrupt gzip data (zlib: invalid block type) at byte 11"});

  bytes = gzip(idx_header({6}) + kSix);
  bytes[2] = 9;  // a compression method that does not exist
  expect_contains(error_of_reading(bytes, 1),
                  {"corrupt gzip data (zlib: unknown compression method)"});
}

TEST(Idx, BytesBeyondThePayloadAreRefused) {
  const Bytes bytes = idx_header({5}) + kSix;
  expect_contains(error_of_reading(bytes, 1),
                  {"more bytes than the 13 that its header announces (5)"});
  expect_contains(error_of_reading(gzip(bytes), 1),
                  {"more bytes than the 13 that its header announces (5)"});
  expect_contains(error_of_reading(gzip(idx_header({6}) + kSix) + gzip({0}), 1),
                  {"more bytes than the 14 that its header announces (6)"});
  expect_contains(error_of_reading(idx_header({0}) + Bytes{0}, 1), {"more bytes than the 8"});
}

TEST(Idx, BytesBeyondTheGzipDataAreRefused) {
  const Bytes whole = gzip(idx_header({6}) + kSix);
  expect_contains(error_of_reading(whole + Bytes{0}, 1),
                  {"something that is not gzip follows the compressed data at byte " +
                   std::to_string(whole.size())});
  expect_contains(error_of_reading(whole + Bytes{0x1f, 0x8c, 0, 0}, 1),
                  {"corrupt gzip data (zlib: incorrect header check)"});
}

TEST(Idx, SizesThatOverflowAreRefused) {
  expect_contains(error_of_reading(idx_header({0xffffffff, 0xffffffff, 0xffffffff}) + kSix, 3),
                  {"byte 4", "more than fits into memory: 4294967295 x 4294967295 x 4294967295"});
  // 2^64 - 16: with the header's 16 bytes, exactly 2^64.
  expect_contains(error_of_reading(idx_header({0xfffffff0, 0x10000001, 16}) + kSix, 3),
                  {"found 22"});
  expect_contains(error_of_reading(idx_header({0x80000000, 0x80000000, 4}) + kSix, 3),
                  {"more than fits into memory"});
}

// These would be terabytes; the sanitizers' allocators refuse far less.
TEST(Idx, SizesThatTheFileCannotHoldAreRefusedBeforeAnyAllocation) {
  const Bytes bytes = idx_header({0x7fffffff, 1000, 1000}) + kSix;
  expect_contains(error_of_reading(bytes, 3),
                  {"truncated: expected 2147483647000016 bytes", "found 22"});
  const Bytes compressed = gzip(bytes);
  expect_contains(error_of_reading(compressed, 3),
                  {"truncated: expected 2147483647000016 bytes",
                   "found at most " + std::to_string(1032 * compressed.size()) +
                       " in a gzip file of " + std::to_string(compressed.size())});
}

TEST(Idx, AFileWithoutMemoryForItIsNamed) {
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
  GTEST_SKIP() << "a sanitizer needs more address space than this test leaves";
#endif
  constexpr std::uint32_t kSize = 96 << 20;
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.write("huge", idx_header({kSize}));
  std::filesystem::resize_file(file, 8 + kSize);  // a hole, which takes no room on the disk
  expect_contains(error_without_memory(kSize / 3, [&] { static_cast<void>(read_idx(file, 1)); }),
                  {"leat: cannot read " + file.string() +
                   ": there is no memory for its 100663296 bytes "
                   "(100663296); divide it"});
}

// A bit that flipped in the header makes it announce less than there is; one that flipped in the
// compressed data may make more of it. The checksum tells which it is: a wrong header, or damage.
TEST(Idx, CorruptGzipIsNotToldAsMoreBytesThanTheHeaderAnnounces) {
  const Bytes meant = idx_header({6}) + kSix;
  Bytes bytes = gzip(meant);
  const std::size_t extent = kGzipHeader + 5 + 7;  // behind a stored block's own header
  ASSERT_EQ(bytes[extent], 6);
  bytes[extent] = 2;
  expect_contains(error_of_reading(bytes, 1), {"corrupt gzip data (zlib: incorrect data check)"});

  // Far more than what is announced, with the damage behind it.
  bytes = gzip(meant + Bytes(300000, 0));
  bytes[bytes.size() - kGzipTrailer - 1] ^= 1;
  expect_contains(error_of_reading(bytes, 1), {"corrupt gzip data (zlib: incorrect data check)"});
  bytes = gzip(meant + Bytes(300000, 0));
  std::fill(bytes.end() - 200000, bytes.end(), std::uint8_t{0xff});
  expect_contains(error_of_reading(bytes, 1), {"corrupt gzip data (zlib: "});
  expect_contains(
      error_of_reading(first(gzip(meant + Bytes(300000, 0)), 200000), 1),
      {"truncated: the gzip data ends before its checksum, at byte 200000 of the file"});
}

// A gzip file of six pixels and then `repeats` times 258 zeros, cut off: 13 bits each.
Bytes expanding(std::size_t repeats) {
  Bytes bytes = gzip(idx_header({6}) + kSix);
  bytes.resize(bytes.size() - kGzipTrailer);
  bytes[kGzipHeader] = 0;  // not the last block
  std::uint32_t bits = 0;
  int count = 0;
  const auto put = [&](std::uint32_t value, int length) {  // the highest bit first
    while (length-- > 0) {
      bits |= (value >> length & 1) << count;
      if (++count == 8) {
        bytes.push_back(static_cast<std::uint8_t>(bits));
        bits = 0;
        count = 0;
      }
    }
  };
  put(0b010, 3);                                                        // fixed codes (RFC 1951)
  put(0b00110000, 8);                                                   // a zero
  for (std::size_t i = 0; i < repeats; ++i) put(0b11000101'00000, 13);  // 258 bytes, from 1 back
  return bytes;
}

// What expands without end is left alone after 256 MiB: the file ends too early, which nobody sees.
TEST(Idx, DataThatExpandsFarBeyondTheHeaderIsLeftAlone) {
  expect_contains(error_of_reading(expanding(1'100'000), 1),
                  {"more bytes than the 14 that its header announces (6)"});
  expect_contains(error_of_reading(expanding(1000), 1),
                  {"truncated: the gzip data ends before its checksum"});
}

TEST(Idx, ImpossibleDimensionsAreACallersError) {
  EXPECT_THROW(static_cast<void>(read_idx("/dev/null", 0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(read_idx("/dev/null", 256)), std::invalid_argument);
}

}  // namespace idx_test
}  // namespace leat::feeder
