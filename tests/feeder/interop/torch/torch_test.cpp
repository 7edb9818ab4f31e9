// feeder/interop/torch.h: that nothing is copied, and when the batch goes back.
#include "leat/feeder/interop/torch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"
#include "tests/support/places.h"
#include "tests/support/plain_threads.h"

namespace leat::feeder {
namespace torch_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::kPlaces;
using support::Numbers;
using support::place_title;

class TorchTest : public support::PlaceTest {};
INSTANTIATE_TEST_SUITE_P(Places, TorchTest, testing::ValuesIn(kPlaces), place_title);

TorchBatch next_of(Prefetcher& feed) { return TorchBatch(feed.next().value()); }

std::vector<std::uint64_t> samples_in(const torch::Tensor& number) {
  const auto* const first = number.data_ptr<std::int64_t>();
  return {first, first + number.size(0)};
}

TEST_P(TorchTest, ATensorIsTheBatchsOwnMemory) {
  in_place([] {
    const Numbers data({.size = 10});
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
    for (Lease& lease : feed.epoch(0)) {
      const auto want = expected_samples(data, {.batch_size = 4}, lease);
      void* const memory = lease["pattern"].raw();
      const TorchBatch batch(std::move(lease));
      const torch::Tensor pattern = batch["pattern"];
      EXPECT_EQ(pattern.data_ptr(), memory);
      EXPECT_EQ(pattern.scalar_type(), torch::kUInt8);
      EXPECT_EQ(pattern.sizes(),
                (std::vector<std::int64_t>{static_cast<std::int64_t>(want.size()), 24}));
      EXPECT_TRUE(pattern.is_contiguous());
      EXPECT_TRUE(pattern.device().is_cpu());
      EXPECT_EQ(samples_in(batch["number"]), want);
      const std::vector<torch::Tensor> all = batch.tensors();
      ASSERT_EQ(all.size(), 2U);
      EXPECT_EQ(all[1].data_ptr(), memory);
      EXPECT_EQ(batch.lease().size(), want.size());
    }
    EXPECT_EQ(feed.stats().batches, 3U);
  });
}

TEST_P(TorchTest, TheBatchGoesWithTheLastTensorAlsoAViewOrAGraphsInput) {
  in_place([] {
    const Numbers data({.size = 64});
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
    torch::Tensor view;
    {
      const TorchBatch batch = next_of(feed);
      view = batch["pattern"].slice(1, 2, 4);
    }
    EXPECT_EQ(feed.stats().batches, 0U);
    EXPECT_THROW(static_cast<void>(feed.next()), std::logic_error);
    view.reset();
    EXPECT_EQ(feed.stats().batches, 1U);

    torch::Tensor loss;
    {
      const torch::Tensor weight = torch::ones({4}, torch::kFloat64).requires_grad_();
      const TorchBatch batch = next_of(feed);
      loss = (batch["number"] * weight).sum();
    }
    EXPECT_EQ(feed.stats().batches, 1U) << "backward() needs it";
    loss.backward();  // and frees the graph
    EXPECT_EQ(feed.stats().batches, 2U);
    EXPECT_EQ(State::parse(feed.state()).epochs.at(0).batches.count(), 2U);
  });
}

TEST_P(TorchTest, ATensorMayOutliveThePrefetcherAndGoOnAnotherThread) {
  in_place([] {
    const Numbers data({.size = 64});
    torch::Tensor number;
    {
      Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
      number = next_of(feed)["number"];
    }
    EXPECT_EQ(samples_in(number), expected_samples(data, {.batch_size = 4}, 0, 0));
    support::on_plain_threads(1, [&number](int) { number.reset(); });
  });
}

TEST_P(TorchTest, ATensorThatAnExceptionDestroysAbandonsItsBatch) {
  in_place([] {
    const Numbers data({.size = 64});
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
    const auto step = [&] {
      const TorchBatch batch = next_of(feed);
      const torch::Tensor number = batch["number"];
      throw std::domain_error("loss is not a number");
    };
    EXPECT_THROW(step(), std::domain_error);
    const State state = State::parse(feed.state());
    EXPECT_TRUE(state.epochs.empty() || state.epochs[0].batches.count() == 0) << feed.state();
  });
}

TEST_P(TorchTest, AnEmptyBatchHasEmptyTensors) {
  in_place([] {
    const Numbers data({.size = 1});
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 2, .rank = 1, .world_size = 2});
    {
      const torch::Tensor pattern = next_of(feed)["pattern"];
      EXPECT_EQ(pattern.sizes(), (std::vector<std::int64_t>{0, 24}));
    }
    EXPECT_EQ(feed.stats().batches, 1U);
  });
}

TEST_P(TorchTest, MisuseIsRefused) {
  in_place([] {
    const Numbers data({.size = 64});
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 4});
    Lease lease = feed.next().value();
    const gpu::Stream foreign(gpu::open("host:1"));
    {
      const TorchBatch batch(std::move(lease));
      EXPECT_THROW(static_cast<void>(batch["image"]), std::out_of_range);
      EXPECT_THROW(static_cast<void>(batch.on(foreign)), std::invalid_argument);
    }
    EXPECT_THROW(const TorchBatch none(std::move(lease)), std::logic_error);  // NOLINT: it is empty
    EXPECT_THROW(static_cast<void>(torch_stream(gpu::open("host"))), std::logic_error);
    EXPECT_TRUE(feed.next().has_value());
  });
}

TEST(TorchTypes, AreThoseOfTheSameSizeAndKind) {
  for (const DType dtype :
       {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8, DType::kFloat16,
        DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kBool}) {
    EXPECT_EQ(torch::elementSize(torch_type(dtype)), size_of(dtype)) << to_string(dtype);
  }
  EXPECT_EQ(torch_type(DType::kBFloat16), torch::kBFloat16);
#if TORCH_VERSION_MAJOR < 2
  EXPECT_THROW(static_cast<void>(torch_type(DType::kUint16)), std::invalid_argument);
#endif
}

// Torch's kernels on the CPU read at once, whatever stream of the host device is bound.
TEST(TorchInVirtualTime, ABatchIsThereWhenItIsMade) {
  VirtualClock clock;
  const auto body = [] {
    const Numbers data({.size = 8, .pattern_bytes = 992});  // 1000 bytes a sample
    const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, {.batch_size = 4, .max_leases = 2});
    const TorchBatch unbound = next_of(feed);
    EXPECT_EQ(now().time_since_epoch(), 4us);
    EXPECT_EQ(samples_in(unbound["number"]), expected_samples(data, {.batch_size = 4}, 0, 0));
    const TorchBatch bound(feed.next().value(), stream);
    EXPECT_EQ(now().time_since_epoch(), 8us);
    EXPECT_EQ(samples_in(bound["number"]), expected_samples(data, {.batch_size = 4}, 0, 1));
  };
  run(body, {.workers = 1, .clock = &clock});
}

}  // namespace torch_test
}  // namespace leat::feeder
