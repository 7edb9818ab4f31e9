// Samples that need no file: arrays, functions, and generated data's own promises.
#include "leat/feeder/sources/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/csp/error.h"
#include "leat/feeder/sources/function.h"
#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace memory_test {

TEST(InMemory, SamplesAreTheEntriesOfTheArrays) {
  std::vector<float> images(5 * 2 * 3);
  std::iota(images.begin(), images.end(), 0.5F);
  const std::array<std::int64_t, 5> labels = {9, 8, 7, 6, 5};
  const InMemory data({InMemory::tensor("image", images, {2, 3}),
                       InMemory::tensor("label", labels),
                       {{"first", DType::kUint8, {4}}, std::as_bytes(std::span(images)).first(20)}},
                      "mine");
  EXPECT_EQ(data.name(), "mine");
  EXPECT_EQ(data.blocking(), Blocking::kNever);
  ASSERT_EQ(data.size(), 5U);
  ASSERT_EQ(data.fields().size(), 3U);
  EXPECT_EQ(data.fields()[0], (Field{"image", DType::kFloat32, {2, 3}}));
  EXPECT_EQ(data.fields()[1], (Field{"label", DType::kInt64, {}}));
  from_several_threads(5, [&](std::uint64_t i) {
    SampleBuffer sample(data.fields());
    data.read(i, sample);
    EXPECT_TRUE(equal(sample.as<float>(0), std::span<const float>(images).subspan(i * 6, 6)));
    EXPECT_EQ(sample.as<std::int64_t>(1)[0], labels.at(i));
    EXPECT_TRUE(equal(sample.bytes(2), std::as_bytes(std::span(images)).subspan(i * 4, 4)));
  });
}

TEST(InMemory, MayBeEmpty) {
  const std::vector<float> nothing;
  const InMemory data({InMemory::tensor("a", nothing, {3})});
  EXPECT_EQ(data.size(), 0U);
  SampleBuffer sample(data.fields());
  expect_contains(error_of([&] { data.read(0, sample); }), {"in memory has no sample 0"});
}

// The array begins and ends within a page.
TEST(InMemory, AMappedFileThatIsCutOffIsAnErrorForTheSamplesThatItLacks) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::filesystem::path file = testing::TempDir() + "memory_test_cut_off";
  std::ofstream(file, std::ios::binary) << std::string(4 * page, 'x');
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  void* const mapped = mmap(nullptr, 4 * page, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  {
    const std::span values(static_cast<const std::byte*>(mapped) + 8, 4 * page - 16);
    const InMemory data({{{"x", DType::kUint8, {8}}, values, true}});
    EXPECT_EQ(data.blocking(), Blocking::kSeldom);
    EXPECT_EQ(data.announce(1, 0, 0), 8U);
    EXPECT_EQ(InMemory({{{"x", DType::kUint8, {8}}, values}}).announce(1, 0, 0), 0U);
    SampleBuffer sample(data.fields());
    data.read(data.size() - 1, sample);
    std::filesystem::resize_file(file, 2 * page);
    data.read(0, sample);
    EXPECT_EQ(sample.as<std::uint8_t>(0)[0], 'x');
    for (const std::uint64_t index : {data.size() - 1, std::uint64_t{2} * page / 8}) {
      try {
        data.read(index, sample);
        ADD_FAILURE() << "sample " << index << " was read";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("field \"x\""), std::string::npos);
      }
    }
    EXPECT_EQ(data.announce(data.size() - 1, 0, 0), 8U);  // of what is lost: no harm
    data.read(page / 8, sample);
  }
  munmap(mapped, 4 * page);
  close(fd);
  std::filesystem::remove(file);
}

