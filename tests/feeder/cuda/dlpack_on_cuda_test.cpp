// DLPack with a consumer's CUDA streams, on the software stand-in.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/feeder/interop/dlpack.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/error.h"
#include "leat/gpu/stream.h"
#include "tests/support/numbers.h"

namespace leat::feeder::dlpack {
namespace dlpack_on_cuda_test {

using support::expected_samples;
using support::Numbers;

TEST(CudaDlpack, ATensorIsOnItsDeviceAndReadyOnTheConsumersStream) {
  for (const int index : {0, 1}) {
    const gpu::Device device = gpu::open("cuda:" + std::to_string(index));
    const Numbers data({.size = 400});
    const PrefetcherOptions options = {.batch_size = 4, .max_leases = 2};
    Prefetcher feed(data, device, options);
    ASSERT_EQ(cudaSetDevice(index), cudaSuccess);
    cudaStream_t mine = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
    const gpu::PinnedBuffer pinned(device, 32);
    for (int i = 0; i < 100; ++i) {
      const auto batch = std::make_shared<Lease>(feed.next().value());
      const auto stream = consumer_stream(device, reinterpret_cast<std::int64_t>(mine));
      const auto number = to_dlpack(batch, "number", stream);
      EXPECT_EQ(number->dl_tensor.device.device_type, kDLCUDA);
      EXPECT_EQ(number->dl_tensor.device.device_id, index);
      ASSERT_EQ(
          cudaMemcpyAsync(pinned.data(), number->dl_tensor.data, 32, cudaMemcpyDeviceToHost, mine),
          cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(mine), cudaSuccess);
      const auto* const back = reinterpret_cast<const std::uint64_t*>(pinned.data());
      EXPECT_EQ(std::vector(back, back + 4), expected_samples(data, options, *batch));
    }
    ASSERT_EQ(cudaStreamDestroy(mine), cudaSuccess);
  }
}

TEST(CudaDlpack, AStreamIsTakenAsPythonsProtocolHasIt) {
  const gpu::Device device = gpu::open("cuda:0");
  EXPECT_EQ(consumer_stream(device, std::nullopt), gpu::StreamRef::legacy(device));
  EXPECT_EQ(consumer_stream(device, 1), gpu::StreamRef::legacy(device));
  EXPECT_EQ(consumer_stream(device, -1), std::nullopt);
  for (const std::int64_t wrong : {0, -2}) {
    EXPECT_THROW(static_cast<void>(consumer_stream(device, wrong)), std::invalid_argument);
  }
  EXPECT_THROW(static_cast<void>(consumer_stream(device, 2)), gpu::GpuError);
}

TEST(CudaDlpack, WithoutAStreamOneHasToBeBoundAlready) {
  const gpu::Device device = gpu::open("cuda:0");
  const Numbers data({.size = 64});
  Prefetcher feed(data, device, {.batch_size = 4});
  const gpu::Stream stream(device);
  const auto batch = std::make_shared<Lease>(feed.next().value());
  EXPECT_THROW(static_cast<void>(to_dlpack(batch, "number")), std::logic_error);
  EXPECT_EQ(batch->layout()["number"].bytes(), 32U);                    // known without a stream
  EXPECT_THROW(static_cast<void>(batch->tensors()), std::logic_error);  // layout() has bound none
  batch->on(stream);
  EXPECT_NE(to_dlpack(batch, "number")->dl_tensor.data, nullptr);
}

}  // namespace dlpack_on_cuda_test
}  // namespace leat::feeder::dlpack
