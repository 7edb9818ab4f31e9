// What every source that reads files promises. Of good files: several threads may read, and who
// asks for what is not there is told. Of files that are bad from the beginning: opening them names
// the file, what is wrong and what to do. As root may read everything, what cannot be read here is
// what nobody can. Files that go bad later: bad_input_test.cpp.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/data/synthetic.h"
#include "bench/data/synthetic_web.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/npy_files.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"
#include "tests/feeder/sources/npy_headers.h"
#include "tests/feeder/sources/synthetic_files.h"
#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {
namespace every_source_test {

namespace fs = std::filesystem;

// Writes good files below `directory`; opens them. `bad`: the one that something happens to.
struct Source {
  const char* name;
  void (*write)(const TemporaryDirectory& directory);
  std::unique_ptr<Dataset> (*open)(const fs::path& directory);
  const char* bad;
  bool has_magic = false;
};
std::ostream& operator<<(std::ostream& out, const Source& source) { return out << source.name; }

void write_mnist(const TemporaryDirectory& directory) {
  directory.write("train-images-idx3-ubyte", idx_header({2, 1, 2}) + Bytes{1, 2, 3, 4});
  directory.write("train-labels-idx1-ubyte", idx_header({2}) + Bytes{1, 2});
}
std::unique_ptr<Dataset> open_mnist(const fs::path& directory) {
  return std::make_unique<Mnist>(directory, Mnist::kTrain);
}

void write_five_batches(const TemporaryDirectory& directory) {
  write_cifar10(directory.path(), {.samples = 10});
}
std::unique_ptr<Dataset> open_cifar10(const fs::path& directory) {
  return std::make_unique<Cifar10>(directory, Cifar10::kTrain);
}

void write_with_header(const TemporaryDirectory& directory) {
  write_tokens(directory.path(), {.tokens = 300, .shards = 3});
}
std::unique_ptr<Dataset> open_with_header(const fs::path& directory) {
  return std::make_unique<TokenShards>(
      directory, TokenShardsOptions{.sequence_length = 20, .header = TokenHeader::kLlmC});
}

void write_without_header(const TemporaryDirectory& directory) {
  write_tokens(directory.path(), {.tokens = 300, .shards = 3, .header = false});
}
std::unique_ptr<Dataset> open_without_header(const fs::path& directory) {
  return std::make_unique<TokenShards>(directory, TokenShardsOptions{.sequence_length = 20});
}

void write_three_files(const TemporaryDirectory& directory) {
  write_records(directory.path(), {.samples = 9, .shards = 3, .record_bytes = 20});
}
std::unique_ptr<Dataset> open_records(const fs::path& directory) {
  return std::make_unique<FixedRecords>(
      directory, FixedRecordsOptions{.fields = {{"x", DType::kUint8, {20}}}});
}

void write_arrays(const TemporaryDirectory& directory) {
  for (const char* const name : {"a.npy", "b.npy", "c.npy"}) {
    directory.write(name, npy_header(npy_text("'|u1'", "(3, 20)")) + Bytes(60));
  }
}
std::unique_ptr<Dataset> open_arrays(const fs::path& directory) {
  return std::make_unique<Npy>(directory);
}

void write_raw_web(const TemporaryDirectory& directory) {
  for (const char* const name : {"a.tar", "b.tar", "c.tar"}) {
    directory.write(name, tar_file("0.bin", Bytes(24)) + tar_file("1.bin", Bytes(24)) + tar_end());
  }
}
std::unique_ptr<Dataset> open_raw_web(const fs::path& directory) {
  return std::make_unique<WebDataset>(
      directory, WebDatasetOptions{.parts = {raw_bytes({"x", DType::kUint8, {24}}, {"bin"})},
                                   .open_files = 1});
}

void write_images(const TemporaryDirectory& directory) {
  write_synthetic_web(directory.path(), {.samples = 3,
                                         .samples_per_shard = 1,
                                         .min_width = 30,
                                         .max_width = 40,
                                         .min_height = 30,
                                         .max_height = 40});
}
std::unique_ptr<Dataset> open_images(const fs::path& directory) {
  return std::make_unique<WebDataset>(directory);
}

constexpr Source kSources[] = {
    {"MnistImages", write_mnist, open_mnist, "train-images-idx3-ubyte", true},
    {"MnistLabels", write_mnist, open_mnist, "train-labels-idx1-ubyte", true},
    {"Cifar10", write_five_batches, open_cifar10, "data_batch_4.bin"},
    {"TokensWithHeader", write_with_header, open_with_header, "tokens_00001.bin", true},
    {"TokensWithoutHeader", write_without_header, open_without_header, "tokens_00001.bin"},
    {"FixedRecords", write_three_files, open_records, "records_00001.bin"},
    {"Npy", write_arrays, open_arrays, "b.npy", true},
    {"RawWeb", write_raw_web, open_raw_web, "b.tar", true},
    {"Images", write_images, open_images, "synthetic-000001.tar", true},
};

class EverySource : public testing::TestWithParam<Source> {
 protected:
  EverySource() { GetParam().write(directory_); }
  std::unique_ptr<Dataset> open() const { return GetParam().open(directory_.path()); }
  fs::path bad() const { return directory_.path() / GetParam().bad; }
  std::string error() const {
    return error_of([this] { static_cast<void>(open()); });
  }