std::string refusal(std::vector<InMemory::Tensor> tensors) {
  try {
    const InMemory data(std::move(tensors));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  ADD_FAILURE() << "it was not refused";
  return "";
}

TEST(InMemory, ArraysThatDoNotFitAreRefusedByName) {
  const std::vector<float> floats(12);
  const std::vector<std::int64_t> labels(5);
  expect_contains(
      refusal({InMemory::tensor("image", floats, {5})}),
      {"field \"image\" in memory has 48 bytes, which are no whole number of samples of 20"});
  expect_contains(
      refusal({InMemory::tensor("image", floats, {3}), InMemory::tensor("label", labels)}),
      {"field \"label\" in memory has 5 samples, but field \"image\" has 4"});
  expect_contains(refusal({}), {"at least one tensor"});
  expect_contains(refusal({InMemory::tensor("image", floats, {3, 0})}),
                  {"\"image\"", "extent of 0"});
  expect_contains(refusal({InMemory::tensor("image", floats, {1L << 32, 1L << 32})}),
                  {"\"image\"", "larger than any memory"});
  expect_contains(refusal({{{.name = "v", .shape = {3}, .variable_length = true}, {}}}),
                  {"\"v\"", "variable length"});
}

TEST(InMemory, RaggedArraysHaveTheLengthsThatOffsetsSay) {
  const std::vector<std::int16_t> pairs = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<std::int64_t> offsets = {1, 1, 3, 4};
  const std::vector<std::uint8_t> letters = {'a', 'b', 'c'};
  const std::vector<std::int64_t> ends = {0, 2, 2, 3};
  const InMemory data(
      {InMemory::ragged("pairs", pairs, offsets, {2}), InMemory::ragged("text", letters, ends)});
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(data.fields()[0], (Field{"pairs", DType::kInt16, {2, 2}, true}));
  EXPECT_EQ(data.fields()[1], (Field{"text", DType::kUint8, {2}, true}));
  SampleBuffer sample(data.fields());
  const std::vector<std::vector<std::int16_t>> wanted = {{}, {3, 4, 5, 6}, {7, 8}};
  for (std::uint64_t i = 0; i < 3; ++i) {
    data.read(i, sample);
    EXPECT_TRUE(equal(sample.as<std::int16_t>(0), std::span<const std::int16_t>(wanted[i])));
    EXPECT_EQ(data.length(i, 0), wanted[i].size() / 2);
  }
  EXPECT_EQ(sample.as<std::uint8_t>(1)[0], 'c');
  // All empty; none.
  const std::vector<std::int64_t> none = {0};
  const std::vector<std::int64_t> empty = {4, 4};
  EXPECT_EQ(InMemory({InMemory::ragged("a", pairs, none)}).size(), 0U);
  EXPECT_EQ(InMemory({InMemory::ragged("a", pairs, empty)}).fields()[0].shape[0], 1);
}

TEST(InMemory, WrongOffsetsAreRefusedByFieldAndSample) {
  const std::vector<float> floats(4);
  for (const std::vector<std::int64_t>& offsets :
       std::vector<std::vector<std::int64_t>>{{0, 2, 1, 4}, {0, 1, 5, 6}, {0, 1, -1, 4}}) {
    expect_contains(refusal({InMemory::ragged("r", floats, offsets)}),
                    {"field \"r\" in memory has wrong offsets: sample 1 is rows ", "of 4"});
  }
  const std::vector<std::int64_t> three = {0, 1, 2, 4};
  expect_contains(refusal({InMemory::tensor("a", floats), InMemory::ragged("r", floats, three)}),
                  {"\"r\" in memory has 3 samples, but field \"a\" has 4"});
  expect_contains(refusal({InMemory::ragged("r", floats, three, {3})}), {"number of rows of 12"});
}

TEST(FunctionDataset, IsItsFunction) {
  const FunctionDataset data(
      "squares", {{"square", DType::kInt64, {}}}, 10, [](std::uint64_t index, Sample& out) {
        if (index == 7) throw Error("leat: no seven; skip it");
        out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index * index);
      });
  EXPECT_EQ(data.name(), "squares");
  EXPECT_EQ(data.size(), 10U);
  EXPECT_EQ(data.blocking(), Blocking::kNever);
  EXPECT_EQ(data.fields()[0], (Field{"square", DType::kInt64, {}}));
  SampleBuffer sample(data.fields());
  data.read(9, sample);
  EXPECT_EQ(sample.as<std::int64_t>(0)[0], 81);
  expect_contains(error_of([&] { data.read(7, sample); }), {"no seven"});
  EXPECT_THROW(FunctionDataset("none", {}, 1, nullptr), std::invalid_argument);
}

// Benchmarks compare across versions: these are the contents of this one and of all later ones.
TEST(Synthetic, ContentsAreTheSameForEver) {
  EXPECT_EQ(synthetic_label(1, 2, 10), 6U);
  EXPECT_EQ(synthetic_token(1, 2, 3, 50'257), 4517U);
  const std::vector<std::byte> bytes = expected_bytes(1, 2, 3);
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 225);
}

TEST(Synthetic, ContentsFollowFromSeedAndNumber) {
  std::set<std::vector<std::byte>> all;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t i = 0; i < 10; ++i) all.insert(expected_bytes(seed, i, 13));
  }
  EXPECT_EQ(all.size(), 100U);
  std::set<std::uint32_t> tokens;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    tokens.insert(synthetic_token(0, i % 10, i / 10, 50));
  }
  EXPECT_EQ(tokens.size(), 50U);
  EXPECT_LT(*tokens.rbegin(), 50U);
}

TEST(Synthetic, WhatCannotBeWrittenIsNamed) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.write("file", {1});
  expect_contains(error_of([&] { write_records(file / "sub", {.samples = 1}); }),
                  {"cannot make the directory " + (file / "sub").string(), "Not a directory"});
  std::filesystem::create_directory(directory.path() / "data_batch_1.bin.partial");
  expect_contains(error_of([&] { write_cifar10(directory.path(), {.samples = 5}); }),
                  {"cannot write", "data_batch_1.bin.partial (at byte 0)", "Is a directory"});
  EXPECT_THROW(write_records(directory.path(), {.samples = 1, .shards = 2}), std::invalid_argument);
  EXPECT_THROW(write_records(directory.path(), {.samples = 1, .shards = 0}), std::invalid_argument);
  EXPECT_THROW(write_records(directory.path(), {.samples = 1, .record_bytes = 0}),
               std::invalid_argument);
  EXPECT_THROW(write_tokens(directory.path(), {.tokens = 1, .token = DType::kInt32}),
               std::invalid_argument);
  EXPECT_THROW(write_tokens(directory.path(), {.tokens = 1, .vocabulary = 65'537}),
               std::invalid_argument);
  EXPECT_THROW(write_tokens(directory.path(), {.tokens = std::uint64_t{1} << 31}),
               std::invalid_argument);
}

TEST(Synthetic, FullDiskIsToldAndNothingIsLeftBehind) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("/dev/full", directory.path() / "records_00000.bin.partial");
  expect_contains(error_of([&] { write_records(directory.path(), {.samples = 10'000}); }),
                  {"cannot write", "records_00000.bin.partial", "No space left on device"});
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace memory_test
}  // namespace leat::feeder
