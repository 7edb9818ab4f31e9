// Device transforms: what they are given, what the consumer gets, and that nothing is overwritten
// that a transform still reads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/function.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace device_transform_test {

using namespace std::chrono_literals;
using support::in_virtual_time;
using support::kPlaces;
using support::Numbers;
using support::place_title;

class DeviceTransforms : public PrefetcherTest {
 protected:
  // The numbers as floats, half of them, under their own name; "pattern" stays.
  static DeviceTransform halves(Duration length = 0ns) {
    return {.fields = {{"number", DType::kFloat32, {}}},
            .function = [length](const TensorSet& in, const TensorSet& out,
                                 const gpu::StreamRef& stream) {
              stream.launch_host([from = in["number"].data<std::int64_t>(),
                                  to = out["number"].data<float>(), rows = in.rows(), length] {
                if (length > 0ns) sleep_for(length);
                for (std::size_t i = 0; i < rows; ++i) {
                  to[i] = static_cast<float>(from[i]) / 2;
                }
              });
            }};
  }
};
INSTANTIATE_TEST_SUITE_P(Places, DeviceTransforms, testing::ValuesIn(kPlaces), place_title);

TEST_P(DeviceTransforms, TheConsumerGetsWhatIsWrittenAndTheRestAsCopied) {
  in_place([] {
    for (const std::size_t depth : {1U, 2U}) {
      NumbersFeed feed(
          {.size = 43, .on_read = uneven_reads()},
          {.batch_size = 4, .prefetch_depth = depth, .workers = 2, .device_transform = halves()});
      for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
        for (Lease& batch : feed.epoch(epoch, feed.stream)) {
          const auto want = feed.want(batch);
          const Tensor number = batch["number"];
          EXPECT_EQ(number.dtype(), DType::kFloat32);
          EXPECT_EQ(number.shape()[0], static_cast<std::int64_t>(want.size()));
          EXPECT_EQ(batch["pattern"].bytes(), want.size() * 24);
          EXPECT_THROW(static_cast<void>(number.data<std::int64_t>()), std::invalid_argument);
          feed.stream.launch_host([halves = number.data<float>(), want] {
            for (std::size_t i = 0; i < want.size(); ++i) {
              EXPECT_EQ(halves[i], static_cast<float>(want[i]) / 2);
            }
          });
        }
      }
      feed.stream.sync();
    }
  });
}

TEST_P(DeviceTransforms, WhatOneThrowsEndsThePrefetcher) {
  in_place([] {
    const Numbers data({.size = 64});
    std::atomic<int> calls{0};
    Prefetcher feed(data, gpu::open("host"),
                    {.batch_size = 4,
                     .device_transform = {.fields = {{"number", DType::kFloat32, {}}},
                                          .function = [&](const TensorSet&, const TensorSet&,
                                                          const gpu::StreamRef&) {
                                            if (++calls == 3) {
                                              throw std::range_error("no such kernel");
                                            }
                                          }}});
    EXPECT_TRUE(feed.next().has_value());
    EXPECT_TRUE(feed.next().has_value());
    EXPECT_THROW(static_cast<void>(feed.next()), std::range_error);
  });
}

