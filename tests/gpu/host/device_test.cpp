// What only the host device promises: about its own scheduler, the scheduler that it was opened on,
// and the schedulers of its users.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/notification.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/gpu_error.h"
#include "tests/support/run.h"
#include "tests/support/thread_limit.h"

namespace leat::gpu {
namespace device_test {

using namespace std::chrono_literals;
using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::byte kPoison{0xA5};

/// What is left of a run: a device whose stream was held when the run ended.
struct Remains {
  std::optional<Device> device;
  std::optional<Stream> stream;
  std::optional<Event> done;
  std::optional<Event> pending;
  std::optional<PinnedBuffer> pinned;
  std::optional<DeviceBuffer> there;
  std::optional<Gate> gate;

  void make() {
    device = open("host");
    stream.emplace(*device);
    done.emplace(*device);
    pending.emplace(*device);
    pinned.emplace(pinned_filled(*device, 100, kPoison));
    there.emplace(*device, 100);
    done->record(*stream);
    done->sync();
    gate.emplace(*stream);
    copy_async(*stream, there->span(), pinned->span());
    pending->record(*stream);
  }

  void expect_lost() {
    const std::vector<std::string_view> says = {"host:0", "device lost", "scheduler", "has ended"};
    expect_gpu_error([&] { pending->await(); }, says);
    expect_gpu_error([&] { pending->sync(); }, says);
    expect_gpu_error([&] { static_cast<void>(pending->is_done()); }, says);
    expect_gpu_error([&] { stream->sync(); }, says);
    expect_gpu_error([&] { static_cast<void>(stream->is_done()); }, says);
    expect_gpu_error([&] { stream->launch_host([] {}); }, says);
    expect_gpu_error([&] { copy_async(*stream, there->span(), pinned->span()); }, says);
    expect_gpu_error([&] { done->record(*stream); }, says);
    expect_gpu_error([&] { stream->wait(*pending); }, says);
    expect_gpu_error([&] { const Stream another(*device); }, says);
    expect_gpu_error([&] { done->await(); }, says);
  }
};

TEST(HostDevice, UsedAfterItsRunHasEndedSaysSo) {
  for (const int workers : {1, 2}) {
    Remains remains;
    run([&] { remains.make(); }, {.workers = workers});
    remains.expect_lost();
  }
}

TEST(HostDevice, UsedAfterItsSchedulerWasDestroyedSaysSo) {
  Remains remains;
  {
    Scheduler scheduler({.workers = 2});
    scheduler.go([&] { remains.make(); });
    scheduler.join();
  }
  remains.expect_lost();
}

TEST(HostDevice, MayOutliveTheVirtualClockOfItsRun) {
  Remains remains;
  {
    VirtualClock clock;
    run([&] { remains.make(); }, {.workers = 1, .clock = &clock});
    run([] { sleep_for(1s); }, {.workers = 1, .clock = &clock});  // the clock is free again
    EXPECT_EQ(clock.elapsed(), 1s);
  }
  remains.expect_lost();
}

TEST(HostDevice, WithoutStreamsUsedAfterItsRunSaysSo) {
  std::optional<Device> device;
  run([&] { device = open("host"); });
  expect_gpu_error([&] { const Stream stream(*device); }, {"host:0", "has ended"});
  const DeviceBuffer memory(*device, 100);  // memory needs no scheduler
}

constexpr int kMoreThanFit = 3'000;  // a stream's queue holds 1,024 operations

TEST(HostDevice, WhoWaitsWhenItsRunEndsIsToldSo) {
  std::optional<Remains> remains(std::in_place);
  const Channel<int> about_to_wait(3);
  std::vector<std::jthread> threads;
  const auto start = [&](auto f) {
    threads.emplace_back([&about_to_wait, f] {
      about_to_wait.send(0);
      expect_gpu_error(f, {"device lost"});
    });
  };
  run(
      [&] {
        remains->make();
        start([&] { remains->stream->sync(); });
        start([&] { remains->pending->await(); });
        start([&] {
          for (int i = 0; i < kMoreThanFit; ++i) remains->stream->launch_host([] {});
        });
        const OutsideWork threads_will_send;
        for (int i = 0; i < 3; ++i) static_cast<void>(about_to_wait.recv());
      },
      {.workers = 2});
  threads.clear();
  remains->expect_lost();
}

TEST(HostDevice, OutlivesTheFiberAndTheGroupThatOpenedIt) {
  run([] {
    std::optional<Device> device;
    {
      TaskGroup group;
      group.go([&] { device = open("host"); });
      group.wait();
      group.stop();
    }
    expect_works(*device);
  });
}

TEST(HostDevice, ItsMemoryIsTheHosts) {
  const Device device = open("host");
  EXPECT_TRUE(device.capabilities().device_memory_is_host_memory);
  EXPECT_TRUE(device.capabilities().host_kernels);
  EXPECT_FALSE(device.capabilities().cuda_kernels);
  const Stream stream(device);
  const auto bytes = random_bytes(1'000, 31);
  const PinnedBuffer from = pinned_copy(device, bytes);
  const DeviceBuffer there(device, bytes.size());
  copy_async(stream, there.span(), from.span());
  stream.sync();
  expect_bytes(std::span<const std::byte>(there.data(), there.size()), bytes);
}

// Device 0's kernel holds the last handle of device 1, whose stream waits for device 0's next
// record.
TEST(HostDevice, MayGoInAKernelOfAnotherForWhichItWaits) {
  for (const bool in_a_run : {false, true}) {
    const auto body = [] {
      const Device first = open("host:0");
      const Stream stream(first);
      const Event event(first);
      {
        const Gate gate(stream);
        const Device second = open("host:1");
        const Stream waiting(second);
        stream.launch_host([second] { static_cast<void>(second); });
        event.record(stream);
        waiting.wait(event);
      }
      stream.sync();
    };
    in_a_run ? run(body) : body();
  }
}

TEST(HostDevice, InVirtualTimeItWaitsForNoneOfRealTime) {
  const Device real = open_host({.memory_bytes = 1'000});
  const Stream there(real);
  const Event event(real);
  const Gate gate(there);
  event.record(there);
  support::in_virtual_time([&] {
    const Device device = open("host");
    const Stream stream(device);
    EXPECT_THROW(stream.wait(event), std::logic_error);
    expect_works(device);
    // What it has to wait for itself, where it has to.
    std::optional<DeviceBuffer> buffer(std::in_place, real, 1'000);
    buffer.reset();
    EXPECT_THROW(DeviceBuffer(real, 1'000), std::logic_error);
    const auto fill_the_queue = [&] {
      for (int i = 0; i < kMoreThanFit; ++i) event.record(there);
    };
    EXPECT_THROW(fill_the_queue(), std::logic_error);
  });
}

// A tensor that outlived its feed kept the device's threads.
TEST(HostDevice, ItsThreadsEndWithItsLastHandleOrStreamAndItsMemoryMayLiveOn) {
  const std::size_t before = threads();
  std::optional<Device> device(open("host"));
  const Device memory = device->for_memory();
  EXPECT_EQ(memory, *device);
  const auto bytes = random_bytes(1'000, 3);
  const PinnedBuffer from = pinned_copy(memory, bytes);
  const PinnedBuffer to(memory, bytes.size());
  const Event copied(memory);
  std::optional<Stream> stream(memory);
  device.reset();
  EXPECT_GT(threads(), before) << "the stream needs them";
  std::optional<DeviceBuffer> there(std::in_place, *stream, bytes.size());
  copy_async(*stream, there->span(), from.span());
  copy_async(*stream, to.span(), there->span());
  copied.record(*stream);
  stream.reset();
  EXPECT_TRUE(threads_become(before));
  EXPECT_TRUE(copied.is_done());
  EXPECT_TRUE(std::ranges::equal(to.span().bytes(), bytes));
  expect_gpu_error([&] { const Stream late(memory); },
                   {"host:0", "create a stream", "closed", "keep the Device"});
  std::thread([&] { there.reset(); }).join();
  EXPECT_EQ(memory.memory().device.used, 0U);
  const DeviceBuffer later(memory, 100);
}

// It cannot join the scheduler that it is on: that ended the program.
TEST(HostDevice, AFiberOfItsOwnSchedulerMayDropItsLastHandle) {
  const std::size_t before = threads();
  const auto dropped = std::make_shared<Notification>();
  {
    Stream stream(open("host"));
    stream.launch_host(
        [dropped, last = stream.device()] { go([dropped, last] { dropped->wait(); }); });
    stream.sync();
  }
  dropped->notify();
  EXPECT_TRUE(threads_become(before));
}

TEST(HostDevice, SizesThatNoMemoryHasAreRefused) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  const Device device = open_host({.memory_bytes = kMost});
  for (const std::size_t bytes : {kMost, kMost - 1, kMost - 100, kMost / 2 + 1}) {
    EXPECT_THROW(DeviceBuffer(device, bytes), OutOfMemory);
    EXPECT_THROW(PinnedBuffer(device, bytes), OutOfMemory);
  }
  EXPECT_EQ(device.memory().device.peak, 0U);
  EXPECT_EQ(device.memory().pinned.peak, 0U);
  expect_works(device);
}

}  // namespace device_test
}  // namespace leat::gpu
