// The numbers of the real data were computed once with Python's gzip module, without Leat.
#include "leat/feeder/sources/mnist.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "tests/feeder/sources/idx_files.h"

namespace leat::feeder {
namespace mnist_test {

constexpr const char* kRealData = "examples/data/mnist";  // tests run in the root of the tree

struct Read {
  std::vector<std::uint8_t> image;
  std::uint8_t label = 0;
};

Read read(const Mnist& data, std::uint64_t index) {
  SampleBuffer sample(data.fields());
  data.read(index, sample);
  const std::span<const std::uint8_t> image = sample.as<std::uint8_t>(0);
  return {{image.begin(), image.end()}, sample.as<std::uint8_t>(1)[0]};
}

std::uint64_t sum(std::span<const std::uint8_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

std::uint64_t ink(const Mnist& data, std::uint64_t index) {
  std::uint64_t total = 0;
  for (const std::uint8_t pixel : read(data, index).image) total += pixel;
  return total;
}

std::array<int, Mnist::kClasses> histogram(const Mnist& data) {
  std::array<int, Mnist::kClasses> counts{};
  for (const std::uint8_t label : data.labels()) ++counts[label];
  return counts;
}

TEST(Mnist, TrainingSetIsWhatItIsKnownToBe) {
  const Mnist train(kRealData, Mnist::kTrain);
  EXPECT_EQ(train.name(), "mnist train");
  ASSERT_EQ(train.size(), 60000U);
  EXPECT_EQ(train.rows(), 28U);
  EXPECT_EQ(train.columns(), 28U);
  ASSERT_EQ(train.images().size(), 60000U * 784);
  ASSERT_EQ(train.labels().size(), 60000U);
  const std::array<std::uint8_t, 8> first = {5, 0, 4, 1, 9, 2, 1, 3};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(train.labels()[i], first[i]) << i;
  EXPECT_EQ(train.labels().back(), 8);
  EXPECT_EQ(sum(train.images()), 1567298545U);
  EXPECT_EQ(ink(train, 0), 27525U);
  EXPECT_EQ(ink(train, 1), 31095U);
  EXPECT_EQ(ink(train, 2), 19443U);
  EXPECT_EQ(ink(train, 59999), 20920U);
  EXPECT_EQ(histogram(train),
            (std::array<int, 10>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}));
}

TEST(Mnist, TestSetIsWhatItIsKnownToBe) {
  const Mnist test(kRealData, Mnist::kTest);
  EXPECT_EQ(test.name(), "mnist test");
  ASSERT_EQ(test.size(), 10000U);
  const std::array<std::uint8_t, 8> first = {7, 2, 1, 0, 4, 1, 4, 9};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(test.labels()[i], first[i]) << i;
  EXPECT_EQ(test.labels().back(), 6);
  EXPECT_EQ(sum(test.images()), 264923200U);
  EXPECT_EQ(ink(test, 0), 18454U);
  EXPECT_EQ(ink(test, 9999), 41833U);
  EXPECT_EQ(histogram(test),
            (std::array<int, 10>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}));
}

// Two samples of 2 x 3 pixels, and what is wrong with them.
class MnistFiles : public ::testing::Test {
 protected:
  const std::filesystem::path& path() const { return directory_.path(); }
  std::string images_name() const { return (path() / "t10k-images-idx3-ubyte").string(); }
  std::string labels_name() const { return (path() / "t10k-labels-idx1-ubyte").string(); }
  void write_images(const Bytes& bytes) { directory_.write("t10k-images-idx3-ubyte", bytes); }
  void write_labels(const Bytes& bytes) { directory_.write("t10k-labels-idx1-ubyte", bytes); }
  std::string error() const {
    return error_of([&] { const Mnist data(path(), Mnist::kTest); });
  }

  const Bytes images_ = idx_header({2, 2, 3}) + Bytes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255};
  const Bytes labels_ = idx_header({2}) + Bytes{9, 0};
  TemporaryDirectory directory_;
};

