// A host device that a plain thread opened, used by the fibers of a run: what is a deadlock, and
// what is not.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/plain_threads.h"
#include "tests/support/run.h"

namespace leat::gpu {
namespace device_elsewhere_test {

using namespace std::chrono_literals;
using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

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
      {.workers = 1, .deadlock_after = 0s});
}

constexpr int kMoreThanFit = 3'000;  // a stream's queue holds 1,024 operations

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
      {.workers = 1, .deadlock_after = 0s});
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
      {.workers = 1, .deadlock_after = 0s});
}

TEST(HostDevice, DroppingTheLastHandleOfOneThatRunsElsewhereIsNoDeadlock) {
  bool ran = false;
  std::optional<Device> device(open("host"));
  run(
      [&] {
        Stream(*device).launch_host([&ran] { ran = true; }, kLong);
        device.reset();
      },
      {.workers = 1, .deadlock_after = 0s});
  EXPECT_TRUE(ran);
}

TEST(HostDevice, AGateThatNobodyOpensIsADeadlock) {
  EXPECT_THROW(run(
                   [] {
                     const Device device = open("host");
                     const Stream stream(device);
                     const Stream other(device);
                     const Event event(device);
                     const Gate gate(stream);
                     event.record(stream);
                     other.wait(event);
                     other.sync();
                   },
                   {.deadlock_after = 0s}),
               Deadlock);
}

TEST(HostDevice, SelectingInARunOverACaseThatWasMadeBeforeItIsNoDeadlock) {
  const Device device = open("host");
  const Stream stream(device);
  const Event event(device);
  stream.launch_host([] {}, kLong);
  event.record(stream);
  Selector pending;
  pending.add(on_done(event));
  run([&] { EXPECT_EQ(pending.select(), 0U); }, {.workers = 1, .deadlock_after = 0s});
}

TEST(HostDevice, OneThatRunsElsewhereDoesNotServeVirtualTime) {
  const Device device = open("host");
  const Stream stream(device);
  const Event event(device);
  support::in_virtual_time([&] {
    EXPECT_THROW(event.await(), std::logic_error);
    EXPECT_THROW(event.sync(), std::logic_error);
    EXPECT_THROW(stream.sync(), std::logic_error);
    EXPECT_THROW(static_cast<void>(on_done(event)), std::logic_error);
    expect_works(open("host"));
  });
}

// A signal that a plain thread has used serves a run as a new one would.
TEST(HostDevice, ASelectOfAPlainThreadHidesNoLaterDeadlock) {
  std::optional<Device> device;
  EXPECT_THROW(run(
                   [&] {
                     device = open("host");
                     const Stream stream(*device);
                     const Event event(*device);
                     on_plain_threads(1, [&](int /*thread*/) { select(on_done(event)); });
                     const Gate gate(stream);
                     event.record(stream);
                     select(on_done(event));
                   },
                   {.deadlock_after = 0s}),
               Deadlock);
}

// One that waits beside it is another matter.
TEST(HostDevice, ACaseThatNobodyWaitsForHidesNoDeadlock) {
  const Device device = open("host");
  const Stream stream(device);
  const Event event(device);
  const Gate gate(stream);
  event.record(stream);
  EXPECT_THROW(run(
                   [&] {
                     Selector pending;
                     pending.add(on_done(event));
                     const Channel<int> silence(0);
                     static_cast<void>(silence.recv());
                   },
                   {.deadlock_after = 0s}),
               Deadlock);
}

TEST(HostDevice, SelectingOverOneThatRunsElsewhereIsNoDeadlock) {
  const Device device = open("host");
  run(
      [&] {
        const Stream stream(device);
        const Event event(device);
        const Channel<int> silence(0);
        for (int i = 0; i < 3; ++i) {  // also with a signal that was used before
          stream.launch_host([] {}, kLong);
          event.record(stream);
          EXPECT_EQ(select(on_done(event), on_recv(silence)), 0);
        }
      },
      {.workers = 1, .deadlock_after = 0s});
}

}  // namespace device_elsewhere_test
}  // namespace leat::gpu
