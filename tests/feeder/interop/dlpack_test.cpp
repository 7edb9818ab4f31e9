// DLPack: what a consumer is given, and when the batch goes back.
#include "leat/feeder/interop/dlpack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif

#include "leat/csp/scheduler.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/feeder/prefetcher_fixture.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat::feeder::dlpack {
namespace dlpack_test {

using namespace std::chrono_literals;
using support::expected_samples;
using support::in_virtual_time;
using support::kPlaces;
using support::Numbers;
using support::place_title;

class DlpackTest : public PrefetcherTest {};
INSTANTIATE_TEST_SUITE_P(Places, DlpackTest, testing::ValuesIn(kPlaces), place_title);

std::shared_ptr<Lease> next_of(Prefetcher& feed) {
  std::optional<Lease> batch = feed.next();
  return std::make_shared<Lease>(std::move(batch.value()));
}

std::vector<std::uint64_t> samples_in(const DLTensor& number) {
  const auto* const first = static_cast<const std::int64_t*>(number.data);
  return {first, first + number.shape[0]};
}

template <class Managed>
void expect_pattern(const Managed& managed, const void* data) {
  const DLTensor& tensor = managed.dl_tensor;
  EXPECT_EQ(tensor.data, data);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % 256, 0U);
  EXPECT_EQ(tensor.device.device_type, kDLCPU);
  EXPECT_EQ(tensor.device.device_id, 0);
  ASSERT_EQ(tensor.ndim, 2);
  EXPECT_EQ(tensor.dtype.code, kDLUInt);
  EXPECT_EQ(tensor.dtype.bits, 8);
  EXPECT_EQ(tensor.dtype.lanes, 1);
  EXPECT_EQ(std::vector(tensor.shape, tensor.shape + 2), (std::vector<std::int64_t>{4, 24}));
  EXPECT_EQ(std::vector(tensor.strides, tensor.strides + 2), (std::vector<std::int64_t>{24, 1}));
  EXPECT_EQ(tensor.byte_offset, 0U);
}

TEST(Dlpack, AViewHasAShareOfItsOwnerUntilTheDeleter) {
  const auto owner = std::make_shared<std::array<std::byte, 24>>();
  const std::vector<std::int64_t> shape{3, 2};
  const View view = {
      .data = owner->data(), .dtype = DType::kFloat32, .shape = shape, .is_copy = true};
  auto versioned = view_to_dlpack(owner, view);
  auto unversioned = view_to_dlpack<DLManagedTensor>(owner, view);
  EXPECT_EQ(versioned->flags, kDLPackFlagIsCopied);
  EXPECT_EQ(unversioned->dl_tensor.data, owner->data());
  EXPECT_EQ(unversioned->dl_tensor.strides[0], 2);
  EXPECT_EQ(owner.use_count(), 3);
  versioned.reset();
  unversioned.reset();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(Dlpack, AViewWithoutElementsHasNoAddress) {
  const auto owner = std::make_shared<std::byte>();
  const std::vector<std::int64_t> shape{0, 2};
  EXPECT_EQ(view_to_dlpack(owner, {.data = owner.get(), .shape = shape})->dl_tensor.data, nullptr);
}

TEST_P(DlpackTest, ATensorIsTheBatchsOwnMemory) {
  in_place([] {
    NumbersFeed feed({.size = 8});
    const std::shared_ptr<Lease> batch = next_of(feed);
    const auto versioned = to_dlpack(batch, "pattern");
    EXPECT_EQ(versioned->version.major, 1U);
    EXPECT_EQ(versioned->flags, 0U);
    expect_pattern(*versioned, (*batch)["pattern"].raw());
    const auto unversioned = to_dlpack<DLManagedTensor>(batch, "pattern");
    expect_pattern(*unversioned, (*batch)["pattern"].raw());
    const auto number = to_dlpack(batch, "number");
    EXPECT_EQ(number->dl_tensor.ndim, 1);
    EXPECT_EQ(number->dl_tensor.strides[0], 1);
    EXPECT_EQ(samples_in(number->dl_tensor), feed.want(0, 0));
  });
}

TEST(Dlpack, EachTypeOfElementHasItsName) {
  struct Row {
    DType dtype;
    DLDataTypeCode code;
    int bits;
  };
  for (const Row& row : {Row{DType::kInt8, kDLInt, 8}, Row{DType::kInt16, kDLInt, 16},
                         Row{DType::kInt32, kDLInt, 32}, Row{DType::kInt64, kDLInt, 64},
                         Row{DType::kUint8, kDLUInt, 8}, Row{DType::kUint16, kDLUInt, 16},
                         Row{DType::kUint32, kDLUInt, 32}, Row{DType::kUint64, kDLUInt, 64},
                         Row{DType::kFloat16, kDLFloat, 16}, Row{DType::kBFloat16, kDLBfloat, 16},
                         Row{DType::kFloat32, kDLFloat, 32}, Row{DType::kFloat64, kDLFloat, 64},
                         Row{DType::kBool, kDLBool, 8}}) {
    const DLDataType type = data_type_of(row.dtype);
    EXPECT_EQ(type.code, row.code) << to_string(row.dtype);
    EXPECT_EQ(type.bits, row.bits) << to_string(row.dtype);
    EXPECT_EQ(type.lanes, 1);
  }
}

TEST_P(DlpackTest, TheBatchGoesWithItsLastTensorInWhateverOrderTheyGo) {
  in_place([] {
    NumbersFeed feed({.size = 400});
    std::vector<int> order = {0, 1, 2};
    std::uint64_t released = 0;
    do {
      std::shared_ptr<Lease> batch = next_of(feed);
      std::array<Exported<DLManagedTensorVersioned>, 3> tensors = {
          to_dlpack(batch, "number"), to_dlpack(batch, "pattern"), to_dlpack(batch, "number")};
      const auto want = feed.want(*batch);
      batch.reset();
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ(feed.stats().batches, released);
        EXPECT_THROW(static_cast<void>(feed.next()), std::logic_error) << "it counts as one lease";
        auto& tensor = tensors.at(static_cast<std::size_t>(order[i]));
        if (order[i] != 1) {
          EXPECT_EQ(samples_in(tensor->dl_tensor), want);
        }
        tensor.reset();
      }
      EXPECT_EQ(feed.stats().batches, ++released);
    } while (std::ranges::next_permutation(order).found);
    EXPECT_EQ(State::parse(feed.state()).epochs.at(0).batches.count(), released);
  });
}

