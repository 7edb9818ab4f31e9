// Shards that lack something, or that hold what does not belong there.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "leat/feeder/sources/web_dataset.h"
#include "tests/feeder/sources/web_files.h"

namespace leat::feeder {
namespace web_shards_test {

using Paths = std::vector<std::filesystem::path>;

const WebDatasetOptions kLabels{.parts = {class_label("label")}};

class WebShards : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "a.tar"; }
  std::filesystem::path write(const Bytes& bytes) const { return directory_.write("a.tar", bytes); }

  // Of a shard that ends as it should.
  std::string error(const Bytes& bytes) const {
    write(bytes + tar_end());
    return error_of([&] { const WebDataset data({path()}, kLabels); });
  }

  TemporaryDirectory directory_;
};

// An interrupted download is no smaller dataset.
TEST_F(WebShards, AShardWithoutASampleIsAnErrorUnlessItIsAccepted) {
  const Bytes empty = tar_file("README", "?") + tar_end();
  const Paths shards = {write(tar_file("0.cls", "0") + tar_end()),
                        directory_.write("b.tar", empty)};
  expect_contains(error_of([&] { const WebDataset data(shards, kLabels); }),
                  {shards[1].string(), "none of its 1 files is of a sample", "fetch the file again",
                   "accept_short_shards"});
  directory_.write("b.tar", tar_file("1.cls", "1") + Bytes(50'000));
  expect_contains(error_of([&] { const WebDataset data(shards, kLabels); }),
                  {shards[1].string(), "from byte 1024 on, more than 10752 bytes are 0"});
  WebDatasetOptions options = kLabels;
  options.accept_short_shards = true;
  EXPECT_EQ(WebDataset(shards, options).size(), 2U);
  directory_.write("b.tar", empty);
  EXPECT_EQ(WebDataset(shards, options).size(), 1U);
}

// As plain tar packs a folder: in the order of the directory.
TEST_F(WebShards, FilesOfASampleThatAreNoNeighboursAreToldSo) {
  const Bytes shard = tar_file("a.txt", "") + tar_file("b.txt", "") + tar_file("a.cls", "0") +
                      tar_file("b.cls", "1");
  expect_contains(error(shard),
                  {"sample a (byte 1024) has files that are not neighbours: others begin at byte 0",
                   "tar --sort=name"});
}

TEST_F(WebShards, AHugeLabelIsRefusedWithoutBeingRead) {
  const std::uint64_t size = std::uint64_t{3} << 30;
  const Bytes header = tar_header("0.cls", size);
  write(header);
  std::filesystem::resize_file(path(), header.size() + size + tar_end().size());
  const WebDataset data({path()}, kLabels);
  SampleBuffer sample(data.fields());
  expect_contains(error_of([&] { data.read(0, sample); }),
                  {"cannot read 0.cls of", "it is no integer: it has 3221225472 bytes"});
}

TEST_F(WebShards, AShardReplacedByAPipeIsToldAndDoesNotBlock) {
  write(tar_file("0.cls", "0") + tar_end());
  const WebDataset data({path()}, {.parts = kLabels.parts, .open_files = 0});
  std::filesystem::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  SampleBuffer sample(data.fields());
  expect_contains(error_of([&] { data.read(0, sample); }),
                  {path().string(), "it is no regular file", "name a file"});
}

}  // namespace web_shards_test
}  // namespace leat::feeder
