// What the host device alone promises of its streams: what a full queue does, and which waits are
// refused.
#include "leat/gpu/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

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

// An event of a device on another scheduler was reached on another clock.
TEST(HostStream, InRealTimeItMayWaitForAnEventOfAVirtualOne) {
  const Device elsewhere = open("host:1");  // in real time
  const Stream there(elsewhere);
  const Event start(elsewhere, Timing::kOn);
  const Event end(elsewhere, Timing::kOn);
  const Duration passed = support::in_virtual_time([&] {
    const Device device = open("host:0");
    const Stream stream(device);
    const Event reached(device);
    start.record(there);
    stream.launch_host([] {}, std::chrono::hours(1));
    reached.record(stream);
    there.wait(reached);
    end.record(there);
    reached.sync();
  });
  end.sync();
  EXPECT_EQ(passed, std::chrono::hours(1));
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
                   {.workers = 2, .deadlock_after = Duration::zero()}),
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

constexpr int kMoreThanFit = 3'000;  // a stream's queue holds 1,024 operations

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

TEST(HostStream, AModelledOperationBehindAWaitBeginsNoEarlierThanTheEvent) {
  const Device device = open_host({.copy_latency = 2ms});
  const Stream first(device);
  const Stream second(device);
  const PinnedBuffer pinned = pinned_filled(device, 64, std::byte{1});
  const DeviceBuffer there(device, 64);
  const Event start(device, Timing::kOn);
  const Event copied(device);
  const Event end(device, Timing::kOn);
  start.record(first);
  copy_async(first, there.span(), pinned.span());
  copied.record(first);
  second.wait(copied);
  copy_async(second, pinned.span(), there.span());  // by the other copy engine
  end.record(second);
  end.sync();
  EXPECT_GE(elapsed(start, end), 4ms);
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
