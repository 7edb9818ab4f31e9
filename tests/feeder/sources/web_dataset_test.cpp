// Samples of shards: all that was written is read, and what is wrong is told with its place.
#include "leat/feeder/sources/web_dataset.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bench/data/synthetic_web.h"
#include "leat/feeder/sources/open_files.h"
#include "leat/feeder/sources/read_image.h"
#include "leat/feeder/sources/web_index.h"
#include "tests/feeder/sources/web_files.h"
#include "tests/support/cold_file.h"

namespace leat::feeder {
namespace web_dataset_test {

using Paths = std::vector<std::filesystem::path>;

const SyntheticWebOptions kSmall{.samples = 23,
                                 .samples_per_shard = 5,
                                 .min_width = 30,
                                 .max_width = 90,
                                 .min_height = 30,
                                 .max_height = 90,
                                 .seed = 7};
const ImageOptions kThumbnail{.height = 32, .width = 32};
const Field kJson{"json", DType::kUint8, {200}, true};

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Web : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "a.tar"; }
  std::filesystem::path write(const Bytes& bytes) const { return directory_.write("a.tar", bytes); }

  // Of a shard that ends as it should.
  std::string error(const Bytes& bytes, const WebDatasetOptions& options) const {
    write(bytes + tar_end());
    return error_of([&] { const WebDataset data({path()}, options); });
  }
  std::string read_error(const Bytes& bytes, const WebDatasetOptions& options) const {
    write(bytes + tar_end());
    const WebDataset data({path()}, options);
    SampleBuffer sample(data.fields());
    return error_of([&] { data.read(0, sample); });
  }

  static Bytes jpeg(std::uint32_t width = 40, std::uint32_t height = 30) {
    const auto bytes = encode_jpeg(synthetic_image(1, 0, width, height), width, height);
    Bytes copy(bytes.size());
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }

  TemporaryDirectory directory_;
};

const WebDatasetOptions kLabels{.parts = {class_label("label")}};
const WebDatasetOptions kImages{.parts = {jpeg_image("image", kThumbnail)}};