TEST_F(MnistFiles, ShapeAndSamplesAreTheFiles) {
  write_images(images_);
  write_labels(labels_);
  const Mnist data(path(), Mnist::kTest);
  EXPECT_EQ(data.size(), 2U);
  ASSERT_EQ(data.fields().size(), 2U);
  EXPECT_EQ(data.fields()[0].name, "image");
  EXPECT_EQ(data.fields()[0].dtype, DType::kUint8);
  EXPECT_EQ(data.fields()[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(data.fields()[1].name, "label");
  EXPECT_EQ(data.fields()[1].dtype, DType::kUint8);
  EXPECT_TRUE(data.fields()[1].shape.empty());
  EXPECT_EQ(data.rows(), 2U);
  EXPECT_EQ(data.columns(), 3U);
  EXPECT_EQ(read(data, 0).label, 9U);
  EXPECT_EQ(read(data, 1).image, (Bytes{6, 7, 8, 9, 10, 255}));
  EXPECT_EQ(read(data, 1).label, 0U);
}

TEST_F(MnistFiles, CompressedAndPlainMayBeMixedAndPlainGoesFirst) {
  directory_.write("t10k-images-idx3-ubyte.gz", gzip(images_));
  write_labels(labels_);
  directory_.write("t10k-labels-idx1-ubyte.gz", Bytes{1, 2, 3});  // not looked at
  const Mnist data(path(), Mnist::kTest);
  EXPECT_EQ(data.images().back(), 255);
  EXPECT_EQ(data.labels().front(), 9);
}

TEST_F(MnistFiles, MissingDirectoryIsNamedWithTheFilesExpected) {
  const std::string missing = (path() / "no" / "such").string();
  expect_contains(error_of([&] { const Mnist data(missing, Mnist::kTrain); }),
                  {"no MNIST in " + missing, "there is no such directory",
                   "{train,t10k}-images-idx3-ubyte[.gz]", "{train,t10k}-labels-idx1-ubyte[.gz]"});
  write_labels(labels_);
  expect_contains(error_of([&] { const Mnist data(labels_name(), Mnist::kTrain); }),
                  {"no MNIST in " + labels_name(), "that is no directory"});
}

TEST_F(MnistFiles, MissingFilesAreNamed) {
  expect_contains(error(), {"no MNIST in " + path().string(),
                            "neither t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte.gz"});
  write_images(images_);
  expect_contains(error(), {"neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz"});
  expect_contains(error_of([&] { const Mnist data(path(), Mnist::kTrain); }),
                  {"neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"});
}

// What was cut into several files is the same dataset.
TEST_F(MnistFiles, ShardsFollowEachOther) {
  directory_.write("images_1", gzip(idx_header({1, 2, 3}) + Bytes{6, 7, 8, 9, 10, 255}));
  directory_.write("images_0", images_);
  directory_.write("labels_0", labels_);
  directory_.write("labels_1", idx_header({1}) + Bytes{3});
  const std::string folder = path().string();
  const Mnist data(folder + "/images_{0..1}");
  EXPECT_EQ(data.name(), "mnist of " + folder + "/images_{0..1}");
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(read(data, 1).label, 0U);
  EXPECT_EQ(read(data, 2).label, 3U);
  EXPECT_EQ(read(data, 2).image, (Bytes{6, 7, 8, 9, 10, 255}));
  EXPECT_EQ(data.images().size(), 18U);
  const Mnist one(folder + "/images_1");
  EXPECT_EQ(read(one, 0).label, 3U);

  const auto error_of_shards = [&] {
    return error_of([&] { const Mnist all(folder + "/images_*"); });
  };
  directory_.write("labels_1", idx_header({1}) + Bytes{10});
  expect_contains(error_of_shards(), {"label 10 of sample 2 in " + folder + "/labels_1 (byte 8"});
  directory_.write("labels_1", idx_header({2}) + Bytes{3, 4});
  expect_contains(error_of_shards(), {"images_1 holds 1 images", "labels_1 2 labels"});
  directory_.write("labels_1", idx_header({1}) + Bytes{3});
  directory_.write("images_1", idx_header({1, 3, 2}) + Bytes{6, 7, 8, 9, 10, 255});
  expect_contains(error_of_shards(), {"images_1 holds images of 3 x 2 (byte 8", "before 2 x 3"});
  directory_.write("images_1", idx_header({1, 2, 3}) + Bytes{6, 7, 8, 9, 10, 255});
  directory_.write("images_2", images_);
  expect_contains(error_of_shards(), {folder + "/labels_2", "No such file"});
  expect_contains(error_of([&] { const Mnist none(folder + "/no_*"); }), {folder + "/no_*"});
  expect_contains(error_of([&] { const Mnist all(folder + "/labels_*"); }),
                  {folder + "/labels_0 has no \"images\" in its name"});
  EXPECT_THROW(Mnist{FilePatterns(folder)}, std::invalid_argument) << "a forgotten split";

  // As MNIST's own are called; and whatever order the names have.
  directory_.write("images-10-images-idx3-ubyte", images_);
  directory_.write("images-10-labels-idx1-ubyte", labels_);
  directory_.write("images-9-images-idx3-ubyte", idx_header({1, 2, 3}) + Bytes(6, 1));
  directory_.write("images-9-labels-idx1-ubyte", idx_header({1}) + Bytes{7});
  const Mnist named(folder + "/images-*-images-idx3-ubyte");
  ASSERT_EQ(named.size(), 3U);
  EXPECT_EQ(read(named, 2).image[0], 1U);
  EXPECT_EQ(read(named, 2).label, 7U);
}

// Each of two files fits into memory, but not both of them one behind the other.
TEST_F(MnistFiles, AShardWithoutMemoryForItIsNamed) {
#if defined(LEAT_ASAN) || defined(LEAT_TSAN)
  GTEST_SKIP() << "a sanitizer needs more address space than this test leaves";
#endif
  constexpr std::size_t kSize = 33 << 20;  // from 32 MiB on, malloc maps and unmaps each block
  for (const std::string number : {"0", "1"}) {
    const auto images = directory_.write("images_" + number, idx_header({33, 1024, 1024}));
    std::filesystem::resize_file(images, 16 + kSize);
    directory_.write("labels_" + number, idx_header({33}) + Bytes(33, 1));
  }
  // Needed at last: both files, and their pixels once more, in one block.
  expect_contains(
      error_without_memory(3 * kSize, [&] { const Mnist all(path().string() + "/images_{0..1}"); }),
      {"cannot read " + (path() / "images_1").string() +
       ": there is no memory for its images behind those of the files before; take"});
}

// A regression: whether the pattern itself is a folder was asked by a call that throws.
TEST(Mnist, APatternLongerThanAnyNameIsNoFolder) {
  expect_contains(error_of([] { const Mnist all("{" + std::string(300, 'x') + ",y}-images"); }),
                  {"no files from", "File name too long"});
}

TEST_F(MnistFiles, DifferentCountsAreToldWithBothFiles) {
  write_images(images_);
  write_labels(idx_header({3}) + Bytes{1, 2, 3});
  expect_contains(error(), {images_name() + " holds 2 images", labels_name() + " 3 labels"});
}

TEST_F(MnistFiles, LabelAboveNineIsToldWithItsPlace) {
  write_images(images_);
  write_labels(idx_header({2}) + Bytes{9, 10});
  expect_contains(error(), {"label 10 of sample 1 in " + labels_name(), "byte 9", "above 9"});
}

TEST_F(MnistFiles, EmptyImagesAreRefused) {
  write_images(idx_header({2, 0, 3}));
  write_labels(labels_);
  expect_contains(error(), {images_name(), "holds no pixels: 2 images of 0 x 3"});
  write_images(idx_header({0, 28, 28}));
  write_labels(idx_header({0}));
  expect_contains(error(), {images_name(), "holds no pixels: 0 images of 28 x 28"});
}

}  // namespace mnist_test
}  // namespace leat::feeder
