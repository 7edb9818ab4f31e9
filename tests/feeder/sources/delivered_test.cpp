// From files through a prefetcher: every batch holds what was written, and a file that is cut off
// meanwhile ends the epoch with an error that names it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "leat/feeder/map.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/cifar10.h"
#include "leat/feeder/sources/token_shards.h"
#include "leat/gpu/device.h"
#include "tests/feeder/sources/synthetic_files.h"

namespace leat::feeder {
namespace delivered_test {

TEST(Delivered, TokensAreThoseThatWereWritten) {
  const TemporaryDirectory directory;
  write_tokens(directory.path(), {.tokens = 3 * 641, .shards = 3, .seed = 5});
  const TokenShards text(directory.path(), {.sequence_length = 64, .dtype = DType::kUint32});
  ASSERT_EQ(text.size(), 30U);
  Prefetcher feed(text, gpu::open("host"),
                  {.batch_size = 7, .workers = 2, .order = Order::kSequential});
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    std::uint64_t sample = 0;
    for (Lease& batch : feed.epoch(epoch)) {
      const auto* const x = batch["x"].data<std::uint32_t>();
      const auto* const y = batch["y"].data<std::uint32_t>();
      for (std::size_t s = 0; s < batch.size(); ++s, ++sample) {
        for (std::size_t i = 0; i < 64; ++i) {
          const std::uint64_t p = sample % 10 * 64 + i;
          ASSERT_EQ(x[s * 64 + i], synthetic_token(5, sample / 10, p, 50'257)) << sample;
          ASSERT_EQ(y[s * 64 + i], synthetic_token(5, sample / 10, p + 1, 50'257)) << sample;
        }
      }
    }
    EXPECT_EQ(sample, 30U);
  }
}

TEST(Delivered, MappedImagesAreThoseThatWereWritten) {
  const TemporaryDirectory directory;
  write_cifar10(directory.path(), {.samples = 25, .seed = 5});
  const Cifar10 images(directory.path(), Cifar10::kTrain, {.label = DType::kInt64});
  const Map floats(images, {{"image", DType::kFloat32, {3, 32, 32}}, {"label", DType::kInt64, {}}},
                   [](const SampleView& in, Sample& out) {
                     std::transform(in.as<std::uint8_t>(0).begin(), in.as<std::uint8_t>(0).end(),
                                    out.as<float>(0).begin(),
                                    [](std::uint8_t v) { return float(v); });
                     out.as<std::int64_t>(1)[0] = in.as<std::int64_t>(1)[0];
                   });
  Prefetcher feed(floats, gpu::open("host"), {.batch_size = 4, .order = Order::kSequential});
  std::uint64_t sample = 0;
  for (Lease& batch : feed.epoch(0)) {
    const auto* const pixels = batch["image"].data<float>();
    const auto* const labels = batch["label"].data<std::int64_t>();
    for (std::size_t s = 0; s < batch.size(); ++s, ++sample) {
      EXPECT_EQ(labels[s], synthetic_label(5, sample, 10));
      const std::vector<std::byte> expected = expected_bytes(5, sample, 3072);
      for (std::size_t i = 0; i < 3072; ++i) {
        ASSERT_EQ(pixels[s * 3072 + i], float(std::to_integer<int>(expected[i]))) << sample;
      }
    }
  }
  EXPECT_EQ(sample, 25U);
}

TEST(Delivered, AFileThatIsCutOffEndsTheEpochWithItsName) {
  const TemporaryDirectory directory;
  const std::vector<std::filesystem::path> files =
      write_cifar10(directory.path(), {.samples = 500});
  const Cifar10 images(directory.path(), Cifar10::kTrain);
  Prefetcher feed(images, gpu::open("host"), {.batch_size = 10, .order = Order::kSequential});
  ASSERT_TRUE(feed.next());
  std::filesystem::resize_file(files[4], 0);
  std::uint64_t batches = 1;
  const std::string text = error_of([&] {
    while (feed.next()) ++batches;
  });
  expect_contains(text, {"sample 40", "cifar-10 train", files[4].string(), "cut off"});
  EXPECT_EQ(batches, 40U) << "what came before it is delivered";
}

}  // namespace delivered_test
}  // namespace leat::feeder