// A batch that is thrown away, because its loop was left, was never bound to a stream: nothing but
// its transform has read it, and that may still be running when the next one is copied.
TEST(DeviceTransformsExact, ABatchThatNobodyLeasesIsNotOverwrittenUnderItsTransform) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    in_virtual_time({.workers = 1, .seed = seed}, [&] {
      std::mt19937_64 random(seed);
      std::mt19937_64 random_length(~seed);  // the copier's
      const Numbers data({.size = 64});
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      const gpu::Stream stream(device);
      const DeviceTransform check = {
          .fields = {{"sum", DType::kInt64, {}}},
          .function = [&](const TensorSet& in, const TensorSet& out, const gpu::StreamRef& on) {
            const auto length = Duration(random_length() % 2'000);
            on.launch_host([from = in["number"].data<std::int64_t>(),
                            to = out["sum"].data<std::int64_t>(), rows = in.rows(), length] {
              const std::vector<std::int64_t> before(from, from + rows);
              sleep_for(length);
              EXPECT_EQ(std::vector<std::int64_t>(from, from + rows), before)
                  << "overwritten under the transform";
              for (std::size_t i = 0; i < rows; ++i) to[i] = before[i];
            });
          }};
      const PrefetcherOptions options = {.batch_size = 4,
                                         .prefetch_depth = 1 + random() % 3,
                                         .workers = 2,
                                         .device_transform = check};
      Prefetcher feed(data, device, options);
      for (std::uint64_t pass = 0; pass < 6; ++pass) {
        const std::uint64_t leave_at = random() % 16;
        for (Lease& batch : feed.epoch(pass * 7 % 3, stream)) {
          const auto want = support::expected_samples(data, options, batch);
          stream.launch_host([sum = batch["sum"].data<std::int64_t>(), want] {
            for (std::size_t i = 0; i < want.size(); ++i) {
              EXPECT_EQ(sum[i], static_cast<std::int64_t>(want[i]));
            }
          });
          if (batch.index() == leave_at) break;
        }
        sleep_for(Duration(random() % 3'000));
      }
      stream.sync();
    });
    if (testing::Test::HasFailure()) return;
  }
}

// The transforms' stream runs beside the copies': the next batch is copied while this one is
// transformed.
TEST(DeviceTransformsExact, RunBesideTheNextCopy) {
  in_virtual_time([] {
    const Numbers data({.size = 4 * 20, .pattern_bytes = 92});  // Tx 400 ns
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    const DeviceTransform slow = {
        .fields = {{"out", DType::kUint8, {}}},
        .function = [](const TensorSet&, const TensorSet&, const gpu::StreamRef& on) {
          on.launch_host([] {}, 300ns);
        }};
    Prefetcher feed(data, device, {.batch_size = 4, .prefetch_depth = 3, .device_transform = slow});
    for (const Lease& batch : feed.epoch(0, stream)) static_cast<void>(batch);
    stream.sync();
    EXPECT_EQ(now().time_since_epoch(), 20 * 400ns + 300ns);
  });
}

// Tensors of variable length.

// Sample i has i * 7 % 11 rows of two; but sample `too_long` claims 12.
FunctionDataset ragged(std::uint64_t too_long = ~std::uint64_t{0}) {
  return {"ragged",
          {{.name = "tokens", .dtype = DType::kInt16, .shape = {11, 2}, .variable_length = true},
           {.name = "label", .dtype = DType::kUint8, .shape = {}}},
          50,
          [too_long](std::uint64_t index, Sample& out) {
            const std::size_t length = index == too_long ? 12 : index * 7 % 11;
            out.set_length(0, length);
            std::iota(out.as<std::int16_t>(0).begin(),
                      out.as<std::int16_t>(0).begin() + static_cast<std::ptrdiff_t>(2 * length),
                      static_cast<std::int16_t>(index + 1));
            out.as<std::uint8_t>(1)[0] = static_cast<std::uint8_t>(index);
          }};
}

class VariableLength : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, VariableLength, testing::ValuesIn(kPlaces), place_title);

TEST_P(VariableLength, SamplesArePaddedWithZerosAndTheirLengthsDelivered) {
  in_place([] {
    const FunctionDataset data = ragged();
    const PrefetcherOptions options = {.batch_size = 8, .workers = 2, .seed = 3};
    Prefetcher feed(data, gpu::open("host"), options);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      for (Lease& batch : feed.epoch(epoch)) {
        const auto want = support::expected_samples(data, options, batch);
        const Tensor tokens = batch["tokens"];
        const Tensor lengths = batch["tokens.length"];
        EXPECT_EQ(std::vector(tokens.shape().begin(), tokens.shape().end()),
                  (std::vector<std::int64_t>{static_cast<std::int64_t>(want.size()), 11, 2}));
        EXPECT_EQ(lengths.dtype(), DType::kInt32);
        ASSERT_EQ(lengths.bytes(), want.size() * 4);
        for (std::size_t i = 0; i < want.size(); ++i) {
          const std::size_t length = want[i] * 7 % 11;
          EXPECT_EQ(lengths.data<std::int32_t>()[i], static_cast<std::int32_t>(length));
          EXPECT_EQ(batch["label"].data<std::uint8_t>()[i], want[i]);
          for (std::size_t j = 0; j < 22; ++j) {
            const std::size_t token = j < 2 * length ? want[i] + j + 1 : 0;
            EXPECT_EQ(tokens.data<std::int16_t>()[22 * i + j], static_cast<std::int16_t>(token));
          }
        }
      }
    }
  });
}

TEST_P(VariableLength, ASampleThatIsLongerThanDeclaredIsAnErrorThatSaysSo) {
  in_place([] {
    const FunctionDataset data = ragged(9);
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 8, .order = Order::kSequential});
    EXPECT_TRUE(feed.next().has_value());
    expect_throws<Error>([&] { static_cast<void>(feed.next()); },
                         {"sample 9", "\"tokens\" of length 12", "the 11 there is room for"});
  });
}

}  // namespace device_transform_test
}  // namespace leat::feeder
