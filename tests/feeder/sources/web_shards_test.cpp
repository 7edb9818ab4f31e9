// Shards that lack something, or that hold what does not belong there.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
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
  std::string error(const Bytes& bytes, const WebDatasetOptions& options = kLabels) const {
    write(bytes + tar_end());
    return error_of([&] { const WebDataset data({path()}, options); });
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

// As `cp --link` and programs that find equal files make them.
TEST_F(WebShards, HardLinksAreFilesOfTheirOwnNamesWithTheDataOfOthers) {
  const Bytes shard = tar_file("all/0.cls", "3") + tar_link("all/0.num", "all/0.cls") +
                      tar_file("all/1.cls", "4") + tar_link("all/1.num", "all/0.num.gone") +
                      tar_link("all/2.num", "all/1.cls") + tar_link("all/2.cls", "all/0.cls") +
                      tar_file("all/0.cls", "5") + tar_link("all/3.cls", "all/0.cls") +
                      tar_file("all/4.cls", "7") + tar_link("all/5.cls", "all/4.cls");
  const WebDataset data({write(shard + tar_end())}, kLabels);
  const std::vector<std::pair<std::string, std::int64_t>> samples = {
      {"all/0", 3}, {"all/1", 4}, {"all/2", 3}, {"all/0", 5},
      {"all/3", 5}, {"all/4", 7}, {"all/5", 7}};
  ASSERT_EQ(data.size(), samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SampleBuffer sample(data.fields());
    data.read(i, sample);
    EXPECT_EQ(data.key(i), samples[i].first);
    EXPECT_EQ(sample.as<std::int64_t>(0)[0], samples[i].second) << i;
  }
  EXPECT_EQ(data.left_out(), WebLeftOut{});

  const std::filesystem::path second =
      directory_.write("b.tar", tar_file("0.txt", "x") + tar_link("1.cls", "0.txt") + tar_end());
  const WebDataset bad({path(), second},
                       {.parts = {class_label("label")}, .skip_incomplete = true});
  SampleBuffer sample(bad.fields());
  expect_contains(error_of([&] { bad.read(samples.size(), sample); }),
                  {"cannot read 1.cls of " + second.string() + " (byte 1024)", "no integer"});
}

TEST_F(WebShards, AHardLinkToNoFileBeforeItIsAnErrorWithItsPlace) {
  const std::string here = "sample 9 (byte 1024) has a hard link, 9.cls, to ";
  const Bytes link = tar_link("9.cls", "0.cls");
  WebDatasetOptions skipping = kLabels;
  skipping.skip_incomplete = true;
  for (const WebDatasetOptions& options : {kLabels, skipping}) {
    expect_contains(error(tar_file("1.cls", "1") + link, options),
                    {path().string(), here + "0.cls, which is not before it in the shard",
                     "before its links", "--hard-dereference"});
    expect_contains(error(tar_file("1.cls", "1") + link + tar_file("0.cls", "0"), options),
                    {here + "0.cls, which is not before it"});
    expect_contains(error(tar_file("1.cls", "1") + tar_link("9.cls", "9.cls"), options),
                    {here + "9.cls, which is not before it"});
  }
  const Bytes no_file = tar_link("0.cls", "1.cls", 0, '2') + tar_header("folder/", 0, '5');
  expect_contains(error(no_file + link), {here + "0.cls, which is no file but another link"});
  expect_contains(error(no_file + tar_link("9.cls", "folder/")), {"folder/, which is no file"});
  expect_contains(
      error(tar_file("1.cls", "1") + tar_link("2.txt", "1.cls") + tar_link("2.cls", "2.txt")),
      {"to 2.txt, which is no file but another link"});
}

TEST_F(WebShards, WhatIsOfNoSampleIsCountedByItsKind) {
  const Bytes others = tar_link("8.cls", "0.cls", 0, '2') + tar_link("9.cls", "0.cls", 0, '2') +
                       tar_header("tty.cls", 0, '3') + tar_header("pipe.cls", 0, '6') +
                       tar_file("7.cls", "?", 'Q') + tar_file("README", "?") +
                       tar_file("._0.cls", "?") + tar_file("__meta__/0.cls", "?") +
                       tar_header("a/", 0, '5') + tar_file("disk", "", 'V');
  const WebLeftOut counts{2, 2, 1, 3};
  const WebDataset data({write(tar_file("0.cls", "0") + others + tar_end())}, kLabels);
  EXPECT_EQ(data.size(), 1U);
  EXPECT_EQ(data.skipped(), 0U);
  EXPECT_EQ(data.left_out(), counts);
  EXPECT_EQ(
      to_string(counts),
      "2 symbolic links, 2 devices or pipes, 1 members of unknown types, 3 files without a key");
  expect_contains(error(others), {"none of its 3 files is of a sample; left out: 2 symbolic links",
                                  "tar --dereference"});
  expect_contains(
      error(tar_file("0.txt", "") + others),
      {"sample 0 (byte 0) lacks part \"label\" (.cls): it has 0.txt; the shard also has 2 "
       "symbolic links"});
  WebDatasetOptions options = kLabels;
  options.accept_short_shards = true;
  expect_contains(error(others, options), {"no samples in", "0 lack a part; left out: 2 symbolic"});
}

// As plain tar packs a folder: in the order of the directory.
TEST_F(WebShards, FilesOfASampleThatAreNoNeighboursAreToldSo) {
  const Bytes shard = tar_file("a.txt", "") + tar_file("b.txt", "") + tar_file("a.cls", "0") +
                      tar_file("b.cls", "1");
  expect_contains(error(shard),
                  {"sample a (byte 1024) has files that are not neighbours: others begin at byte 0",
                   "tar --sort=name"});
}

// Samples that lack a part before, between and after do not hide another one that is divided. It
// would be left out silently, though the shard has all of it.
TEST_F(WebShards, AnySampleWhoseFilesAreNoNeighboursIsToldAlsoWhereIncompleteOnesAreLeftOut) {
  WebDatasetOptions skipping = kLabels;
  skipping.skip_incomplete = true;
  const auto told = [&](const Bytes& shard, const std::string& sample, const std::string& others) {
    for (const WebDatasetOptions& options : {kLabels, skipping}) {
      expect_contains(error(shard, options),
                      {"sample " + sample + " has files that are not neighbours: others begin at " +
                       others + "; pack"});
    }
  };
  const Bytes lacks = tar_file("x.txt", "");
  const Bytes whole = tar_file("0.cls", "0");
  told(lacks + tar_file("a.txt", "") + whole + tar_file("a.cls", "1") + tar_file("y.txt", ""),
       "a (byte 2048)", "byte 512");
  told(whole + lacks + tar_file("a.txt", "") + tar_file("y.txt", "") + tar_file("a.json", ""),
       "a (byte 2560)", "byte 1536");
  // A sample that is whole, and has another file elsewhere, such as a newer label (tar -u).
  told(tar_file("a.cls", "0") + lacks + tar_file("a.txt", ""), "a (byte 1536)", "byte 0");
  // Of several, the one that is seen first.
  Bytes many;
  for (int i = 0; i < 200; ++i) many = many + tar_file(std::to_string(i) + ".txt", "");
  for (int i = 200; i-- > 0;) many = many + tar_file(std::to_string(i) + ".cls", "0");
  told(many, "198 (byte 103424)", "byte 101376");
}

TEST_F(WebShards, ASampleThatComesTwiceAndIsWholeEachTimeIsTwoSamples) {
  write(tar_file("a.cls", "0") + tar_file("x.txt", "") + tar_file("a.cls", "1") + tar_end());
  WebDatasetOptions options = kLabels;
  options.skip_incomplete = true;
  const WebDataset data({path()}, options);
  EXPECT_EQ(data.size(), 2U);
  EXPECT_EQ(data.skipped(), 1U);
}

TEST_F(WebShards, SamplesWhoseKeysHaveTheSameHashAreNotTakenForOne) {
  const std::string one = "8jzerb7dgvka37t8";
  const std::string other = "9at1uzhbwZ7eVk03";
  if (std::hash<std::string_view>{}(one) != std::hash<std::string_view>{}(other)) {
    GTEST_SKIP() << "another hash than libstdc++'s";
  }
  const Bytes shard = tar_file(one + ".txt", "") + tar_file(other + ".cls", "0");
  expect_contains(error(shard), {"sample " + one + " (byte 0) lacks part"});
  WebDatasetOptions options = kLabels;
  options.skip_incomplete = true;
  EXPECT_EQ(WebDataset({path()}, options).size(), 1U);
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
