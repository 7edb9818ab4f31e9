// What the CUDA backend holds: nothing is made on the hot path, and nothing stays.
#include <driver_types.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/cuda/stand_in/stand_in.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/run.h"

namespace leat::gpu {
namespace cuda_resources_test {

using namespace std::chrono_literals;
using stand_in::calls;
using stand_in::live;
using stand_in::Live;

TEST(CudaResources, AfterWarmUpNoEventIsCreated) {
  const Device device = open("cuda:0");
  const Stream stream(device);
  const auto use = [&](Timing timing) {
    const Event event(device, timing);
    event.record(stream);
    event.record(stream);
  };
  use(Timing::kOff);
  use(Timing::kOn);
  stream.sync();
  const auto created = calls("cudaEventCreateWithFlags");
  for (int i = 0; i < support::rounds(10'000); ++i) use(i % 4 == 0 ? Timing::kOn : Timing::kOff);
  stream.sync();
  EXPECT_EQ(calls("cudaEventCreateWithFlags"), created);
  EXPECT_EQ(live().events, 2U);
}

// Timing costs the device, and blocking waits cost the host, so they are used only if asked for.
TEST(CudaResources, EventsAreTimedWhereThatWasAskedForAndNeverBlock) {
  const Device device = open("cuda:0");
  const Event untimed(device);
  EXPECT_EQ(live().timed_events, 0U);
  const Event timed(device, Timing::kOn);
  EXPECT_EQ(live().events, 2U);
  EXPECT_EQ(live().timed_events, 1U);
  EXPECT_EQ(live().blocking_events, 0U);
}

// While fibers wait for records, recording again takes others: as many as are waited for.
TEST(CudaResources, RecordsThatWereAwaitedAreUsedAgain) {
  run(
      [] {
        const Device device = open("cuda:0");
        const Stream stream(device);
        const Event event(device);
        std::uint64_t created = 0;
        for (int round = 0; round < 3; ++round) {
          const support::Gate gate(stream);
          TaskGroup group;
          for (int i = 0; i < 5; ++i) {
            event.record(stream);
            group.go([&] { event.await(); });
            yield();
          }
          gate.open();
          group.wait();
          stream.sync();
          if (round == 1) created = calls("cudaEventCreateWithFlags");
        }
        EXPECT_EQ(calls("cudaEventCreateWithFlags"), created);
        EXPECT_LE(created, 6U);
      },
      {.workers = 1});
}

// By how often the poller asks, which no slow machine makes more: the time that passes is counted.
TEST(CudaResources, ALongAwaitIsNotSpunFor) {
  run(
      [] {
        const Device device = open("cuda:0");
        const Stream stream(device);
        const Event event(device);
        const support::Gate gate(stream);
        event.record(stream);
        TaskGroup group;
        group.go([&] { event.await(); });
        yield();
        const TimePoint start = now();
        const auto before = calls("cudaEventQuery");
        sleep_for(200ms);
        const auto asked = calls("cudaEventQuery") - before;
        EXPECT_LE(asked, 400 + static_cast<std::uint64_t>((now() - start) / 500us));
        EXPECT_GE(asked, 10U);
        gate.open();
        group.wait();
      },
      {.workers = 1});
}

// The poller lets go of the record, which then serves another event though its work is held.
TEST(CudaResources, ASelectThatWasGivenUpKeepsNoRecord) {
  const Device device = open("cuda:0");
  const Stream stream(device);
  const support::Gate gate(stream);
  {
    const Event event(device);
    event.record(stream);
    EXPECT_EQ(select(on_done(event), otherwise()), 1);
  }
  std::vector<Event> events;
  bool served_again = false;
  while (!served_again && events.size() < 100'000) {
    const auto created = calls("cudaEventCreateWithFlags");
    events.emplace_back(device);
    served_again = calls("cudaEventCreateWithFlags") == created;
    std::this_thread::yield();
  }
  EXPECT_TRUE(served_again);
}

TEST(CudaResources, NothingIsLeftOfADevice) {
  {
    const Device device = open("cuda:0");
    const Stream stream(device);
    const Event event(device, Timing::kOn);
    const DeviceBuffer there(device, 1000);
    const PinnedBuffer pinned(device, 1000);
    event.record(stream);
    EXPECT_EQ(live(), (Live{.streams = 1,
                            .events = 1,
                            .timed_events = 1,
                            .device_allocations = 1,
                            .device_bytes = 1000,
                            .pinned_allocations = 1}));
    support::expect_works(device);
  }
  EXPECT_EQ(live(), Live{});
}

TEST(CudaResources, MemoryThatIsExhaustedIsRefusedAndCanBeHadAgain) {
  constexpr std::size_t kBlock = 64 << 10;
  stand_in::set_device_memory(16 * kBlock);
  const Device device = open("cuda:0");
  EXPECT_EQ(device.info().memory_bytes, 16 * kBlock);
  std::vector<DeviceBuffer> blocks;
  for (int round = 0; round < 3; ++round) {
    while (blocks.size() < 16) blocks.emplace_back(device, kBlock);
    try {
      const DeviceBuffer more(device, 1);
      ADD_FAILURE() << "there was more";
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.bytes(), 1U);
      EXPECT_EQ(error.request(), "cudaMalloc(1 bytes) on cuda:0");
      EXPECT_NE(std::string(error.what()).find("cudaErrorMemoryAllocation"), std::string::npos);
    }
    blocks.clear();
    support::expect_works(device);
  }
}

TEST(CudaResources, TheDevicesHaveMemoryOfTheirOwn) {
  const Device first = open("cuda:0");
  const Device second = open("cuda:1");
  const std::size_t all = first.info().memory_bytes;
  stand_in::set_device_memory(1 << 20);
  const DeviceBuffer here(first, 1 << 20);
  const DeviceBuffer there(second, 1 << 20);
  EXPECT_THROW(DeviceBuffer(second, 1), OutOfMemory);
  EXPECT_GT(all, std::size_t{1} << 20);
}

}  // namespace cuda_resources_test
}  // namespace leat::gpu