TEST_P(DlpackTest, AllTensorsComeWithTheirNames) {
  in_place([] {
    NumbersFeed feed({.size = 8});
    std::shared_ptr<Lease> batch = next_of(feed);
    auto all = all_to_dlpack(batch);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].name, "number");
    EXPECT_EQ(all[1].name, "pattern");
    EXPECT_EQ(all[1].tensor->dl_tensor.data, (*batch)["pattern"].raw());
    batch.reset();
    all.pop_back();
    EXPECT_EQ(feed.stats().batches, 0U);
    all.clear();
    EXPECT_EQ(feed.stats().batches, 1U);
  });
}

TEST_P(DlpackTest, OfTwoTensorsOfOneNameTheTransformedOneIsExported) {
  in_place([] {
    const Numbers data({.size = 8});
    const DeviceTransform halves = {
        .fields = {{"number", DType::kFloat32, {}}},
        .function = [](const TensorSet& in, const TensorSet& out, const gpu::StreamRef& stream) {
          stream.launch_host([from = in["number"].data<std::int64_t>(),
                              to = out["number"].data<float>(), count = in.rows()] {
            for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) / 2;
          });
        }};
    Prefetcher feed(data, gpu::open("host"), {.batch_size = 4, .device_transform = halves});
    const std::shared_ptr<Lease> batch = next_of(feed);
    const auto all = all_to_dlpack(batch);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].name, "pattern");
    EXPECT_EQ(all[1].name, "number");
    EXPECT_EQ(all[1].tensor->dl_tensor.dtype.code, kDLFloat);
    const auto* const halved = static_cast<const float*>(all[1].tensor->dl_tensor.data);
    const auto want = expected_samples(data, {.batch_size = 4}, *batch);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(halved[i], static_cast<float>(want[i]) / 2);
  });
}

TEST_P(DlpackTest, ADeleterMayBeCalledByAnotherThreadAndAfterThePrefetcherHasGone) {
  in_place([] {
    const Numbers data({.size = 64});
    std::vector<Exported<DLManagedTensor>> kept;
    std::vector<std::vector<std::uint64_t>> want;
    {
      Prefetcher feed(data, gpu::open("host"), {.batch_size = 4, .max_leases = 4});
      for (int i = 0; i < 4; ++i) {
        const std::shared_ptr<Lease> batch = next_of(feed);
        want.push_back(expected_samples(data, {.batch_size = 4}, *batch));
        kept.push_back(to_dlpack<DLManagedTensor>(batch, "number"));
      }
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(samples_in(kept[i]->dl_tensor), want[i]);
    }
    DLManagedTensor* const raw = kept[0].release();  // as a consumer has it
    support::on_plain_threads(1, [raw](int) { raw->deleter(raw); });
    kept.clear();
  });
}

