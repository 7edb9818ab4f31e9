// How the CUDA backend pins an arena, in steps, and unpins it; and which pages stay mapped because
// CUDA may still use them.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/memory.h"

namespace leat::gpu {
namespace cuda_arena_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test
using stand_in::calls;
using stand_in::fail_call;
using stand_in::live;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kStep = 256 * kMiB;

/// An arena that is longer than a step, and the part of it that lies on both sides of its first
/// multiple of 256 MiB. (The stand-in refuses a copy that crosses a registration, as CUDA does.)
struct Crossing {
  explicit Crossing(const Device& device) : arena(device, kStep + 2 * kMiB) {
    const PinnedSpan all = arena.take(arena.capacity());
    const std::size_t to_step = kStep - reinterpret_cast<std::uintptr_t>(all.data()) % kStep;
    // There are 2 MiB before it or behind it.
    const std::size_t begin =
        to_step >= kBytes ? to_step - kBytes / 2 : kStep - kBytes / 2 + to_step;
    across = all.subspan(begin, kBytes);
  }
  static constexpr std::size_t kBytes = 1'000'001;
  PinnedArena arena;
  PinnedSpan across;
};

TEST(CudaMemory, AnArenaIsRegisteredInStepsAndCopiesAreCutThere) {
  const Device device = open("cuda:0");
  Crossing c(device);
  EXPECT_EQ(c.arena.fallback(), "");
  EXPECT_GE(live().registrations, 2U);
  EXPECT_LE(live().registrations, 3U);
  const auto bytes = random_bytes(Crossing::kBytes, 1);
  std::ranges::copy(bytes, c.across.bytes().begin());
  const Stream stream(device);
  const DeviceBuffer there(device, Crossing::kBytes);
  const auto before = calls("cudaMemcpyAsync");
  copy_async(stream, there.span(), c.across);
  EXPECT_EQ(calls("cudaMemcpyAsync"), before + 2);
  stream.launch_host([&] { fill(c.across, std::byte{0}); });
  copy_async(stream, c.across, there.span());
  EXPECT_EQ(calls("cudaMemcpyAsync"), before + 4);
  stream.sync();
  expect_bytes(c.across.bytes(), bytes);

  fill(c.across, std::byte{0});
  const std::size_t half = Crossing::kBytes / 3;
  const std::array<CopyToHost, 2> batch{{{c.across.subspan(0, half), there.subspan(0, half)},
                                         {c.across.subspan(half, Crossing::kBytes - half),
                                          there.subspan(half, Crossing::kBytes - half)}}};
  copy_async(stream, batch);
  stream.sync();
  expect_bytes(c.across.bytes(), bytes);
  EXPECT_EQ(stand_in::pageable_copies(), 0U);
}

TEST(CudaMemory, AnArenaWhoseSecondStepIsRefusedUnpinsTheFirst) {
  const Device device = open("cuda:0");
  {
    fail_call("cudaHostRegister", cudaErrorMemoryAllocation, 2);
    Crossing c(device);
    EXPECT_NE(c.arena.fallback().find("cudaHostRegister"), std::string::npos) << c.arena.fallback();
    EXPECT_NE(c.arena.fallback().find("cudaErrorMemoryAllocation"), std::string::npos);
    EXPECT_EQ(live().registrations, 0U);
    EXPECT_EQ(live().pinned_allocations, 1U);
    EXPECT_EQ(device.memory().pinned.used, kStep + 2 * kMiB);
    EXPECT_EQ(c.arena.placement().bytes, kStep + 2 * kMiB);
    EXPECT_FALSE(c.arena.placement().node_known);
    fill(c.across, std::byte{7});
    const DeviceBuffer there(device, Crossing::kBytes);
    const Stream stream(device);
    copy_async(stream, there.span(), c.across);
    stream.sync();
  }
  EXPECT_EQ(live().pinned_allocations, 0U);
  EXPECT_EQ(device.memory().pinned.used, 0U);
}

TEST(CudaMemory, AnArenaForWhichThereIsNoRoomIsRefusedAndTakesNothing) {
  const Device device = open("cuda:0");
  fail_call("cudaHostRegister", cudaErrorMemoryAllocation);
  fail_call("cudaHostAlloc", cudaErrorMemoryAllocation);
  EXPECT_THROW(PinnedArena(device, kMiB), OutOfMemory);
  EXPECT_EQ(device.memory().pinned.used, 0U);
  EXPECT_EQ(live().registrations, 0U);
  PinnedArena works(device, kMiB);
  EXPECT_EQ(works.fallback(), "");
}

// The stand-in ends the program where pages are unregistered that a queued copy uses.
TEST(CudaMemory, AnArenaIsUnpinnedOnceLeatsStreamsHaveRun) {
  const Device device = open("cuda:0");
  const DeviceBuffer there(device, kMiB);
  for (const bool stream_goes_first : {false, true}) {
    std::optional<Stream> stream(device);
    std::optional<PinnedArena> arena(std::in_place, device, kMiB);
    const auto registrations = live().registrations;  // 2 where a step ends within it
    const Gate gate(*stream);
    copy_async(*stream, there.span(), arena->take(kMiB));
    if (stream_goes_first) stream.reset();
    const auto waits = calls("cudaStreamSynchronize");
    std::jthread destroyer([&] { arena.reset(); });
    while (calls("cudaStreamSynchronize") == waits) std::this_thread::yield();
    EXPECT_EQ(live().registrations, registrations);
    gate.open();
    destroyer.join();
    EXPECT_EQ(live().registrations, 0U);
  }
}

TEST(CudaMemory, PagesThatCudaDoesNotUnregisterStayMapped) {
  const Device device = open("cuda:0");
  std::optional<PinnedArena> arena(std::in_place, device, kMiB);
  std::byte* const data = arena->take(kMiB).data();
  fail_call("cudaHostUnregister", cudaErrorCudartUnloading);
  arena.reset();
  EXPECT_EQ(msync(data, kMiB, MS_ASYNC), 0) << "somebody else may get them";
  EXPECT_EQ(cudaHostUnregister(data), cudaSuccess);
  EXPECT_EQ(munmap(data, kMiB), 0);
}

// CUDA blocks a caller that enqueues on a full stream. Unpinning pages enqueues nothing, and
// another thread can make a stream meanwhile.
TEST(CudaMemory, AFullQueueHoldsNobodyUpButWhoUnpins) {
  const Device device = open("cuda:0");
  const Stream stream(device);
  std::optional<PinnedArena> arena(std::in_place, device, kMiB);
  const DeviceBuffer there(device, 1'000);
  const Gate gate(stream);
  copy_async(stream, there.span(), arena->take(1'000));
  for (int i = 0; i < 1'000; ++i) copy_async(stream, there.span(), arena->take(1'000, 1));
  const auto waits = calls("cudaStreamSynchronize");
  std::jthread destroyer([&] { arena.reset(); });
  while (calls("cudaStreamSynchronize") == waits) std::this_thread::yield();
  {
    const Stream another(device);
    const DeviceBuffer in_order(another, 1'000);
  }
  gate.open();
}

TEST(CudaMemory, PagesThatCouldBeNeitherRegisteredNorUnregisteredStayMapped) {
  {
    const Device device = open("cuda:0");
    fail_call("cudaHostRegister", cudaErrorDevicesUnavailable, 2);
    fail_call("cudaHostUnregister", cudaErrorCudartUnloading);
    const std::size_t before = resident_bytes();
    {
      const Crossing c(device);
      EXPECT_NE(c.arena.fallback(), "");
    }
    EXPECT_EQ(live().registrations, 1U);
    EXPECT_GE(resident_bytes(), before + kStep) << "somebody else may get them";
    EXPECT_EQ(device.memory().pinned.used, kStep + 2 * kMiB);
  }
  stand_in::reset();  // no test uses them any more
}

/// What an arena has left behind.
void take_back(PinnedSpan pages) {
  for (std::size_t done = 0; done < pages.size();) {
    std::byte* const begin = pages.data() + done;
    EXPECT_EQ(cudaHostUnregister(begin), cudaSuccess);
    done += kStep - reinterpret_cast<std::uintptr_t>(begin) % kStep;
  }
  EXPECT_EQ(munmap(pages.data(), pages.size()), 0);
}

// It cannot be waited for, not even where the stream was destroyed meanwhile, which ends no
// capture; and what was queued before it may still read the pages.
TEST(CudaMemory, ACaptureOfALeatStreamSurvivesAnArenasEndAndThePagesStay) {
  for (const bool is_destroyed : {false, true}) {
    const Device device = open("cuda:0");
    std::optional<Stream> stream(device);
    auto* const native = static_cast<cudaStream_t>(stream->native_handle());
    std::optional<PinnedArena> arena(std::in_place, device, kMiB);
    const PinnedSpan pinned = arena->take(kMiB);
    const DeviceBuffer there(device, kMiB);
    const Gate gate(*stream);
    copy_async(*stream, there.span(), pinned);
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal), cudaSuccess);
    if (is_destroyed) stream.reset();
    arena.reset();
    EXPECT_EQ(live().streams, 1U);
    EXPECT_EQ(msync(pinned.data(), kMiB, MS_ASYNC), 0) << "somebody else may get them";
    EXPECT_EQ(device.memory().pinned.used, kMiB);
    gate.open();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    if (!is_destroyed) stream->sync();
    while (is_destroyed && live().streams > 0) const Stream another(device);
    take_back(pinned);
  }
}

TEST(CudaMemory, PagesStayWhereAStreamCouldNotBeWaitedFor) {
  const Device device = open("cuda:0");
  const Stream stream(device);
  std::optional<PinnedArena> arena(std::in_place, device, kMiB);
  const PinnedSpan pinned = arena->take(kMiB);
  const DeviceBuffer there(device, kMiB);
  const Gate gate(stream);
  copy_async(stream, there.span(), pinned);
  fail_call("cudaStreamSynchronize", cudaErrorStreamCaptureUnsupported);
  arena.reset();
  EXPECT_EQ(msync(pinned.data(), kMiB, MS_ASYNC), 0) << "somebody else may get them";
  EXPECT_EQ(device.memory().pinned.used, kMiB);
  gate.open();
  stream.sync();
  take_back(pinned);
}

}  // namespace cuda_arena_test
}  // namespace leat::gpu
