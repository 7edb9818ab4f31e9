// The C API with a trainer's own CUDA streams, on the software stand-in.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "leat/feeder/interop/c/leat.h"
#include "tests/feeder/interop/c/fixture.h"

namespace leat::feeder::c_api {
namespace c_api_on_cuda_test {

TEST(CudaCApi, ABatchIsUsedOnTheTrainersStreamAndComesWhole) {
  Feed feed(40, {}, "cuda:0");
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 32, cudaHostAllocDefault), cudaSuccess);
  const std::span<std::int64_t> back(static_cast<std::int64_t*>(pinned), 4);
  std::uint64_t sum = 0;
  leat_batch* batch = nullptr;
  leat_status status = LEAT_OK;
  while ((status = leat_prefetcher_next(feed.feed, &batch)) == LEAT_OK) {
    leat_tensor number{};
    expect_error(leat_batch_tensor(batch, 0, &number), LEAT_ERROR_ARGUMENT, "bind a stream");
    LEAT_EXPECT_OK(leat_batch_bind(batch, stream));
    LEAT_EXPECT_OK(leat_batch_bind(batch, LEAT_STREAM_LEGACY));
    LEAT_EXPECT_OK(leat_batch_tensor(batch, 0, &number));
    ASSERT_EQ(number.bytes, 32U);
    ASSERT_EQ(cudaMemcpyAsync(back.data(), number.data, 32, cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    LEAT_EXPECT_OK(leat_batch_release(batch));
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    for (const std::int64_t one : back) sum += static_cast<std::uint64_t>(one);
  }
  LEAT_EXPECT_STATUS(status, LEAT_END_OF_EPOCH);
  EXPECT_EQ(sum, 40U * 39 / 2);
  ASSERT_EQ(cudaFreeHost(pinned), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(CudaCApi, AStreamThatIsNoneOfTheDevicesIsRefusedAndTheOthersStayBound) {
  Feed feed(8, {}, "cuda:0");
  leat_batch* batch = nullptr;
  LEAT_EXPECT_OK(leat_prefetcher_next(feed.feed, &batch));
  expect_error(leat_batch_bind(batch, nullptr), LEAT_ERROR_DEVICE, "null stream",
               "cudaStreamLegacy");
  LEAT_EXPECT_OK(leat_batch_bind(batch, LEAT_STREAM_LEGACY));
  leat_tensor number{};
  LEAT_EXPECT_OK(leat_batch_tensor_named(batch, "number", &number));
  EXPECT_NE(number.data, nullptr);
  EXPECT_EQ(LEAT_STREAM_LEGACY, static_cast<void*>(cudaStreamLegacy));
  LEAT_EXPECT_OK(leat_batch_release(batch));
}

}  // namespace c_api_on_cuda_test
}  // namespace leat::feeder::c_api