  TemporaryDirectory directory_;
};
std::string source_title(const testing::TestParamInfo<Source>& source) { return source.param.name; }
INSTANTIATE_TEST_SUITE_P(Sources, EverySource, testing::ValuesIn(kSources), source_title);

// All tensors of a sample, one behind the other.
std::vector<std::byte> contents_of(const Dataset& data, std::uint64_t index) {
  SampleBuffer sample(data.fields());
  data.read(index, sample);
  std::vector<std::byte> all;
  for (std::size_t f = 0; f < data.fields().size(); ++f) {
    all.insert(all.end(), sample.bytes(f).begin(), sample.bytes(f).end());
  }
  return all;
}

TEST_P(EverySource, MayBeReadByManyThreads) {
  const std::unique_ptr<Dataset> data = open();
  std::vector<std::vector<std::byte>> want;
  for (std::uint64_t i = 0; i < data->size(); ++i) want.push_back(contents_of(*data, i));
  from_several_threads(20 * data->size(), [&](std::uint64_t i) {
    EXPECT_EQ(contents_of(*data, i % data->size()), want[i % data->size()]);
  });
}

TEST_P(EverySource, ASampleThatIsNotThereIsNamed) {
  const std::unique_ptr<Dataset> data = open();
  SampleBuffer sample(data->fields());
  for (const std::uint64_t index : {data->size(), ~std::uint64_t{0}}) {
    expect_contains(error_of([&] { data->read(index, sample); }),
                    {std::string(data->name()) + " has no sample " + std::to_string(index),
                     "it has " + std::to_string(data->size())});
  }
}

TEST_P(EverySource, OtherFieldsAreACallersErrorAndNothingIsWritten) {
  const std::unique_ptr<Dataset> data = open();
  const std::vector<Field> right(data->fields().begin(), data->fields().end());
  std::vector<Field> wider = right;
  wider.back().dtype = DType::kFloat64;
  std::vector<Field> longer = right;
  ++longer.front().shape.back();
  std::vector<Field> more = right;
  more.push_back({"another", DType::kUint8, {}});
  for (const std::vector<Field>& fields : {wider, longer, more}) {
    SampleBuffer other(fields);
    EXPECT_THROW(data->read(0, other), std::invalid_argument);
    for (const std::byte byte : other.bytes(0)) EXPECT_EQ(byte, std::byte{0}) << "it was written";
  }
}

TEST_P(EverySource, AnAddressIsRefused) {
  expect_contains(error_of([] { GetParam().open("s3://bucket/data"); }),
                  {"\"s3://\" is not supported", "download"});
}

TEST_P(EverySource, TruncatedIsTold) {
  const bool is_tar = bad().extension() == ".tar";  // which ends in two blocks of zeros
  fs::resize_file(bad(), fs::file_size(bad()) - (is_tar ? 2 * kTarBlock + 1 : 1));
  expect_contains(error(), {bad().string(), "truncated"});
}

TEST_P(EverySource, EmptyIsTold) {
  fs::resize_file(bad(), 0);
  const std::string text = error();
  expect_contains(text, {bad().string()});
  EXPECT_TRUE(text.find("empty") != std::string::npos || text.find("found 0") != std::string::npos)
      << text;
}

TEST_P(EverySource, WrongMagicIsTold) {
  if (!GetParam().has_magic) GTEST_SKIP() << "files of this format have no magic number";
  std::fstream(bad(), std::ios::in | std::ios::out | std::ios::binary).write("no such file", 12);
  expect_contains(error(), {bad().string()});
}

TEST_P(EverySource, ADanglingLinkIsTold) {
  fs::remove(bad());
  fs::create_symlink("nowhere", bad());
  expect_contains(error(), {bad().string()});
}

// Where a directory is named, those below it are not among its files (sources/files.h).
TEST_P(EverySource, ADirectoryInPlaceOfAFileIsTold) {
  fs::remove(bad());
  fs::create_directory(bad());
  const bool names_files = std::string(GetParam().name).starts_with("Mnist") ||
                           std::string(GetParam().name) == "Cifar10";
  expect_contains(error_of([&] { GetParam().open(names_files ? directory_.path() : bad()); }),
                  {bad().string()});
}

TEST_P(EverySource, APathBelowAFileIsTold) {
  const fs::path below = bad() / "below";
  expect_contains(error_of([&] { GetParam().open(below); }), {below.string()});
}

}  // namespace every_source_test
}  // namespace leat::feeder
