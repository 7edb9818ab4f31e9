// Handles and memory of the host device that are released while work is queued, and allocations
// that wait for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/gpu_error.h"
#include "tests/support/run.h"

namespace leat::gpu {
namespace host_stream_memory_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

struct Signal {
  explicit Signal(Channel<int> channel) : destroyed(std::move(channel)) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal() { destroyed.try_close(); }
  Channel<int> destroyed;
};

void drop_the_last_handle_in_a_kernel() {
  const Channel<int> destroyed(0);
  std::vector<int> ran;
  std::optional<Gate> gate;
  {
    Device device = open("host");
    auto stream = std::make_unique<Stream>(device);
    const StreamRef view = *stream;
    gate.emplace(view);
    view.launch_host(
        [stream = std::move(stream), device = std::move(device), &ran] { ran.push_back(1); });
    view.launch_host([signal = std::make_unique<Signal>(destroyed), &ran] { ran.push_back(2); });
  }
  gate->open();
  static_cast<void>(destroyed.recv());
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST(HostStream, TheDevicesLastHandleMayGoWithAKernelsClosure) {
  for (int i = 0; i < 10; ++i) drop_the_last_handle_in_a_kernel();
}

TEST(HostStream, TheDevicesLastHandleMayGoWithAKernelsClosureInARun) {
  for (int i = 0; i < 10; ++i) {
    VirtualClock clock;
    run(drop_the_last_handle_in_a_kernel, {.workers = 1 + i % 2, .clock = &clock});
  }
}

constexpr std::byte kPoison{0xA5};

TEST(HostStream, WorkQueuedKeepsPagesThatAreNotPinned) {
  const Device device = open("host");
  const Stream stream(device);
  const std::vector<std::byte> bytes = random_bytes(100'003, 43);
  const DeviceBuffer there(device, bytes.size());
  std::optional<PinnedArena> arena(std::in_place, device, bytes.size(),
                                   PageSharing::kSharedUnpinned);
  const PinnedSpan from = arena->take(bytes.size());
  std::ranges::copy(bytes, from.bytes().begin());
  const Gate gate(stream);
  copy_async(stream, there.span(), from);
  arena.reset();
  gate.open();
  stream.sync();
  expect_bytes({there.span().data(), bytes.size()}, bytes);
}

TEST(HostStream, FreeingWaitsForNothingAndWorkQueuedKeepsItsMemory) {
  const Device device = open("host");
  const auto bytes = random_bytes(100'003, 21);
  for (const bool stream_goes_first : {false, true}) {
    const PinnedBuffer to = pinned_filled(device, bytes.size(), kPoison);
    const Event copied(device);
    std::optional<Stream> stream(device);
    std::optional<PinnedBuffer> from(pinned_copy(device, bytes));
    std::optional<DeviceBuffer> there(std::in_place, device, bytes.size());
    const Gate gate(*stream);
    copy_async(*stream, there->span(), from->span());
    copy_async(*stream, to.span(), there->span());
    copied.record(*stream);
    for (int i = 3; i < 1'024; ++i) stream->launch_host([] {});  // the queue is full
    if (stream_goes_first) stream.reset();
    from.reset();
    there.reset();
    stream.reset();
    EXPECT_FALSE(copied.is_done());
    gate.open();
    copied.sync();
    expect_bytes(to.span().bytes(), bytes);
  }
}

constexpr int kMoreThanFit = 3'000;  // a stream's queue holds 1,024 operations

TEST(HostStream, ABufferOwnedByAKernelIsFreedBehindAFullQueue) {
  for (const int workers : {1, 2}) {
    run(
        [] {
          const Device device = open("host");
          const Stream stream(device);
          const Gate gate(stream);
          go([&gate] { gate.open(); });
          stream.launch_host([there = DeviceBuffer(device, 100)] {});
          int ran = 0;
          for (int i = 0; i < kMoreThanFit; ++i) stream.launch_host([&ran] { ++ran; });
          stream.sync();
          EXPECT_EQ(ran, kMoreThanFit);
        },
        {.workers = workers});
  }
}

TEST(HostStream, AllocatesUpToTheMemoryOfItsModel) {
  const Device device = open_host({.memory_bytes = 1'000});
  std::optional<DeviceBuffer> first(std::in_place, device, 600);
  expect_throws<OutOfMemory>([&] { const DeviceBuffer second(device, 401); },
                             {"host:0", "401 bytes", "600 bytes are in use of 1000"});
  const DeviceBuffer second(device, 400);
  expect_throws<OutOfMemory>([&] { const DeviceBuffer third(device, 1); },
                             {"1000 bytes are in use"});
  first.reset();
  const DeviceBuffer third(device, 600);
  const PinnedBuffer pinned(device, 5'000);  // is not on the device
  const Stream stream(device);
  copy_async(stream, third.subspan(0, 400), second.span());
  stream.sync();
}

TEST(HostStream, AnAllocationWaitsForTheWorkThatUsesFreedMemoryIfThatMakesRoom) {
  for (const bool stream_goes_first : {false, true}) {
    run_each([&] {
      const Device device = open_host({.memory_bytes = 1'000});
      std::optional<Stream> stream(std::in_place, device);
      const PinnedBuffer pinned = pinned_filled(device, 600, kPoison);
      std::optional<DeviceBuffer> first(std::in_place, device, 600);
      const DeviceBuffer kept(device, 100);
      const Gate gate(*stream);
      copy_async(*stream, first->span(), pinned.span());
      if (stream_goes_first) stream.reset();
      first.reset();
      expect_throws<OutOfMemory>([&] { const DeviceBuffer never(device, 901); },
                                 {"700 bytes are in use of 1000"});  // however long it waited
      const DeviceBuffer at_once(device, 300);
      TaskGroup group;
      std::atomic<bool> allocated{false};
      group.go([&] {
        const DeviceBuffer second(device, 600);
        EXPECT_EQ(second.size(), 600U);
        allocated = true;
      });
      until_idle();
      EXPECT_FALSE(allocated);
      gate.open();
      group.wait();
      EXPECT_TRUE(allocated);
    });
  }
}

// What was awaited has come: nothing more is expected of it.
TEST(HostStream, MemoryThatHasBeenFreedIsNotExpectedAgain) {
  const Device device = open_host({.memory_bytes = 1'000});
  const PinnedBuffer pinned = pinned_filled(device, 600, kPoison);
  const Stream stream(device);
  std::optional<DeviceBuffer> first(std::in_place, device, 600);
  const Gate gate(stream);
  copy_async(stream, first->span(), pinned.span());
  first.reset();
  gate.open();
  const DeviceBuffer second(device, 600);  // waits for the first
  expect_throws<OutOfMemory>([&] { const DeviceBuffer third(device, 600); },
                             {"600 bytes are in use of 1000"});
}

TEST(HostStream, AThreadWaitsForFreedMemoryToo) {
  const Device device = open_host({.memory_bytes = 1'000});
  const PinnedBuffer pinned = pinned_filled(device, 600, kPoison);
  for (int i = 0; i < rounds(1'000); ++i) {
    const DeviceBuffer memory(device, 600);  // of the last round's, which may not have passed yet
    const Stream stream(device);
    copy_async(stream, memory.span(), pinned.span());
  }
}

TEST(HostStream, AKernelDoesNotWaitForMemoryThatItKeepsItself) {
  const Device device = open_host({.memory_bytes = 1'000});
  const Stream stream(device);
  std::optional<DeviceBuffer> first(std::in_place, device, 600);
  const Gate gate(stream);
  stream.launch_host([&] {
    expect_throws<OutOfMemory>([&] { const DeviceBuffer second(device, 600); },
                               {"600 bytes are in use of 1000"});
  });
  first.reset();
  gate.open();
  stream.sync();
  const DeviceBuffer second(device, 600);
}

}  // namespace host_stream_memory_test
}  // namespace leat::gpu
