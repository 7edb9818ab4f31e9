// Files that are bad from the beginning, for each source that reads files: opening them names the
// file, what is wrong and what to do. As root may read everything, what cannot be read here is what
// nobody can.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "bench/data/synthetic.h"
#include "bench/data/synthetic_web.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/fixed_records.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/feeder/sources/web_dataset.h"
#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {
namespace bad_files_test {

namespace fs = std::filesystem;

// Writes good files below `directory`; opens them. `bad`: the one that something happens to.
struct Source {
  const char* name;
  void (*write)(const TemporaryDirectory& directory);
  void (*open)(const fs::path& directory);
  const char* bad;
  bool has_magic = false;
};
std::ostream& operator<<(std::ostream& out, const Source& source) { return out << source.name; }

void write_mnist(const TemporaryDirectory& directory) {
  directory.write("train-images-idx3-ubyte", idx_header({2, 1, 2}) + Bytes{1, 2, 3, 4});
  directory.write("train-labels-idx1-ubyte", idx_header({2}) + Bytes{1, 2});
}
void open_mnist(const fs::path& directory) { const Mnist data(directory, Mnist::kTrain); }

void write_five_batches(const TemporaryDirectory& directory) {
  write_cifar10(directory.path(), {.samples = 10});
}
void open_cifar10(const fs::path& directory) { const Cifar10 data(directory, Cifar10::kTrain); }

void write_with_header(const TemporaryDirectory& directory) {
  write_tokens(directory.path(), {.tokens = 300, .shards = 3});
}
void open_with_header(const fs::path& directory) {
  const TokenShards data(directory, {.sequence_length = 20, .header = TokenHeader::kLlmC});
}

void write_without_header(const TemporaryDirectory& directory) {
  write_tokens(directory.path(), {.tokens = 300, .shards = 3, .header = false});
}
void open_without_header(const fs::path& directory) {
  const TokenShards data(directory, {.sequence_length = 20});
}

void write_three_files(const TemporaryDirectory& directory) {
  write_records(directory.path(), {.samples = 9, .shards = 3, .record_bytes = 20});
}
void open_records(const fs::path& directory) {
  const FixedRecords data(directory, {.fields = {{"x", DType::kUint8, {20}}}});
}

void write_raw_web(const TemporaryDirectory& directory) {
  for (const char* const name : {"a.tar", "b.tar", "c.tar"}) {
    directory.write(name, tar_file("0.bin", Bytes(24)) + tar_file("1.bin", Bytes(24)) + tar_end());
  }
}
void open_raw_web(const fs::path& directory) {
  const WebDataset data(directory, {.parts = {raw_bytes({"x", DType::kUint8, {24}}, {"bin"})}});
}

void write_images(const TemporaryDirectory& directory) {
  write_synthetic_web(directory.path(), {.samples = 3,
                                         .samples_per_shard = 1,
                                         .min_width = 30,
                                         .max_width = 40,
                                         .min_height = 30,
                                         .max_height = 40});
}
void open_images(const fs::path& directory) { const WebDataset data(directory); }

constexpr Source kSources[] = {
    {"MnistImages", write_mnist, open_mnist, "train-images-idx3-ubyte", true},
    {"MnistLabels", write_mnist, open_mnist, "train-labels-idx1-ubyte", true},
    {"Cifar10", write_five_batches, open_cifar10, "data_batch_4.bin"},
    {"TokensWithHeader", write_with_header, open_with_header, "tokens_00001.bin", true},
    {"TokensWithoutHeader", write_without_header, open_without_header, "tokens_00001.bin"},
    {"FixedRecords", write_three_files, open_records, "records_00001.bin"},
    {"RawWeb", write_raw_web, open_raw_web, "b.tar", true},
    {"Images", write_images, open_images, "synthetic-000001.tar", true},
};

class BadFiles : public testing::TestWithParam<Source> {
 protected:
  BadFiles() { GetParam().write(directory_); }

  fs::path bad() const { return directory_.path() / GetParam().bad; }
  std::string error() const {
    return error_of([this] { GetParam().open(directory_.path()); });
  }

  TemporaryDirectory directory_;
};
std::string source_title(const testing::TestParamInfo<Source>& source) { return source.param.name; }
INSTANTIATE_TEST_SUITE_P(Sources, BadFiles, testing::ValuesIn(kSources), source_title);

TEST_P(BadFiles, GoodOnesAreOpened) { EXPECT_NO_THROW(GetParam().open(directory_.path())); }

TEST_P(BadFiles, TruncatedIsTold) {
  const bool is_tar = bad().extension() == ".tar";  // which ends in two blocks of zeros
  fs::resize_file(bad(), fs::file_size(bad()) - (is_tar ? 2 * kTarBlock + 1 : 1));
  expect_contains(error(), {bad().string(), "truncated"});
}

TEST_P(BadFiles, EmptyIsTold) {
  fs::resize_file(bad(), 0);
  const std::string text = error();
  expect_contains(text, {bad().string()});
  EXPECT_TRUE(text.find("empty") != std::string::npos || text.find("found 0") != std::string::npos)
      << text;
}

TEST_P(BadFiles, WrongMagicIsTold) {
  if (!GetParam().has_magic) GTEST_SKIP() << "files of this format have no magic number";
  std::fstream(bad(), std::ios::in | std::ios::out | std::ios::binary).write("no such file", 12);
  expect_contains(error(), {bad().string()});
}

TEST_P(BadFiles, ADanglingLinkIsTold) {
  fs::remove(bad());
  fs::create_symlink("nowhere", bad());
  expect_contains(error(), {bad().string()});
}

// Where a directory is named, those below it are not among its files (sources/files.h).
TEST_P(BadFiles, ADirectoryInPlaceOfAFileIsTold) {
  fs::remove(bad());
  fs::create_directory(bad());
  const bool names_files = std::string(GetParam().name).starts_with("Mnist") ||
                           std::string(GetParam().name) == "Cifar10";
  expect_contains(error_of([&] { GetParam().open(names_files ? directory_.path() : bad()); }),
                  {bad().string()});
}

TEST_P(BadFiles, APathBelowAFileIsTold) {
  const fs::path below = bad() / "below";
  expect_contains(error_of([&] { GetParam().open(below); }), {below.string()});
}

}  // namespace bad_files_test
}  // namespace leat::feeder