TEST_P(DlpackTest, ATensorThatAnExceptionDestroysAbandonsItsBatch) {
  in_place([] {
    NumbersFeed feed({.size = 64});
    const auto step = [&] {
      const auto number = to_dlpack(next_of(feed), "number");
      throw std::domain_error("loss is not a number");
    };
    EXPECT_THROW(step(), std::domain_error);
    const State state = State::parse(feed.state());
    EXPECT_TRUE(state.epochs.empty() || state.epochs[0].batches.count() == 0) << feed.state();
    EXPECT_TRUE(feed.next().has_value());
  });
}

// A CPU reads at once, also where the epoch has bound a stream that has come nowhere yet.
TEST(DlpackInVirtualTime, AnExportToTheCpuWaitsForTheCopy) {
  for (const bool is_bound : {false, true}) {
    in_virtual_time([&] {
      const Numbers data({.size = 8, .pattern_bytes = 992});  // 1000 bytes a sample
      const gpu::Device device = gpu::open_host({.h2d_bandwidth = 1e9});
      const gpu::Stream stream(device);
      stream.launch_host([] {}, 1h);
      Prefetcher feed(data, device, {.batch_size = 4});
      const std::shared_ptr<Lease> batch = next_of(feed);
      const auto number =
          to_dlpack(batch, "number", is_bound ? std::optional(stream.ref()) : std::nullopt);
      EXPECT_EQ(now().time_since_epoch(), 4us);
      EXPECT_EQ(samples_in(number->dl_tensor), expected_samples(data, {.batch_size = 4}, *batch));
    });
  }
}

// Kernels that were enqueued before the deleter was called may go on reading.
TEST(DlpackInVirtualTime, TheReleaseIsOnTheStreamThatWasGiven) {
  in_virtual_time([] {
    NumbersFeed feed({.size = 8, .pattern_bytes = 992}, {.batch_size = 4, .prefetch_depth = 1},
                     {.h2d_bandwidth = 1e9});
    {
      const std::shared_ptr<Lease> batch = next_of(feed);
      const auto number = to_dlpack(batch, "number", feed.stream.ref());
      feed.launch_check(*batch, 1ms);
    }
    const auto next = to_dlpack(next_of(feed), "number");
    EXPECT_EQ(now().time_since_epoch(), 1ms + 8us) << "two copies, and the kernel between them";
  });
}

TEST_P(DlpackTest, AnEmptyBatchHasNullData) {
  in_place([] {
    NumbersFeed feed({.size = 1}, {.batch_size = 2, .rank = 1, .world_size = 2});
    const auto number = to_dlpack(next_of(feed), "number");
    EXPECT_EQ(number->dl_tensor.shape[0], 0);
    EXPECT_EQ(number->dl_tensor.data, nullptr);
  });
}

TEST_P(DlpackTest, MisuseIsRefusedAndNothingIsLost) {
  in_place([] {
    NumbersFeed feed({.size = 64});
    EXPECT_THROW(static_cast<void>(to_dlpack(nullptr, "number")), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(all_to_dlpack(nullptr)), std::invalid_argument);
    const std::shared_ptr<Lease> batch = next_of(feed);
    EXPECT_THROW(static_cast<void>(to_dlpack(batch, "image")), std::out_of_range);
    const gpu::Stream foreign(gpu::open("host:1"));
    EXPECT_THROW(static_cast<void>(to_dlpack(batch, "number", foreign.ref())),
                 std::invalid_argument);
    EXPECT_EQ(batch.use_count(), 1);
    batch->release();
    EXPECT_THROW(static_cast<void>(to_dlpack(batch, "number")), std::logic_error);
    EXPECT_EQ(consumer_stream(feed.device, std::nullopt), std::nullopt);
    for (const std::int64_t stream : {-1, 0, 1, 2}) {
      EXPECT_THROW(static_cast<void>(consumer_stream(feed.device, stream)), std::invalid_argument);
    }
  });
}

#if __has_include(<dlpack/dlpack.h>)
TEST_P(DlpackTest, AProgramGetsItsOwnType) {
  in_place([] {
    NumbersFeed feed({.size = 8});
    ::DLManagedTensor* const theirs =
        hand_over<::DLManagedTensor>(to_dlpack<DLManagedTensor>(next_of(feed), "pattern"));
    EXPECT_EQ(theirs->dl_tensor.device.device_type, ::kDLCPU);
    EXPECT_EQ(theirs->dl_tensor.dtype.code, ::kDLUInt);
    EXPECT_EQ(theirs->dl_tensor.shape[1], 24);
    EXPECT_EQ(static_cast<int>(::kDLCUDA), static_cast<int>(kDLCUDA));
    EXPECT_EQ(static_cast<int>(::kDLBfloat), static_cast<int>(kDLBfloat));
    theirs->deleter(theirs);
    EXPECT_EQ(feed.stats().batches, 1U);
  });
}
#endif

}  // namespace dlpack_test
}  // namespace leat::feeder::dlpack
