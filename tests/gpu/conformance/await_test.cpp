// What every backend promises of waiting for an event, in whichever way: on a fiber, on a thread,
// and cancelled. What on_done alone promises: select_test.cpp.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <iterator>
#include <stdexcept>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/plain_threads.h"

namespace leat::gpu {
namespace await_test {

using namespace std::chrono_literals;
using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

class GpuAwait : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuAwait, testing::ValuesIn(test_backends()), backend_title);

struct Way {
  const char* name;
  void (*wait)(const Event& event);
};
constexpr Way kWays[] = {
    {"await", [](const Event& event) { await(event); }},
    {"await_until", [](const Event& event) { EXPECT_TRUE(event.await_until(from_now(1h))); }},
    {"select",
     [](const Event& event) {
       const Channel<int> silence(0);
       bool done = false;
       EXPECT_EQ(select(on_recv(silence), on_done(event, [&] { done = true; })), 1);
       EXPECT_TRUE(done);
     }},
    {"Selector",
     [](const Event& event) {
       Selector only;
       only.add(on_done(event));
       EXPECT_EQ(only.select(), 0U);
     }},
};

// If the wait blocked its worker, the other fiber would never open the gate: one worker suffices.
TEST_P(GpuAwait, SuspendsTheFiberAlone) {
  with_device([](const Device& device) {
    const auto wait_and_open = [&device] {
      for (const Way& way : kWays) {
        SCOPED_TRACE(way.name);
        const Stream stream(device);
        const Event event(device);
        bool ran = false;
        const Gate gate(stream);
        stream.launch_host([&ran] { ran = true; });
        event.record(stream);

        TaskGroup group;
        const Channel<int> about_to_wait(0);
        group.go([&] {
          about_to_wait.send(0);
          way.wait(event);
          EXPECT_TRUE(ran);
        });
        static_cast<void>(about_to_wait.recv());
        yield();
        EXPECT_FALSE(event.is_done());
        gate.open();
        group.wait();
        EXPECT_TRUE(event.is_done());
      }
    };
    on_a_fiber(wait_and_open, {.workers = 1});
  });
}

TEST_P(GpuAwait, BlocksPlainThreadsUntilItIsDone) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Event event(device);
    bool ran = false;
    const Gate gate(stream);
    stream.launch_host([&ran] { ran = true; });
    event.record(stream);
    on_plain_threads(
        std::ssize(kWays),
        [&](int way) {
          kWays[way].wait(event);
          EXPECT_TRUE(ran);
        },
        [&] { gate.open(); });
  });
}

TEST_P(GpuAwait, ManyFibersWaitForOneRecord) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      constexpr std::size_t kFibers = 100;
      const Stream stream(device);
      const Event event(device);
      bool ran = false;
      std::size_t woken = 0;
      const Gate gate(stream);
      stream.launch_host([&ran] { ran = true; });
      event.record(stream);

      TaskGroup group;
      const Channel<bool> seen(kFibers);
      for (std::size_t i = 0; i < kFibers; ++i) {
        group.go([&, i] {
          kWays[i % std::size(kWays)].wait(event);
          seen.send(ran);
        });
      }
      yield();
      gate.open();
      group.wait();
      seen.close();
      for (const bool was : seen) woken += was ? 1 : 0;
      EXPECT_EQ(woken, kFibers);
    });
  });
}

TEST_P(GpuAwait, ThrowsCancelledAndTheDeviceWorksOn) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      const Stream stream(device);
      const Event event(device);
      const Gate gate(stream);
      event.record(stream);
      for (int i = 0; i < 80; ++i) {
        const Way& way = kWays[i % std::ssize(kWays)];
        SCOPED_TRACE(way.name);
        TaskGroup group;
        const Channel<int> about_to_wait(0);
        const Channel<bool> cancelled(1);
        group.go([&] {
          about_to_wait.send(0);
          try {
            way.wait(event);
          } catch (const Cancelled&) {
            cancelled.send(true);  // there is room: no wait
            throw;
          }
          cancelled.send(false);
        });
        static_cast<void>(about_to_wait.recv());
        // Stopped before, while, and after it parks.
        for (int yields = i / std::ssize(kWays); yields > 0; --yields) yield();
        group.stop();
        group.wait();
        EXPECT_TRUE(cancelled.recv().value());
      }
      EXPECT_FALSE(event.is_done());
      gate.open();
      await(event);
      EXPECT_TRUE(event.is_done());
      expect_works(device);
    });
  });
}

TEST_P(GpuAwait, TellsOfAFailedDevice) {
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name);
    with_device([&way](const Device& device) {
      on_a_fiber([&] {
        const Stream stream(device);
        const Event event(device);
        const Gate gate(stream);
        stream.launch_host([] { throw std::runtime_error("bad kernel"); });
        event.record(stream);
        Selector pending;
        pending.add(on_done(event));
        gate.open();
        for (int i = 0; i < 2; ++i) {
          EXPECT_THROW(way.wait(event), GpuError);
          EXPECT_THROW(pending.select(), GpuError);
        }
      });
    });
  }
}

TEST_P(GpuAwait, AwaitUntilSaysWhetherTheRecordIsDone) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Event event(device);
    EXPECT_TRUE(event.await_until(TimePoint::min()));  // never recorded
    bool ran = false;
    const Gate gate(stream);
    stream.launch_host([&ran] { ran = true; });
    event.record(stream);
    for (int i = 0; i < 100; ++i) {
      EXPECT_FALSE(event.await_until(TimePoint::min()));
      EXPECT_FALSE(event.await_until(now() - 1s));
      EXPECT_FALSE(event.await_until(from_now(1us)));
    }
    on_plain_threads(
        1,
        [&](int /*thread*/) {
          EXPECT_TRUE(event.await_until(from_now(1h)));
          EXPECT_TRUE(ran);
        },
        [&] { gate.open(); });
    EXPECT_TRUE(event.await_until(TimePoint::max()));
    EXPECT_TRUE(event.await_until(now() - 1s));
  });
}

TEST_P(GpuAwait, AwaitUntilIsOfTheLatestRecord) {
  with_device([](const Device& device) {
    const Stream first(device);
    const Stream second(device);
    const Event event(device);
    event.record(first);
    EXPECT_TRUE(event.await_until(TimePoint::max()));
    const Gate gate(second);
    event.record(second);
    EXPECT_FALSE(event.await_until(from_now(1us)));
    gate.open();
    EXPECT_TRUE(event.await_until(from_now(1h)));
  });
}

TEST_P(GpuAwait, AwaitOfADoneEventReturnsOnAFiberAskedToStop) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      const Stream stream(device);
      const Event event(device);
      event.record(stream);
      event.sync();
      bool returned = false;
      TaskGroup group;
      group.stop();
      group.go([&] {
        await(event);
        returned = true;
      });
      group.wait();
      EXPECT_TRUE(returned);
    });
  });
}

TEST_P(GpuAwait, SyncAndEnqueueAreNoCancellationPoints) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      const Stream stream(device);
      const Event event(device);
      const Gate gate(stream);
      int ran = 0;
      bool synced = false;
      TaskGroup group;
      group.stop();
      group.go([&] {
        for (int i = 0; i < 3'000; ++i) stream.launch_host([&ran] { ++ran; });  // more than fit
        event.record(stream);
        event.sync();
        stream.sync();
        synced = true;
      });
      on_plain_threads(1, [&](int /*thread*/) { gate.open(); });
      group.wait();
      EXPECT_TRUE(synced);
      EXPECT_EQ(ran, 3'000);
    });
  });
}

}  // namespace await_test
}  // namespace leat::gpu
