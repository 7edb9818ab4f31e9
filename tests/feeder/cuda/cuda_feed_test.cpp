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
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/numbers.h"

namespace leat::feeder {
namespace cuda_feed_test {

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

// A tensor is copied in one piece, or in pieces of at most copy_chunk_bytes, none of them twice; of
// several devices, which may share a link, in pieces of 8 MiB.
TEST(CudaFeed, CopiesAreCutIntoPieces) {
  const Numbers data({.size = 8 * 5, .pattern_bytes = 1000});  // and a number of 8 bytes
  const gpu::Device device = gpu::open("cuda:0");
  const auto copied_with = [&](std::size_t chunk) {
    stand_in::Copied before;
    stand_in::Copied after;
    {
      Prefetcher feed(data, device, {.batch_size = 8, .copy_chunk_bytes = chunk});
      const gpu::Stream stream(device);
      before = stand_in::copied();
      std::size_t batches = 0;
      for (Lease& batch : feed.epoch(0, stream)) batches += batch.size() == 8 ? 1U : 0U;
      EXPECT_EQ(batches, 5U);
      stream.sync();
    }
    after = stand_in::copied();
    EXPECT_EQ((after.bytes - before.bytes) % (8 * 1008), 0U);
    const std::uint64_t batches = (after.bytes - before.bytes) / (8 * 1008);
    EXPECT_GE(batches, 5U) << "and what was read ahead";
    stand_in::Copied of_one = {.largest = after.largest};
    of_one.pieces = (after.pieces - before.pieces) / batches;
    EXPECT_EQ((after.pieces - before.pieces) % batches, 0U);
    return of_one;
  };
  EXPECT_EQ(copied_with(100).largest, 100U);
  EXPECT_EQ(copied_with(100).pieces, 1U + 80U);
  EXPECT_EQ(copied_with(3000).largest, 3000U);
  EXPECT_EQ(copied_with(3000).pieces, 1U + 3U);
  EXPECT_EQ(copied_with(8000).pieces, 2U);
  EXPECT_EQ(copied_with(0).largest, 8000U);
  EXPECT_EQ(copied_with(0).pieces, 2U);
}

TEST(CudaFeed, CopiesToSeveralDevicesAreCutInto8MiB) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const Numbers data({.size = 6, .pattern_bytes = 3 * kMiB});
  Prefetcher feed(data, {gpu::open("cuda:0"), gpu::open("cuda:1")}, {.batch_size = 6});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Lease batch = feed.rank(rank).next().value();
    EXPECT_EQ(batch.size(), 3U);
  }
  EXPECT_EQ(stand_in::copied().largest, 8 * kMiB);
  EXPECT_EQ(stand_in::copied().bytes % (3 * (3 * kMiB + 8)), 0U);
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

}  // namespace cuda_feed_test
}  // namespace leat::feeder
