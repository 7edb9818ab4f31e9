// What the host device alone promises: how it ends, how it fails, and how it lives with schedulers.
#include <gtest/gtest.h>

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
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/tests/support/bytes.h"
#include "leat/tests/support/gate.h"
#include "leat/tests/support/plain_threads.h"

namespace leat::gpu {
namespace {

using namespace std::chrono_literals;
using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::byte kPoison{0xA5};
constexpr int kMoreThanFit = 3'000;  // a stream's queue holds 1,024 operations

/// `f()` throws a GpuError that says all of that.
template <class F>
void expect_error(const F& f, const std::vector<std::string_view>& parts) {
  try {
    f();
    ADD_FAILURE() << "no error";
  } catch (const GpuError& e) {
    for (const std::string_view part : parts) {
      EXPECT_NE(std::string_view(e.what()).find(part), std::string_view::npos) << e.what();
    }
  }
}

// ---- The scheduler that it runs on ends

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
    expect_error([&] { pending->await(); }, says);
    expect_error([&] { pending->sync(); }, says);
    expect_error([&] { static_cast<void>(pending->is_done()); }, says);
    expect_error([&] { stream->sync(); }, says);
    expect_error([&] { static_cast<void>(stream->is_done()); }, says);
    expect_error([&] { stream->launch_host([] {}); }, says);
    expect_error([&] { copy_async(*stream, there->span(), pinned->span()); }, says);
    expect_error([&] { done->record(*stream); }, says);
    expect_error([&] { stream->wait(*pending); }, says);
    expect_error([&] { const Stream another(*device); }, says);
    expect_error([&] { done->await(); }, says);
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
  expect_error([&] { const Stream stream(*device); }, {"host:0", "has ended"});
  const DeviceBuffer memory(*device, 100);  // memory needs no scheduler
}

TEST(HostDevice, WhoWaitsWhenItsRunEndsIsToldSo) {
  std::optional<Remains> remains(std::in_place);
  const Channel<int> about_to_wait(3);
  std::vector<std::jthread> threads;
  const auto start = [&](auto f) {
    threads.emplace_back([&about_to_wait, f] {
      about_to_wait.send(0);
      expect_error(f, {"device lost"});
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

// ---- A device of a plain thread, and fibers of a run

// Ten milliseconds, in which every fiber of the run is parked, and seen to be.
constexpr Duration kLong = 10ms;

TEST(HostDevice, AwaitingOneThatRunsElsewhereIsNoDeadlock) {
  const Device device = open("host");
  run(
      [&] {
        const Stream stream(device);
        const Event event(device);
        stream.launch_host([] {}, kLong);
        event.record(stream);
        event.await();
        stream.launch_host([] {}, kLong);
        stream.sync();
      },
      {.workers = 1});
}

TEST(HostDevice, AFullQueueOfOneThatRunsElsewhereIsNoDeadlock) {
  const Device device = open("host");
  run(
      [&] {
        for (int i = 0; i < 20; ++i) {
          const Stream stream(device);  // its fiber may not have run yet when the queue is full
          int ran = 0;
          for (int k = 0; k < kMoreThanFit; ++k) stream.launch_host([&ran] { ++ran; });
          stream.sync();
          EXPECT_EQ(ran, kMoreThanFit);
        }
      },
      {.workers = 1});
}

TEST(HostDevice, AStreamThatWaitsForADeviceThatRunsElsewhereIsNoDeadlock) {
  const Device elsewhere = open("host:0");
  run(
      [&] {
        const Device here = open("host:1");
        const Stream producer(elsewhere);
        const Stream consumer(here);
        const Event produced(elsewhere);
        const Event consumed(here);
        producer.launch_host([] {}, kLong);
        produced.record(producer);
        consumer.wait(produced);
        consumed.record(consumer);
        consumed.await();
        EXPECT_TRUE(produced.is_done());
      },
      {.workers = 1});
}

TEST(HostDevice, DroppingTheLastHandleOfOneThatRunsElsewhereIsNoDeadlock) {
  bool ran = false;
  std::optional<Device> device(open("host"));
  run(
      [&] {
        Stream(*device).launch_host([&ran] { ran = true; }, kLong);
        device.reset();
      },
      {.workers = 1});
  EXPECT_TRUE(ran);
}

TEST(HostDevice, AGateThatNobodyOpensIsADeadlock) {
  EXPECT_THROW(run([] {
                 const Device device = open("host");
                 const Stream stream(device);
                 const Stream other(device);
                 const Event event(device);
                 const Gate gate(stream);
                 event.record(stream);
                 other.wait(event);
                 other.sync();
               }),
               Deadlock);
}

// ---- A kernel throws

TEST(HostDevice, AKernelThatThrowsIsNamedByEveryLaterCall) {
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
  expect_error([&] { after.await(); }, says);
  expect_error([&] { stream.sync(); }, says);
  expect_error([&] { other.launch_host([] {}); }, says);
  EXPECT_FALSE(ran_after);
  expect_error([&] { before.await(); }, says);
  expect_works(open("host:7"));
}

TEST(HostDevice, AKernelThatThrowsSomethingUnknownFailsItToo) {
  const Device device = open("host");
  const Stream stream(device);
  const Event event(device);
  const Gate gate(stream);
  stream.launch_host([] { throw 42; });  // NOLINT(hicpp-exception-baseclass): that is the test
  event.record(stream);
  gate.open();
  expect_error([&] { event.sync(); }, {"unknown exception"});
}

TEST(HostDevice, AFailureReachesWhoWaitsForItsEvents) {
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
  expect_error([&] { end.sync(); }, {"host:1", "bad kernel"});
  EXPECT_FALSE(consumed);
  expect_error([&] { late_consumer.wait(produced); }, {"host:1", "bad kernel"});
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
    view.launch_host([stream = std::move(stream), device = std::move(device), &ran] {
      ran.push_back(1);
    });
    view.launch_host([signal = std::make_unique<Signal>(destroyed), &ran] { ran.push_back(2); });
  }
  gate->open();
  static_cast<void>(destroyed.recv());
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST(HostDevice, ItsLastHandleMayGoWithAKernelsClosure) {
  for (int i = 0; i < 10; ++i) drop_the_last_handle_in_a_kernel();
}

TEST(HostDevice, ItsLastHandleMayGoWithAKernelsClosureInARun) {
  for (int i = 0; i < 10; ++i) {
    VirtualClock clock;
    run(drop_the_last_handle_in_a_kernel, {.workers = 1 + i % 2, .clock = &clock});
  }
}

TEST(HostDevice, FreeingWaitsForNothingAndWorkQueuedKeepsItsMemory) {
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

TEST(HostDevice, ABufferOwnedByAKernelIsFreedBehindAFullQueue) {
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

TEST(HostDevice, AllocatesUpToTheMemoryOfItsModel) {
  const Device device = open_host({.memory_bytes = 1'000});
  std::optional<DeviceBuffer> first(std::in_place, device, 600);
  expect_error([&] { const DeviceBuffer second(device, 401); },
               {"host:0", "401 bytes", "600 bytes are in use of 1000"});
  const DeviceBuffer second(device, 400);
  expect_error([&] { const DeviceBuffer third(device, 1); }, {"1000 bytes are in use"});
  first.reset();
  const DeviceBuffer third(device, 600);
  const PinnedBuffer pinned(device, 5'000);  // is not on the device
  const Stream stream(device);
  copy_async(stream, third.subspan(0, 400), second.span());
  stream.sync();
}

TEST(HostDevice, MemoryFreedCountsUntilTheWorkThatUsesItHasRun) {
  const Device device = open_host({.memory_bytes = 1'000});
  const Stream stream(device);
  const PinnedBuffer pinned = pinned_filled(device, 600, kPoison);
  std::optional<DeviceBuffer> first(std::in_place, device, 600);
  const Gate gate(stream);
  copy_async(stream, first->span(), pinned.span());
  first.reset();
  expect_error([&] { const DeviceBuffer second(device, 600); }, {"600 bytes are in use of 1000"});
  gate.open();
  stream.sync();
  const DeviceBuffer second(device, 600);
  EXPECT_EQ(second.size(), 600U);
}

TEST(HostDevice, AFullQueueHoldsTheCallerBackAndOneWorkerSuffices) {
  run(
      [] {
        const Device device = open("host");
        const Stream stream(device);
        const Gate gate(stream);
        int enqueued = 0;
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

}  // namespace
}  // namespace leat::gpu