TEST_F(Web, AnAnnouncementIsOfAllPartsAlsoOfAHardLinkAndOfNothingWhereTheShardIsGone) {
  const Bytes large(50'000, 'x');
  const std::filesystem::path shard =
      write(tar_file("0.bin", large) + tar_file("0.cls", "7") + tar_file("1.cls", "8") +
            tar_link("1.bin", "0.bin") + tar_end());
  const WebDatasetOptions options{
      .parts = {raw_bytes({"bytes", DType::kUint8, {50'000}}, {"bin"}), class_label("label")}};
  LEAT_MAKE_COLD(shard);
  const WebDataset data({shard}, options);
  ASSERT_EQ(data.size(), 2U);
  for (std::uint64_t sample = 0; sample < 2; ++sample) {
    ASSERT_TRUE(support::make_cold(shard));
    SampleBuffer out(data.fields());
    std::uint64_t before = support::fetched_bytes();
    EXPECT_GE(data.announce(sample, 0, 0), 50'000U + 2 * kTarBlock + 1);
    EXPECT_GE(support::fetched_bytes(), before + 50'000);
    before = support::fetched_bytes();
    data.read(sample, out);
    EXPECT_EQ(support::fetched_bytes(), before);
    EXPECT_EQ(out.as<std::int64_t>(1)[0], static_cast<std::int64_t>(7 + sample));
  }
  const WebDataset unopened({shard}, options);
  std::filesystem::remove(shard);
  EXPECT_EQ(unopened.announce(0, 0, 0), 0U);
}

TEST_F(Web, EverySampleIsWhatWasWritten) {
  const Paths shards = write_synthetic_web(directory_.path(), kSmall);
  ASSERT_EQ(shards.size(), 5U);
  const WebDataset data(
      shards,
      {.parts = {raw_bytes(kJson, {"json"}), class_label("label"), jpeg_image("image", kThumbnail),
                 raw_bytes({"jpeg", DType::kUint8, {20'000}, true}, {"jpg"})}});
  EXPECT_EQ(data.size(), 23U);
  EXPECT_EQ(data.skipped(), 0U);
  EXPECT_EQ(data.name(), "web dataset");
  EXPECT_EQ(data.blocking(), Blocking::kSeldom);
  ASSERT_EQ(data.fields().size(), 4U);
  EXPECT_EQ(data.fields()[2], (Field{"image", DType::kUint8, {32, 32, 3}}));
  for (std::uint64_t k = 0; k < data.size(); ++k) {
    const std::uint64_t i = (k * 7) % data.size();  // in another order than the shards'
    const SyntheticSample expected = synthetic_sample(kSmall, i);
    SampleBuffer sample(data.fields());
    data.read(i, sample);
    EXPECT_EQ(data.key(i), expected.key);
    EXPECT_EQ(data.length(i, 0), expected.json.size());
    EXPECT_EQ(data.length(i, 1), std::nullopt);
    EXPECT_EQ(data.length(i, 3), expected.jpeg.size());
    EXPECT_EQ(text(sample.bytes(0)), expected.json);
    EXPECT_EQ(sample.as<std::int64_t>(1)[0], expected.label);
    EXPECT_EQ(text(sample.bytes(3)), text(expected.jpeg));
    SampleBuffer image(data.fields().subspan(2, 1));
    JpegDecoder decoder;
    read_image(expected.jpeg, kThumbnail, decoder, image, 0);
    EXPECT_EQ(text(sample.bytes(2)), text(image.bytes(0)));
  }
}

TEST_F(Web, NamesAreSplitAsWebDatasetDoes) {
  const auto split = [](std::string_view path) -> std::pair<std::string, std::string> {
    const std::optional<WebName> name = split_web_name(path);
    if (!name) return {"none", "none"};
    return {std::string(name->key), name->extension};
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(split("0001.jpg"), Pair("0001", "jpg"));
  EXPECT_EQ(split("a.b/c/0001.SEG.Png"), Pair("a.b/c/0001", "seg.png"));
  EXPECT_EQ(split("./0001.jpg"), Pair("./0001", "jpg"));
  EXPECT_EQ(split("0001."), Pair("0001", ""));
  EXPECT_EQ(split("__x.jpg"), Pair("__x", "jpg"));
  EXPECT_EQ(split("a/__x__"), Pair("none", "none"));
  for (const char* const passed_over :
       {"README", "a.b/README", ".hidden", "a/.hidden", "a/._0001.jpg", "__meta__",
        "__meta__/0.jpg", "__0.jpg__", "____/0.jpg"}) {
    EXPECT_EQ(split(passed_over), Pair("none", "none")) << passed_over;
  }
}

TEST_F(Web, NeighboursOfOneKeyAreASample) {
  write(tar_header("a/", 0, '5') + tar_file("a/x.cls", "1") + tar_file("a/.DS_Store", "?") +
        tar_file("a/x.txt", "one") + tar_file("b/x.TXT", "two") + tar_file("b/x.cls", " 2\n") +
        tar_file("__index__/0.txt", "?") + tar_file("a/x.y.cls", "?") + tar_file("a/x.txt", "3") +
        tar_file("a/x.cls", "-3") + tar_end());
  const WebDataset data({path()},
                        {.parts = {class_label("label", {"cls", "CLASS"}),
                                   raw_bytes({"text", DType::kUint8, {9}, true}, {"txt"})}});
  ASSERT_EQ(data.size(), 3U);
  const std::vector<std::tuple<std::string, std::int64_t, std::string>> expected = {
      {"a/x", 1, "one"}, {"b/x", 2, "two"}, {"a/x", -3, "3"}};
  for (std::size_t i = 0; i < 3; ++i) {
    SampleBuffer sample(data.fields());
    data.read(i, sample);
    EXPECT_EQ(std::tuple(data.key(i), sample.as<std::int64_t>(0)[0], text(sample.bytes(1))),
              expected[i]);
  }
}

TEST_F(Web, BytesOfAFixedSizeAndInRows) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  Bytes bytes(24);
  std::memcpy(bytes.data(), values.data(), 24);
  write(tar_file("0.fixed", bytes) + tar_file("0.rows", first(bytes, 16)) + tar_end());
  const WebDataset data({path()},
                        {.parts = {raw_bytes({"fixed", DType::kFloat32, {2, 3}}, {"fixed"}),
                                   raw_bytes({"rows", DType::kFloat32, {3, 2}, true}, {"rows"})}});
  SampleBuffer sample(data.fields());
  data.read(0, sample);
  EXPECT_EQ(std::vector<float>(sample.as<float>(0).begin(), sample.as<float>(0).end()), values);
  EXPECT_EQ(data.length(0, 1), 2U);
  EXPECT_EQ(sample.as<float>(1).size(), 4U);
  EXPECT_EQ(sample.as<float>(1)[3], 4);
}

TEST_F(Web, RandomCropsAreAFunctionOfTheSamplesRandomNumbers) {
  const Paths shards = write_synthetic_web(directory_.path(), kSmall);
  const WebDataset data(
      shards,
      {.parts = {jpeg_image(
           "image", {.height = 16, .width = 16, .fit = Fit::kRandomResizedCrop, .mirror = 0.5})}});
  const auto read = [&](std::uint64_t epoch) {
    SampleBuffer sample(data.fields(), 1, epoch, 3);
    data.read(3, sample);
    return text(sample.bytes(0));
  };
  EXPECT_EQ(read(0), read(0));
  EXPECT_NE(read(0), read(1));
}

TEST_F(Web, AnySampleIsReadWhereFewFilesMayBeOpen) {
  const Paths shards = write_synthetic_web(directory_.path(), {.samples = 60,
                                                               .samples_per_shard = 1,
                                                               .min_width = 8,
                                                               .max_width = 8,
                                                               .min_height = 8,
                                                               .max_height = 8});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 40;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  // With 128, it keeps fewer open than it may, and leaves some to the rest of the program.
  for (const std::size_t open_files : {std::size_t{8}, WebDatasetOptions{}.open_files}) {
    const WebDataset data(shards, {.parts = {class_label("label")}, .open_files = open_files});
    for (std::uint64_t i = 0; i < 120; ++i) {
      SampleBuffer sample(data.fields());
      EXPECT_NO_THROW(data.read(i % 60, sample));
    }
    std::vector<std::unique_ptr<OpenFile>> others;
    EXPECT_NO_THROW({
      for (int i = 0; i < 8; ++i) others.push_back(std::make_unique<OpenFile>(shards[0]));
    });
    expect_contains(error_of([&] {
                      for (int i = 0; i < 40; ++i) {
                        others.push_back(std::make_unique<OpenFile>(shards[0]));
                      }
                    }),
                    {shards[0].string(), "Too many open files", "ulimit -n"});
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(Web, AMissingOrSecondPartIsToldWithItsSample) {
  const Bytes shard = tar_file("0.cls", "0") + tar_file("1.jpg", "?") + tar_file("2.cls", "2");
  expect_contains(error(shard, kLabels), {path().string(), "sample 1 (byte 1024)",
                                          "lacks part \"label\" (.cls): it has 1.jpg;"});
  expect_contains(
      error(tar_file("0.jpg", "a") + tar_file("0.JPEG", "b"), kImages),
      {"sample 0 (byte 1024) has a second file for part \"image\" (.jpg, .jpeg), 0.JPEG"});
  write(shard + tar_end());
  WebDatasetOptions options = kLabels;
  options.skip_incomplete = true;
  const WebDataset data({path()}, options);
  EXPECT_EQ(data.size(), 2U);
  EXPECT_EQ(data.skipped(), 1U);
  SampleBuffer sample(data.fields());
  data.read(1, sample);
  EXPECT_EQ(sample.as<std::int64_t>(0)[0], 2);
}

TEST_F(Web, ANameCannotBreakAMessagesLine) {
  expect_contains(error(tar_file("a\nb.txt", ""), kLabels), {"sample a?b (byte 0) lacks part"});
  expect_contains(read_error(tar_file("a\x1b[2J.cls", "x"), kLabels), {"cannot read a?[2J.cls of"});
}

TEST_F(Web, NoSamplesAreAnError) {
  WebDatasetOptions options = kLabels;
  options.skip_incomplete = true;
  expect_contains(error(tar_file("0.txt", ""), options),
                  {"no samples in " + path().string(), "1 lack a part", "lies in one shard"});
  options.accept_short_shards = true;
  expect_contains(error({}, options), {"no samples in " + path().string(), "0 lack a part"});
}

TEST_F(Web, SizesThatAreNotTheFieldsAreToldAtConstruction) {
  const auto raw = [](std::vector<std::int64_t> shape, bool variable) {
    return WebDatasetOptions{
        .parts = {raw_bytes({"x", DType::kInt32, std::move(shape), variable}, {"bin"})}};
  };
  const Bytes shard = tar_file("0.bin", Bytes(24));
  expect_contains(error(shard, raw({5}, false)),
                  {"sample 0", "24 bytes for field \"x\", in 0.bin; declared are 20"});
  expect_contains(error(shard, raw({5}, true)), {"declared are up to 20, in rows of 4"});
  expect_contains(error(shard, raw({9, 4}, true)), {"declared are up to 144, in rows of 16"});
}

TEST_F(Web, ABoolThatIsNeither0Nor1IsToldWithItsFileAndByte) {
  Bytes mask(4, 1);
  mask[2] = 255;
  write(tar_file("0.mask", Bytes(4)) + tar_file("1.mask", mask) + tar_end());
  const WebDataset data({path()}, {.parts = {raw_bytes({"m", DType::kBool, {2, 2}}, {"mask"})}});
  SampleBuffer sample(data.fields());
  data.read(0, sample);
  EXPECT_FALSE(sample.as<bool>(0)[3]);
  expect_contains(error_of([&] { data.read(1, sample); }),
                  {"cannot read 1.mask of " + path().string(), "(byte 1024)", "its byte 2 is 255",
                   "for field \"m\"", "a bool is 0 or 1"});
}

TEST_F(Web, TheFirstBadShardIsTold) {
  Paths shards;
  for (int i = 0; i < 20; ++i) {
    shards.push_back(directory_.write(
        "shard" + std::to_string(100 + i) + ".tar",
        i < 5 ? tar_file("0.cls", "0") + tar_end() : bytes_of("this is no tar archive")));
  }
  for (int i = 0; i < 20; ++i) {
    expect_contains(error_of([&] { const WebDataset data(shards, kLabels); }),
                    {"shard105.tar: it is no tar archive"});
  }
}

TEST_F(Web, ImagesThatCannotBeDecodedAreToldWithTheirPlace) {
  const Bytes before = tar_file("a/0.txt", "");
  expect_contains(
      read_error(before + tar_file("a/1.jpg", first(jpeg(), 500)),
                 {.parts = kImages.parts, .skip_incomplete = true}),
      {"cannot read a/1.jpg of " + path().string() + " (byte 512): Premature end of JPEG",
       " of 500; fetch"});
  expect_contains(read_error(tar_file("1.jpg", "GIF89a and more"), kImages),
                  {"cannot read 1.jpg of", "it is a GIF image; convert it"});
  expect_contains(read_error(tar_file("1.jpg", ""), kImages), {"it is empty, and a JPEG"});
  expect_contains(
      read_error(tar_file("1.jpg", jpeg(40, 30)),
                 {.parts = {jpeg_image("image", {.height = 40, .width = 30, .fit = Fit::kExact})}}),
      {"1.jpg of", "it is 30 x 40 pixels, declared are 40 x 30"});
}

TEST_F(Web, LabelsThatAreNoIntegersAreTold) {
  for (const std::string bad :
       {"", " ", "x", "1x", "1 2", "1.5", "99999999999999999999", "0x1", "+1"}) {
    expect_contains(read_error(tar_file("1.cls", bad), kLabels),
                    {"cannot read 1.cls of", "it is no integer: \"" + bad + "\""});
  }
  expect_contains(read_error(tar_file("1.cls", std::string(30, '\x01')), kLabels),
                  {"\"" + std::string(20, '.') + "...\""});
}

// Also where a sample's key alone is asked for; the rest of it: bad_input_test.cpp.
TEST_F(Web, AShardThatChangesIsNoticed) {
  write(tar_file("0.cls", "0") + tar_file("1.cls", "1") + tar_end());
  const WebDataset data({path()}, {.parts = kLabels.parts, .open_files = 0});
  directory_.rewrite("a.tar", tar_file("0.cls", "0") + tar_file("2.cls", "1") + tar_end());
  expect_contains(error_of([&] { static_cast<void>(data.key(1)); }), {"the shard has changed"});
}

TEST_F(Web, WrongCallsAreTold) {
  write(tar_file("0.cls", "0") + tar_end());
  const WebDataset data({path()}, {.parts = kLabels.parts, .name = "train"});
  expect_contains(error_of([&] { static_cast<void>(data.key(1)); }), {"train has no sample 1"});
  EXPECT_THROW(WebDataset(FilePatterns(std::vector<std::string>{}), kLabels), Error);
  EXPECT_THROW(WebDataset({path()}, {.parts = {}}), std::invalid_argument);
  EXPECT_THROW(WebDataset({path()}, {.parts = {class_label("x", {})}}), std::invalid_argument);
  EXPECT_THROW(raw_bytes({"x", DType::kUint8, {0}}, {"x"}), std::invalid_argument);
}

}  // namespace web_dataset_test
}  // namespace leat::feeder
