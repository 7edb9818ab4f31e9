// What every backend promises of on_done: an event as a case of select. That it is waited for, told
// and cancelled as in the other ways: await_test.cpp.
#include "leat/csp/select.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/selector.h"
#include "leat/csp/task_group.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
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
