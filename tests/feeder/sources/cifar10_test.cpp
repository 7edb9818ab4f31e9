#include "leat/feeder/sources/cifar10.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <vector>

#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace cifar10_test {

namespace fs = std::filesystem;

constexpr std::size_t kPixels = 3072;

// A record whose pixels are all `pixel`, but for the first and the last one.
Bytes record(Bytes labels, std::uint8_t pixel) {
  Bytes pixels(kPixels, pixel);
  pixels.front() = 1;
  pixels.back() = 2;
  return std::move(labels) + pixels;
}

template <class T>
void expect_sample(const Dataset& data, std::uint64_t seed, std::uint64_t index) {
  SampleBuffer sample(data.fields());
  data.read(index, sample);
  const std::vector<std::byte> pixels = expected_bytes(seed, index, kPixels);
  EXPECT_TRUE(equal(sample.bytes(0), std::span<const std::byte>(pixels))) << index;
  EXPECT_EQ(sample.as<T>(1)[0], T(synthetic_label(seed, index, 10))) << index;
}

TEST(Cifar10, TrainingSetIsItsFiveBatches) {
  const TemporaryDirectory directory;
  write_cifar10(directory.path(), {.samples = 23, .seed = 3});
  const Cifar10 train(directory.path(), Cifar10::kTrain);
  ASSERT_EQ(train.size(), 23U);
  EXPECT_EQ(train.name(), "cifar-10 train");
  EXPECT_EQ(train.blocking(), Blocking::kSeldom);
  ASSERT_EQ(train.fields().size(), 2U);
  EXPECT_EQ(train.fields()[0], (Field{"image", DType::kUint8, {3, 32, 32}}));
  EXPECT_EQ(train.fields()[1], (Field{"label", DType::kUint8, {}}));
  for (std::uint64_t i = 0; i < 23; ++i) expect_sample<std::uint8_t>(train, 3, i);
}

TEST(Cifar10, LabelsMayBeOfWiderTypes) {
  const TemporaryDirectory directory;
  write_cifar10(directory.path(), {.samples = 20, .shards = 1, .seed = 4});
  const Cifar10 wide(directory.path(), {.label = DType::kInt64});
  EXPECT_EQ(wide.fields()[1], (Field{"label", DType::kInt64, {}}));
  EXPECT_EQ(wide.name(), "cifar-10 of " + directory.path().string());
  const Cifar10 medium(directory.path(), {.label = DType::kInt32});
  for (std::uint64_t i = 0; i < 20; ++i) {
    expect_sample<std::int64_t>(wide, 4, i);
    expect_sample<std::int32_t>(medium, 4, i);
  }
  EXPECT_THROW(Cifar10(directory.path(), {.label = DType::kFloat32}), std::invalid_argument);
}

TEST(Cifar10, TestSetIsOneFile) {
  const TemporaryDirectory directory;
  directory.write("test_batch.bin", record({9}, 5) + record({0}, 6));
  const Cifar10 test(directory.path(), Cifar10::kTest);
  ASSERT_EQ(test.size(), 2U);
  EXPECT_EQ(test.name(), "cifar-10 test");
  SampleBuffer sample(test.fields());
  test.read(0, sample);
  EXPECT_EQ(sample.as<std::uint8_t>(0)[0], 1);
  EXPECT_EQ(sample.as<std::uint8_t>(0)[1], 5);
  EXPECT_EQ(sample.as<std::uint8_t>(0)[kPixels - 1], 2);
  EXPECT_EQ(sample.as<std::uint8_t>(1)[0], 9);
}

TEST(Cifar100, HasAFineAndACoarseLabel) {
  const TemporaryDirectory directory;
  directory.write("train.bin", record({19, 99}, 5) + record({3, 42}, 6));
  directory.write("test.bin", record({1, 2}, 7));
  const Cifar100 train(directory.path(), Cifar100::kTrain, {.label = DType::kInt64});
  ASSERT_EQ(train.size(), 2U);
  EXPECT_EQ(train.name(), "cifar-100 train");
  ASSERT_EQ(train.fields().size(), 3U);
  EXPECT_EQ(train.fields()[1].name, "label");
  EXPECT_EQ(train.fields()[2], (Field{"coarse_label", DType::kInt64, {}}));
  SampleBuffer sample(train.fields());
  train.read(0, sample);
  EXPECT_EQ(sample.as<std::uint8_t>(0)[1], 5);
  EXPECT_EQ(sample.as<std::int64_t>(1)[0], 99);
  EXPECT_EQ(sample.as<std::int64_t>(2)[0], 19);
  EXPECT_EQ(Cifar100(directory.path(), Cifar100::kTest).size(), 1U);
  EXPECT_EQ(Cifar100((directory.path() / "t*.bin").string()).size(), 3U);
}

TEST(Cifar10, MissingFileIsNamed) {
  const TemporaryDirectory directory;
  const std::vector<fs::path> files = write_cifar10(directory.path(), {.samples = 10});
  fs::remove(files[3]);
  expect_contains(error_of([&] { const Cifar10 data(directory.path(), Cifar10::kTrain); }),
                  {files[3].string(), "data_batch_4.bin", "No such file or directory"});
  expect_contains(error_of([&] { const Cifar10 data(directory.path(), Cifar10::kTest); }),
                  {"test_batch.bin", "No such file or directory"});
}

TEST(Cifar10, LabelThatIsNoneIsToldWithItsPlace) {
  const TemporaryDirectory directory;
  const fs::path file = directory.write("test_batch.bin", record({9}, 1) + record({10}, 1));
  const Cifar10 data(directory.path(), Cifar10::kTest);
  SampleBuffer sample(data.fields());
  data.read(0, sample);
  expect_contains(error_of([&] { data.read(1, sample); }),
                  {"label 10 of sample 1 in " + file.string() + " (byte 3073) is above 9"});

  const fs::path other = directory.write("test.bin", record({0, 100}, 1) + record({20, 0}, 1));
  const Cifar100 hundred(directory.path(), Cifar100::kTest);
  SampleBuffer wide(hundred.fields());
  expect_contains(error_of([&] { hundred.read(0, wide); }),
                  {"label 100 of sample 0 in " + other.string() + " (byte 1) is above 99"});
  expect_contains(error_of([&] { hundred.read(1, wide); }),
                  {"coarse_label 20 of sample 1", "(byte 3074) is above 19"});
}

}  // namespace cifar10_test
}  // namespace leat::feeder
