// What every backend promises of on_done: an event as a case of select.
#include "leat/csp/select.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
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
namespace select_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

class GpuSelect : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuSelect, testing::ValuesIn(test_backends()), backend_title);

TEST_P(GpuSelect, ChoosesWhatIsReadyWhileTheEventIsPending) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Event event(device);
    const Channel<int> values(1);
    const Gate gate(stream);
    event.record(stream);
    EXPECT_EQ(select(on_done(event), otherwise()), 1);
    values.send(7);
    std::optional<int> got;
    EXPECT_EQ(select(on_done(event), on_recv(values, [&](std::optional<int> v) { got = v; })), 1);
    EXPECT_EQ(got, 7);
    EXPECT_FALSE(event.is_done());
  });
}

TEST_P(GpuSelect, ADoneEventIsReadyAtOnceAndStaysReady) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Event event(device);
    int times = 0;
    EXPECT_EQ(select(on_done(event, [&] { ++times; }), otherwise()), 0);  // never recorded
    event.record(stream);
    event.sync();
    EXPECT_EQ(select(on_done(event, [&] { ++times; }), otherwise()), 0);
    EXPECT_EQ(select(on_done(event, [&] { ++times; })), 0);
    EXPECT_EQ(times, 3);
  });
}

// One worker suffices: the select suspends the fiber alone.
TEST_P(GpuSelect, SuspendsTheFiberUntilTheEventIsDone) {
  with_device([](const Device& device) {
    const auto select_and_open = [&device] {
      const Stream stream(device);
      const Event event(device);
      const Channel<int> silence(0);
      const Channel<int> about_to_select(0);
      bool ran = false;
      const Gate gate(stream);
      stream.launch_host([&ran] { ran = true; });
      event.record(stream);
      TaskGroup group;
      group.go([&] {
        about_to_select.send(0);
        bool done = false;
        EXPECT_EQ(select(on_recv(silence), on_done(event, [&] { done = true; })), 1);
        EXPECT_TRUE(done);
        EXPECT_TRUE(ran);
      });
      static_cast<void>(about_to_select.recv());
      yield();
      EXPECT_FALSE(event.is_done());
      gate.open();
      group.wait();
    };
    on_a_fiber(select_and_open, {.workers = 1});
  });
}

TEST_P(GpuSelect, BlocksAPlainThreadUntilTheEventIsDone) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Event event(device);
    const Channel<int> silence(0);
    bool ran = false;
    const Gate gate(stream);
    stream.launch_host([&ran] { ran = true; });
    event.record(stream);
    on_plain_threads(
        4,
        [&](int /*thread*/) {
          EXPECT_EQ(select(on_done(event), on_recv(silence)), 0);
          EXPECT_TRUE(ran);
        },
        [&] { gate.open(); });
  });
}

TEST_P(GpuSelect, ManySelectOverOneRecord) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      constexpr int kFibers = 100;
      const Stream stream(device);
      const Event event(device);
      const Channel<int> silence(0);
      const Channel<bool> seen(kFibers);
      bool ran = false;
      const Gate gate(stream);
      stream.launch_host([&ran] { ran = true; });
      event.record(stream);
      TaskGroup group;
      for (int i = 0; i < kFibers; ++i) {
        group.go([&, i] {
          if (i % 2 == 0) {
            select(on_done(event), on_recv(silence));
          } else {
            await(event);  // beside them
          }
          seen.send(ran);
        });
      }
      yield();
      gate.open();
      group.wait();
      seen.close();
      int woken = 0;
      for (const bool was : seen) woken += was ? 1 : 0;
      EXPECT_EQ(woken, kFibers);
    });
  });
}

TEST_P(GpuSelect, TakesTheFirstOfSeveralEventsAndTheOthersLater) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      const Stream first(device);
      const Stream second(device);
      const Event first_end(device);
      const Event second_end(device);
      const Gate gate(first);
      first_end.record(first);
      second_end.record(second);
      EXPECT_EQ(select(on_done(first_end), on_done(second_end)), 1);
      gate.open();
      EXPECT_EQ(select(on_done(first_end)), 0);
    });
  });
}

