// What the host device alone promises of its streams: how a kernel fails, what may go while work is
// queued, and what a full queue does.
#include "leat/gpu/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/gpu_error.h"
#include "tests/support/run.h"

namespace leat::gpu {
namespace host_stream_test {

using namespace std::chrono_literals;
using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::byte kPoison{0xA5};
constexpr int kMoreThanFit = 3'000;  // a stream's queue holds 1,024 operations

// ---- A kernel throws

TEST(HostStream, AKernelThatThrowsIsNamedByEveryLaterCall) {
  const Device device = open("host:7");
  const Stream stream(device);
  const Stream other(device);
  const Event before(device);
  const Event after(device);
  before.record(stream);
  bool ran_after = false;
  const Gate gate(stream);
  stream.launch_host([] { throw std::runtime_error("bad kernel"); });
  stream.launch_host([&ran_after] { ran_after = true; });
  after.record(stream);
  gate.open();
  const std::vector<std::string_view> says = {"host:7", "bad kernel", "accepts no more work"};
  expect_gpu_error([&] { after.await(); }, says);
  expect_gpu_error([&] { stream.sync(); }, says);
  expect_gpu_error([&] { other.launch_host([] {}); }, says);
  EXPECT_FALSE(ran_after);
  expect_gpu_error([&] { before.await(); }, says);
  expect_works(open("host:7"));
}

TEST(HostStream, AKernelThatThrowsSomethingUnknownFailsItToo) {
  const Device device = open("host");
  const Stream stream(device);
  const Event event(device);
  const Gate gate(stream);
  stream.launch_host([] { throw 42; });  // NOLINT(hicpp-exception-baseclass): that is the test
  event.record(stream);
  gate.open();
  expect_gpu_error([&] { event.sync(); }, {"unknown exception"});
}

TEST(HostStream, AFailureReachesWhoWaitsForItsEvents) {
  const Device failing = open("host:1");
  const Device waiting = open("host:2");
  const Device late = open("host:3");
  const Stream producer(failing);
  const Stream consumer(waiting);
  const Stream late_consumer(late);
  const Event produced(failing);
  bool consumed = false;
  const Gate gate(producer);
  producer.launch_host([] { throw std::runtime_error("bad kernel"); });
  produced.record(producer);
  consumer.wait(produced);
  consumer.launch_host([&consumed] { consumed = true; });
  const Event end(waiting);
  end.record(consumer);
  gate.open();
  expect_gpu_error([&] { end.sync(); }, {"host:1", "bad kernel"});
  EXPECT_FALSE(consumed);
  expect_gpu_error([&] { late_consumer.wait(produced); }, {"host:1", "bad kernel"});
  expect_works(late);
}

// ---- Handles and memory go while work is queued

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

TEST(HostStream, TimesOfAFailedDeviceAreAnError) {
  VirtualClock clock;
  run(
      [] {
        const Device device = open("host");
        const Stream failing(device);
        const Stream other(device);
        const Event start(device, Timing::kOn);
        const Event end(device, Timing::kOn);
        failing.launch_host([] { throw std::runtime_error("bad kernel"); });
        start.record(other);
        end.record(other);
        expect_gpu_error([&] { end.await(); }, {"bad kernel"});
        expect_gpu_error([&] { static_cast<void>(elapsed(start, end)); }, {"bad kernel"});
      },
      {.workers = 1, .clock = &clock});
}

// An event of a device on another scheduler was reached on another clock.
TEST(HostStream, InRealTimeItMayWaitForAnEventOfAVirtualOne) {
  const Device elsewhere = open("host:1");  // in real time
  const Stream there(elsewhere);
  const Event start(elsewhere, Timing::kOn);
  const Event end(elsewhere, Timing::kOn);
  VirtualClock clock;
  run(
      [&] {
        const Device device = open("host:0");
        const Stream stream(device);
        const Event reached(device);
        start.record(there);
        stream.launch_host([] {}, std::chrono::hours(1));
        reached.record(stream);
        there.wait(reached);
        end.record(there);
        reached.sync();
      },
      {.workers = 1, .clock = &clock});
  end.sync();
  EXPECT_EQ(clock.elapsed(), std::chrono::hours(1));
  EXPECT_LT(elapsed(start, end), std::chrono::minutes(10));
}

TEST(HostStream, KernelsThatWaitForEachOthersStreamsAreADeadlockThatEnds) {
  EXPECT_THROW(run(
                   [] {
                     const Device device = open("host");
                     const Stream a(device);
                     const Stream b(device);
                     const Channel<int> both_run(0);
                     a.launch_host([&] {
                       static_cast<void>(both_run.recv());
                       b.sync();
                     });
                     b.launch_host([&] { a.sync(); });
                     both_run.close();
                     a.sync();
                   },
                   {.workers = 2}),
               Deadlock);
}

TEST(HostStream, AKernelThatSyncsItsOwnStreamFailsInsteadOfWaitingForItself) {
  const Device device = open("host");
  const Stream stream(device);
  const Stream other(device);
  stream.launch_host([&other] { other.sync(); });  // which is not its own
  stream.sync();
  stream.launch_host([&stream] { stream.sync(); });
  expect_gpu_error([&] { stream.sync(); }, {"a kernel cannot wait for its own stream"});
}

TEST(HostStream, AllocatesUpToTheMemoryOfItsModel) {
  const Device device = open_host({.memory_bytes = 1'000});
  std::optional<DeviceBuffer> first(std::in_place, device, 600);
  expect_gpu_error([&] { const DeviceBuffer second(device, 401); },
                   {"host:0", "401 bytes", "600 bytes are in use of 1000"});
  const DeviceBuffer second(device, 400);
  expect_gpu_error([&] { const DeviceBuffer third(device, 1); }, {"1000 bytes are in use"});
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
      expect_gpu_error([&] { const DeviceBuffer never(device, 901); },
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
    expect_gpu_error([&] { const DeviceBuffer second(device, 600); },
                     {"600 bytes are in use of 1000"});
  });
  first.reset();
  gate.open();
  stream.sync();
  const DeviceBuffer second(device, 600);
}

TEST(HostStream, AFullQueueHoldsTheCallerBackAndOneWorkerSuffices) {
  run(
      [] {
        const Device device = open("host");
        const Stream stream(device);
        const Gate gate(stream);
        std::atomic<int> enqueued = 0;
        int enqueued_when_held = 0;
        int ran = 0;
        go([&] {  // runs once the loop below waits
          enqueued_when_held = enqueued;
          EXPECT_EQ(ran, 0);
          gate.open();
        });
        for (; enqueued < kMoreThanFit; ++enqueued) stream.launch_host([&ran] { ++ran; });
        stream.sync();
        EXPECT_EQ(ran, kMoreThanFit);
        EXPECT_GE(enqueued_when_held, 1'023);
        EXPECT_LE(enqueued_when_held, 1'025);
      },
      {.workers = 1});
}

// Two records of one event at a time: the one that began later counts, though it ended earlier.
TEST(HostStream, ARecordThatWaitedForRoomDoesNotReplaceALaterOne) {
  run(
      [] {
        const Device device = open("host");
        const Stream full(device);
        const Stream idle(device);
        const Event event(device);
        const Gate first(full);
        for (int i = 1; i < 1'024; ++i) full.launch_host([] {});
        const Gate second(full);
        TaskGroup group;
        group.go([&] { event.record(full); });
        yield();  // it waits for room
        event.record(idle);
        event.sync();
        first.open();
        group.wait();
        EXPECT_FALSE(full.is_done());
        EXPECT_TRUE(event.is_done());
      },
      {.workers = 1});
}

// Where the link is modelled, an operation begins when the one before it is over, not when a timer
// has woken the stream: then each would be late by that. A machine may be too busy to run the
// stream before the next operation is over, but not always.
TEST(HostStream, ModelledOperationsFollowEachOtherWithoutAGapInRealTime) {
  constexpr int kCopies = 10;
  const Device device = open_host({.copy_latency = 2ms});
  const Stream stream(device);
  const PinnedBuffer from = pinned_filled(device, 64, std::byte{1});
  const DeviceBuffer there(device, 64);
  const Event start(device, Timing::kOn);
  const Event end(device, Timing::kOn);
  bool exact = false;
  for (int attempt = 0; attempt < 100 && !exact; ++attempt) {
    const Gate gate(stream);
    start.record(stream);
    for (int i = 0; i < kCopies; ++i) copy_async(stream, there.span(), from.span());
    end.record(stream);
    gate.open();
    end.sync();
    EXPECT_GE(elapsed(start, end), kCopies * 2ms);
    exact = elapsed(start, end) == kCopies * 2ms;
  }
  EXPECT_TRUE(exact);
}

TEST(HostStream, AKernelThatFillsItsOwnStreamsQueueIsToldSo) {
  const auto body = [] {
    const Device device = open("host");
    const Stream stream(device);
    std::string told;
    stream.launch_host([&] {
      try {
        for (int i = 0; i < kMoreThanFit; ++i) stream.launch_host([] {});
      } catch (const GpuError& error) {
        told = error.what();
      }
    });
    stream.sync();
    EXPECT_NE(told.find("the stream's queue is full"), std::string::npos) << told;
    expect_works(device);
  };
  body();
  run(body);
}

}  // namespace host_stream_test
}  // namespace leat::gpu
