#include "leat/feeder/sources/fixed_records.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace fixed_records_test {

namespace fs = std::filesystem;

// 21 bytes, so that nothing is aligned.
const std::vector<Field> kFields = {
    {"a", DType::kUint8, {3}}, {"b", DType::kInt64, {}}, {"c", DType::kInt16, {5}}};
constexpr std::size_t kRecord = 21;

void expect_sample(const FixedRecords& data, std::uint64_t seed, std::uint64_t index) {
  SampleBuffer sample(data.fields());
  data.read(index, sample);
  std::vector<std::byte> read;
  for (std::size_t f = 0; f < 3; ++f) {
    read.insert(read.end(), sample.bytes(f).begin(), sample.bytes(f).end());
  }
  EXPECT_EQ(read, expected_bytes(seed, index, kRecord)) << index;
}

TEST(FixedRecords, AreWhatWasWrittenForAnyNumberOfShardsAndHeader) {
  for (const std::size_t shards : {1U, 2U, 7U, 100U}) {
    for (const std::size_t header : {0U, 1U, 1024U}) {
      const TemporaryDirectory directory;
      const std::vector<fs::path> files = write_records(directory.path(), {.samples = 100,
                                                                           .shards = shards,
                                                                           .seed = shards,
                                                                           .record_bytes = kRecord,
                                                                           .header_bytes = header});
      EXPECT_EQ(files.size(), shards);
      const FixedRecords data(directory.path(), {.fields = kFields, .header_bytes = header});
      ASSERT_EQ(data.size(), 100U);
      EXPECT_EQ(data.blocking(), Blocking::kSeldom);
      EXPECT_EQ(data.name(), "fixed records of " + directory.path().string());
      ASSERT_EQ(data.fields().size(), 3U);
      EXPECT_EQ(data.fields()[1], kFields[1]);
      for (std::uint64_t i = 0; i < 100; ++i) expect_sample(data, shards, i);
    }
  }
}

class FixedRecordsBad : public ::testing::Test {
 protected:
  std::string error(const Bytes& bytes, std::uint64_t header) {
    file_ = directory_.write("a.bin", bytes);
    std::string text = error_of(
        [&] { const FixedRecords data(file_, {.fields = kFields, .header_bytes = header}); });
    expect_contains(text, {"cannot read " + file_.string()});
    return text;
  }

  TemporaryDirectory directory_;
  fs::path file_;
};

TEST_F(FixedRecordsBad, TruncatedFileIsToldWithTheEndOfItsLastWholeRecord) {
  expect_contains(error(Bytes(kRecord * 3 - 1), 0),
                  {"truncated: of its 62 bytes, the last whole record of 21 ends at byte 42"});
  expect_contains(error(Bytes(10 + kRecord * 3 + 1), 10), {"of its 74 bytes", "ends at byte 73"});
  expect_contains(error(Bytes(10 + 5), 10), {"ends at byte 10"});
}

TEST_F(FixedRecordsBad, NoRecordIsToldWithTheHeader) {
  expect_contains(error(Bytes(10), 10), {"its 10 bytes hold no record behind a header of 10"});
  expect_contains(error(Bytes(9), 10), {"its 9 bytes hold no record behind a header of 10"});
  expect_contains(error({}, 0), {"it is empty (0 bytes)"});
}

// The header of a .npy file can have the size of some records.
TEST_F(FixedRecordsBad, AHeaderOfNumPysIsNotTakenForRecords) {
  const auto padded = [](std::string start, std::size_t size) {
    start.resize(size, ' ');
    return Bytes(start.begin(), start.end());
  };
  const std::string npy = "\x93NUMPY\x01" + std::string("\0\x3e\0", 3) +
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const fs::path file = directory_.write("a.bin", padded(npy, 72) + Bytes(8));
  const std::vector<Field> fields = {{"x", DType::kFloat32, {2}}};
  expect_contains(error_of([&] { FixedRecords(file, {.fields = fields}); }),
                  {"cannot read " + file.string(), "it is a .npy file", "header_bytes 72"});
  EXPECT_EQ(FixedRecords(file, {.fields = fields, .header_bytes = 72}).size(), 1U);
  for (const char* start : {"PK\x03\x04", "PAR1", "\xff\xd8\xff\xe0", "\x8a\xd8\x34\x01"}) {
    directory_.write("a.bin", padded(start, 80));
    EXPECT_EQ(FixedRecords(file, {.fields = fields}).size(), 10U) << "a record may begin so";
  }
}

TEST_F(FixedRecordsBad, ABoolThatIsNeither0Nor1IsToldWithItsByte) {
  Bytes bytes(3 * 5);
  bytes[8] = 1;
  bytes[13] = 2;
  const fs::path file = directory_.write("0.bin", bytes);
  const FixedRecords data(file,
                          {.fields = {{"n", DType::kInt16, {}}, {"mask", DType::kBool, {3}}}});
  SampleBuffer sample(data.fields());
  data.read(1, sample);
  const std::span<const bool> mask = sample.as<bool>(1);
  EXPECT_EQ(std::vector<bool>(mask.begin(), mask.end()), (std::vector<bool>{false, true, false}));
  expect_contains(
      error_of([&] { data.read(2, sample); }),
      {"cannot read " + file.string(), "byte 13 is 2", "\"mask\" of record 2", "a bool is 0 or 1"});
}

TEST_F(FixedRecordsBad, FieldsThatCannotBeAreACallersError) {
  directory_.write("0.bin", Bytes(kRecord));
  std::vector<Field> large;  // the sum of their sizes is 2^64
  for (int i = 0; i < 256; ++i) {
    large.push_back({"f" + std::to_string(i), DType::kUint8, {1L << 56}});
  }
  const std::vector<std::vector<Field>> refused = {
      large,
      {},
      {{"a", DType::kUint8, {0}}},
      {{"a", DType::kUint8, {-1}}},
      {{.name = "a", .shape = {3}, .variable_length = true}},
      {{"a", DType::kUint8, {1L << 40, 1L << 40}}},
  };
  for (const std::vector<Field>& fields : refused) {
    EXPECT_THROW(FixedRecords(directory_.path(), {.fields = fields}), std::invalid_argument);
  }
}

}  // namespace fixed_records_test
}  // namespace leat::feeder