// The event is recorded again, and then destroyed, while the case waits.
TEST_P(GpuSelect, IsAboutTheRecordAtTheCall) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      const Stream held(device);
      const Stream idle(device);
      std::optional<Event> event(device);
      const Gate gate(held);
      event->record(idle);
      event->sync();
      Selector done;
      Selector pending;
      done.add(on_done(*event));
      event->record(held);
      pending.add(on_done(*event));
      event->record(idle);
      event.reset();
      EXPECT_EQ(done.try_select(), 0U);
      EXPECT_EQ(pending.try_select(), std::nullopt);
      gate.open();
      EXPECT_EQ(pending.select(), 0U);
    });
  });
}

TEST_P(GpuSelect, ASelectorTakesItAgainAndAgain) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      const Stream stream(device);
      const Channel<int> values(1);
      int done = 0;
      Selector any;
      {
        const Event event(device);
        const Gate gate(stream);
        event.record(stream);
        any.add(on_done(event, [&] { ++done; }));
        any.add(on_recv(values));
        EXPECT_EQ(any.try_select(), std::nullopt);
        values.send(1);
        EXPECT_EQ(any.select(), 1U);
        gate.open();
      }
      for (int i = 1; i <= 3; ++i) {
        EXPECT_EQ(any.select(), 0U);
        EXPECT_EQ(done, i);
      }
    });
  });
}

TEST_P(GpuSelect, ThrowsCancelledAndTheDeviceWorksOn) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      const Stream stream(device);
      const Event event(device);
      const Channel<int> silence(0);
      const Gate gate(stream);
      event.record(stream);
      for (int yields = 0; yields < 20; ++yields) {
        TaskGroup group;
        const Channel<int> about_to_select(0);
        const Channel<bool> cancelled(1);
        group.go([&] {
          about_to_select.send(0);
          try {
            select(on_done(event), on_recv(silence));
          } catch (const Cancelled&) {
            cancelled.send(true);
            throw;
          }
          cancelled.send(false);
        });
        static_cast<void>(about_to_select.recv());
        for (int i = 0; i < yields; ++i) yield();
        group.stop();
        group.wait();
        EXPECT_TRUE(cancelled.recv().value());
      }
      EXPECT_FALSE(event.is_done());
      gate.open();
      EXPECT_EQ(select(on_done(event)), 0);
      expect_works(device);
    });
  });
}

// Cases that come and go while their events are reached: a token is neither lost nor misdelivered.
TEST_P(GpuSelect, GivenUpAtAnyMomentLeavesNoTrace) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      TaskGroup group;
      std::atomic<int> done = 0;
      for (int fiber = 0; fiber < 4; ++fiber) {
        group.go([&device, &done] {
          const Stream stream(device);
          const Event event(device);
          for (int i = 0; i < 200; ++i) {
            bool ran = false;
            stream.launch_host([&ran] { ran = true; });
            event.record(stream);
            for (int k = 0; k < i % 4; ++k) {
              select(on_done(event), otherwise());
              yield();
            }
            select(on_done(event, [&] { ++done; }));
            EXPECT_TRUE(ran);
          }
        });
      }
      group.wait();
      EXPECT_EQ(done, 800);
    });
  });
}

TEST_P(GpuSelect, TellsOfAFailedDevice) {
  with_device([](const Device& device) {
    on_a_fiber([&device] {
      const Stream stream(device);
      const Event event(device);
      const Channel<int> silence(0);
      const Gate gate(stream);
      stream.launch_host([] { throw std::runtime_error("bad kernel"); });
      event.record(stream);
      Selector pending;
      pending.add(on_done(event));
      gate.open();
      for (int i = 0; i < 2; ++i) {
        EXPECT_THROW(pending.select(), GpuError);
        EXPECT_THROW(select(on_done(event), on_recv(silence)), GpuError);
      }
    });
  });
}

// A case that outlives every other handle of the device.
TEST_P(GpuSelect, KeepsTheDevice) {
  with_device([](Device opened) {
    on_a_fiber([device = std::optional<Device>(std::move(opened))]() mutable {
      Selector pending;
      bool ran = false;
      {
        const Stream stream(*device);
        const Event event(*device);
        stream.launch_host([&ran] { ran = true; });
        event.record(stream);
        pending.add(on_done(event));
      }
      device.reset();
      EXPECT_EQ(pending.select(), 0U);
      EXPECT_TRUE(ran);
    });
  });
}

}  // namespace select_test
}  // namespace leat::gpu
