// What a prefetcher calls of CUDA in its steady state, on the software stand-in, which counts: no
// call that waits, and nothing that is made or freed.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/tests/gpu/cuda/stand_in/stand_in.h"
#include "leat/tests/support/numbers.h"

namespace leat::feeder {
namespace {

using support::Numbers;

bool waits_or_makes(std::string_view function) {
  for (const std::string_view part : {"Synchronize", "Malloc", "Free", "HostAlloc", "Register",
                                      "Create", "Destroy", "MemcpyAsyncPageable"}) {
    if (function.find(part) != std::string_view::npos) return true;
  }
  return function == "cudaMemcpy";
}

TEST(CudaFeed, ASteadyLoopNeitherSynchronisesNorMakesAnything) {
  const gpu::Device device = gpu::open("cuda:0");
  const Numbers data({.size = 8 * 300});
  {
    const gpu::Stream stream(device);
    Prefetcher feed(data, device, {.batch_size = 8, .workers = 2, .sample_every = 4});
    Epoch epoch = feed.epoch(0, stream);
    auto batch = epoch.begin();
    for (int i = 0; i < 50; ++i) ++batch;
    const stand_in::Calls before = stand_in::all_calls();
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ((*batch)["number"].dtype(), DType::kInt64);
      ++batch;
    }
    std::uint64_t copies = 0;
    for (const auto& [function, calls] : stand_in::all_calls()) {
      const auto was = before.find(function);
      const std::uint64_t now = calls - (was == before.end() ? 0 : was->second);
      if (function.find("Memcpy") != std::string::npos) copies += now;
      if (waits_or_makes(function)) {
        EXPECT_EQ(now, 0U) << function << " in 200 steps";
      }
    }
    EXPECT_GE(copies, 190U) << "one batched copy for each step";
    EXPECT_LE(copies, 420U);
    stream.sync();
    EXPECT_GE(stand_in::calls("cudaStreamSynchronize"), 1U) << "a sync is counted";
  }
}

TEST(CudaFeed, AStreamThatIsBeingCapturedCannotBeBound) {
  const gpu::Device device = gpu::open("cuda:0");
  const Numbers data({.size = 64});
  Prefetcher feed(data, device, {.batch_size = 8});
  cudaStream_t mine = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
  {
    const gpu::StreamRef stream = gpu::StreamRef::from_native(device, mine);
    std::optional<Lease> batch = feed.next();
    ASSERT_EQ(cudaStreamBeginCapture(mine, cudaStreamCaptureModeRelaxed), cudaSuccess);
    try {
      batch->on(stream);
      ADD_FAILURE() << "a capturing stream was bound";
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find("captured"), std::string::npos) << e.what();
    }
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(mine, &graph), cudaSuccess) << "the capture was disturbed";
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    batch->on(stream);
    EXPECT_EQ((*batch)["number"].shape()[0], 8);
    batch->release();
    ASSERT_EQ(cudaStreamSynchronize(mine), cudaSuccess);
  }
  ASSERT_EQ(cudaStreamDestroy(mine), cudaSuccess);
}

TEST(CudaFeed, ABatchCannotBeTouchedBeforeAStreamIsBound) {
  const gpu::Device device = gpu::open("cuda:0");
  const Numbers data({.size = 64});
  Prefetcher feed(data, device, {.batch_size = 8});
  std::optional<Lease> batch = feed.next();
  EXPECT_THROW(static_cast<void>((*batch)["number"]), std::logic_error);
}

}  // namespace
}  // namespace leat::feeder
