// How the CUDA backend allocates and copies: in which calls, and in how many.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace cuda_memory_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test
using stand_in::calls;
using stand_in::fail_call;
using stand_in::live;

TEST(CudaMemory, SeveralCopiesAreOneCall) {
  const Device device = open("cuda:0");
  EXPECT_TRUE(device.capabilities().batched_copies);
  const Stream stream(device);
  const PinnedBuffer from = pinned_filled(device, 10'000, std::byte{3});
  const PinnedBuffer to = pinned_filled(device, 10'000, std::byte{0});
  const DeviceBuffer there(device, 10'000);
  std::vector<CopyToDevice> batch;
  for (std::size_t i = 0; i < 10; ++i) {
    batch.push_back({there.subspan(i * 1'000, 1'000), from.subspan(i * 1'000, 1'000)});
  }
  copy_async(stream, batch);
  EXPECT_EQ(calls("cudaMemcpyBatchAsync"), 1U);
  EXPECT_EQ(calls("cudaMemcpyAsync"), 0U);
  copy_async(stream, std::span(batch).first(1));  // one is no batch
  EXPECT_EQ(calls("cudaMemcpyBatchAsync"), 1U);
  EXPECT_EQ(calls("cudaMemcpyAsync"), 1U);
  copy_async(stream, to.span(), there.span());
  stream.sync();
  expect_filled(to.span().bytes(), std::byte{3});
}

TEST(CudaMemory, WhereTheDriverKnowsNoBatchesItIsAskedOnceAndCopiesGoOneByOne) {
  for (const cudaError_t answer : {cudaErrorNotSupported, cudaErrorCallRequiresNewerDriver}) {
    const Device device = open("cuda:0");
    const Stream stream(device);
    const PinnedBuffer from = pinned_filled(device, 3'000, std::byte{3});
    const PinnedBuffer to = pinned_filled(device, 3'000, std::byte{0});
    const DeviceBuffer there(device, 3'000);
    const std::array<CopyToDevice, 3> batch{
        {{there.subspan(0, 1'000), from.subspan(0, 1'000)},
         {there.subspan(1'000, 1'000), from.subspan(1'000, 1'000)},
         {there.subspan(2'000, 1'000), from.subspan(2'000, 1'000)}}};
    const auto asked = calls("cudaMemcpyBatchAsync");
    const auto copies = calls("cudaMemcpyAsync");
    fail_call("cudaMemcpyBatchAsync", answer);
    copy_async(stream, batch);
    copy_async(stream, batch);
    EXPECT_EQ(calls("cudaMemcpyBatchAsync"), asked + 1);
    EXPECT_EQ(calls("cudaMemcpyAsync"), copies + 6);
    copy_async(stream, to.span(), there.span());
    stream.sync();
    expect_filled(to.span().bytes(), std::byte{3});
  }
}

TEST(CudaMemory, InAStreamsOrderComesFromThePoolAndGoesWithoutAWait) {
  const Device device = open("cuda:0");
  EXPECT_TRUE(device.capabilities().stream_ordered_memory);
  const Stream stream(device);
  const auto waits = calls("cudaFree");
  {
    const Gate gate(stream);
    const DeviceBuffer there(stream, 1'000);
    EXPECT_EQ(calls("cudaMallocAsync"), 1U);
  }
  EXPECT_EQ(calls("cudaFreeAsync"), 1U);
  EXPECT_EQ(calls("cudaFree"), waits);
  stream.sync();
  EXPECT_EQ(live().device_allocations, 0U);
}

// The Stream was destroyed, but cudaStreamDestroy is called only after the memory was freed in that
// stream's order.
TEST(CudaMemory, InAStreamsOrderKeepsTheStream) {
  const Device device = open("cuda:0");
  std::optional<Stream> stream(device);
  std::optional<DeviceBuffer> first(std::in_place, *stream, 1'000);
  std::optional<DeviceBuffer> second(std::in_place, *stream, 1'000);
  stream.reset();
  first.reset();
  EXPECT_EQ(live().streams, 1U);
  EXPECT_EQ(calls("cudaStreamDestroy"), 0U);
  second.reset();
  while (live().streams > 0)
    const Stream another(device);  // checks whether earlier streams are over
}

// Destroying the stream does not wait; unpinning pages does.
TEST(CudaMemory, AStreamThatWasDestroyedGoesOnceItsWorkHasRun) {
  const Device device = open("cuda:0");
  std::optional<Stream> stream(device);
  {
    const Gate gate(*stream);
    stream.reset();
    const Stream another(device);
    EXPECT_EQ(calls("cudaStreamDestroy"), 0U);
    EXPECT_EQ(live().streams, 2U);
  }
  while (live().streams > 0) const Stream another(device);
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

// CUDA does not say whether its work has run, so unpinning waits for it.
TEST(CudaMemory, AStreamOfWhichNobodyKnewWhetherItWasDoneIsWaitedForAllTheSame) {
  const Device device = open("cuda:0");
  std::optional<Stream> stream(device);
  std::optional<PinnedArena> arena(std::in_place, device, kMiB);
  const DeviceBuffer there(device, kMiB);
  const Gate gate(*stream);
  copy_async(*stream, there.span(), arena->take(kMiB));
  fail_call("cudaStreamQuery", cudaErrorDevicesUnavailable);
  stream.reset();
  EXPECT_EQ(live().streams, 1U);
  const auto waits = calls("cudaStreamSynchronize");
  std::jthread destroyer([&] { arena.reset(); });
  while (calls("cudaStreamSynchronize") == waits) std::this_thread::yield();
  gate.open();
  destroyer.join();
  EXPECT_EQ(live().registrations, 0U);
}

TEST(CudaMemory, MemoryInAStreamsOrderIsRefusedInACapture) {
  const Device device = open("cuda:0");
  const Stream stream(device);
  auto* const native = static_cast<cudaStream_t>(stream.native_handle());
  ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_THROW(DeviceBuffer(stream, 100), GpuError);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST(CudaMemory, WithoutPoolsStreamOrderedMemoryIsAsAnyOther) {
  fail_call("cudaDeviceGetAttribute", cudaErrorInvalidValue, 3);  // the third asks for the pools
  const Device device = open("cuda:0");
  ASSERT_FALSE(device.capabilities().stream_ordered_memory);
  const Stream stream(device);
  { const DeviceBuffer there(stream, 1'000); }
  EXPECT_EQ(calls("cudaMallocAsync"), 0U);
  EXPECT_EQ(calls("cudaMalloc"), 1U);
  EXPECT_EQ(calls("cudaFree"), 1U);
}

TEST(CudaMemory, OfAHostFunctionInACaptureNothingIsEnqueued) {
  const Device device = open("cuda:0");
  const Stream stream(device);
  auto* const native = static_cast<cudaStream_t>(stream.native_handle());
  ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_TRUE(stream.is_capturing());
  EXPECT_THROW(stream.launch_host([] {}), GpuError);
  EXPECT_THROW(static_cast<void>(StreamRef::from_native(device, native)), GpuError);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_FALSE(stream.is_capturing());
  expect_works(device);
}

TEST(CudaMemory, PinnedMemoryIsPinnedForAllDevices) {
  const Device first = open("cuda:0");
  const Device second = open("cuda:1");
  PinnedArena arena(first, kMiB);
  const PinnedSpan from = arena.take(1'000);
  fill(from, std::byte{3});
  const PinnedBuffer buffer = pinned_filled(first, 1'000, std::byte{0});
  const DeviceBuffer there(second, 1'000);
  const Stream stream(second);
  copy_async(stream, there.span(), from);
  copy_async(stream, buffer.span(), there.span());
  stream.sync();
  expect_filled(buffer.span().bytes(), std::byte{3});
  EXPECT_EQ(stand_in::pageable_copies(), 0U);
}

TEST(CudaMemory, IsWriteCombinedWhereThatWasAskedFor) {
  const Device device = open("cuda:0");
  const PinnedBuffer plain(device, 100);
  EXPECT_EQ(live().write_combined, 0U);
  const PinnedBuffer combined(device, 100, PinnedUse::kWriteCombined);
  EXPECT_EQ(live().write_combined, 1U);
}

// As of pages. What is left goes with the process; here the stand-in takes it back.
TEST(CudaMemory, BuffersStayWhereAStreamIsBeingCaptured) {
  {
    const Device device = open("cuda:0");
    const Stream stream(device);
    auto* const native = static_cast<cudaStream_t>(stream.native_handle());
    std::optional<PinnedBuffer> pinned(pinned_filled(device, 1'000, std::byte{1}));
    std::optional<DeviceBuffer> there(std::in_place, device, 1'000);
    std::optional<DeviceBuffer> in_order(std::in_place, stream, 1'000);
    const Gate gate(stream);
    copy_async(stream, there->span(), pinned->span());
    copy_async(stream, in_order->span(), pinned->span());
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal), cudaSuccess);
    pinned.reset();
    there.reset();
    in_order.reset();
    EXPECT_EQ(calls("cudaFreeAsync") + calls("cudaFree") + calls("cudaFreeHost"), 0U);
    EXPECT_EQ(live().pinned_allocations, 1U);
    EXPECT_EQ(live().device_allocations, 2U);
    EXPECT_EQ(device.memory().pinned.used, 1'000U);
    EXPECT_EQ(device.memory().device.used, 2'000U);
    gate.open();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    expect_works(device);
  }
  stand_in::reset();
}

}  // namespace cuda_memory_test
}  // namespace leat::gpu
