// What every backend promises of events: what a record covers, and whom it holds.
#include "leat/gpu/event.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/run.h"

namespace leat::gpu {
namespace event_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test
using namespace std::chrono_literals;

constexpr std::size_t kBytes = 4'099;

class GpuEvent : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuEvent, testing::ValuesIn(test_backends()), backend_title);

TEST_P(GpuEvent, NeverRecordedIsDone) {
  with_device([](const Device& device) {
    for (const Timing timing : {Timing::kOff, Timing::kOn}) {
      const Event event(device, timing);
      EXPECT_TRUE(event.is_done());
      event.sync();
      event.await();
    }
  });
}

TEST_P(GpuEvent, IsDoneWhenTheWorkBeforeItHasRun) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Event between(device);
    const Event after(device);
    const Gate first(stream);
    between.record(stream);
    const Gate second(stream);
    after.record(stream);

    EXPECT_FALSE(between.is_done());
    first.open();
    between.sync();
    EXPECT_TRUE(between.is_done());
    EXPECT_FALSE(after.is_done());
    second.open();
    after.sync();
    EXPECT_TRUE(after.is_done());
    EXPECT_TRUE(between.is_done());
  });
}

TEST_P(GpuEvent, RecordedAgainIsDoneWithTheLatestRecord) {
  with_device([](const Device& device) {
    const Stream held(device);
    const Stream idle(device);
    const Event event(device);
    const Gate gate(held);
    event.record(held);
    EXPECT_FALSE(event.is_done());
    event.record(idle);
    event.sync();
    EXPECT_TRUE(event.is_done());
    EXPECT_FALSE(held.is_done());
    event.record(held);
    EXPECT_FALSE(event.is_done());
  });
}

TEST_P(GpuEvent, RecordedAgainHoldsAnEarlierWaitToTheRecordItSaw) {
  with_device([](const Device& device) {
    const Stream held(device);
    const Stream idle(device);
    const Stream waits_for_first(device);
    const Stream waits_for_second(device);
    const Event event(device);
    const Gate gate(held);
    event.record(held);
    waits_for_first.wait(event);
    event.record(idle);
    waits_for_second.wait(event);
    const Event first_end(device);
    const Event second_end(device);
    first_end.record(waits_for_first);
    second_end.record(waits_for_second);

    second_end.sync();  // would not return if it waited for the first record
    EXPECT_FALSE(first_end.is_done());
    gate.open();
    first_end.sync();
  });
}

TEST_P(GpuEvent, RecordedAgainDoesNotHoldAnEarlierWait) {
  with_device([](const Device& device) {
    const Stream held(device);
    const Stream idle(device);
    const Stream waiter(device);
    const Event event(device);
    event.record(idle);
    waiter.wait(event);
    const Gate gate(held);
    event.record(held);
    waiter.sync();  // would not return if it waited for the second record
    EXPECT_FALSE(event.is_done());
  });
}

TEST_P(GpuEvent, DestroyedWhilePendingStillHoldsWhoWaitsForIt) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(kBytes, 5);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, kBytes, std::byte{0});
    const DeviceBuffer there(device, kBytes);
    const Stream producer(device);
    const Stream consumer(device);
    std::optional<Event> copied(device);
    const Gate gate(producer);
    copy_async(producer, there.span(), from.span());
    copied->record(producer);
    consumer.wait(*copied);
    copied.reset();
    copy_async(consumer, to.span(), there.span());
    // A pool may hand out the destroyed event again; that must not release the wait.
    const Stream idle(device);
    for (int i = 0; i < 8; ++i) {
      const Event another(device);
      another.record(idle);
      another.sync();
    }
    EXPECT_FALSE(consumer.is_done());
    gate.open();
    consumer.sync();
    expect_bytes(to.span().bytes(), bytes);
  });
}

TEST_P(GpuEvent, MovedFromMayBeDestroyedAndAssignedTo) {
  with_device([](const Device& device) {
    const Stream stream(device);
    Event first(device);
    const Gate gate(stream);
    first.record(stream);
    Event second(std::move(first));
    EXPECT_FALSE(second.is_done());
    { const Event destroyed_empty(std::move(first)); }  // NOLINT(bugprone-use-after-move)
    first = Event(device);
    EXPECT_TRUE(first.is_done());
    second = std::move(first);  // which is alive
    EXPECT_TRUE(second.is_done());
    EXPECT_THROW(first.sync(), std::logic_error);  // NOLINT(bugprone-use-after-move): it is empty
  });
}

TEST_P(GpuEvent, MovedFromSaysSoWhateverIsAskedOfIt) {
  with_device([](const Device& device) {
    const Stream stream(device);
    Event from(device, Timing::kOn);
    const Event to(std::move(from));
    // NOLINTBEGIN(bugprone-use-after-move): it says what it then is
    EXPECT_EQ(from.device(), device);
    EXPECT_THROW(from.record(stream), std::logic_error);
    EXPECT_THROW(from.sync(), std::logic_error);
    EXPECT_THROW(from.await(), std::logic_error);
    EXPECT_THROW(static_cast<void>(from.await_until(TimePoint::max())), std::logic_error);
    EXPECT_THROW(static_cast<void>(from.await_until(now())), std::logic_error);
    EXPECT_THROW(static_cast<void>(from.is_done()), std::logic_error);
    EXPECT_THROW(stream.wait(from), std::logic_error);
    EXPECT_THROW(static_cast<void>(elapsed(from, to)), std::logic_error);
    EXPECT_THROW(static_cast<void>(elapsed(to, from)), std::logic_error);
    EXPECT_THROW(static_cast<void>(on_done(from)), std::logic_error);
    // NOLINTEND(bugprone-use-after-move)
    expect_works(device);
  });
}

// The end was reached after the start had been, by as much as this test has slept in between.
TEST_P(GpuEvent, TheTimeBetweenThemIsInNanosecondsOfTheClock) {
  with_device([](const Device& device) {
    constexpr Duration kHeld = 20ms;
    constexpr Duration kResolution = 1us;  // of a device's clock
    const Stream stream(device);
    const Event start(device, Timing::kOn);
    const Event end(device, Timing::kOn);
    const TimePoint before = now();
    start.record(stream);
    start.sync();
    const Gate gate(stream);
    end.record(stream);
    sleep_for(kHeld);
    gate.open();
    end.sync();
    EXPECT_EQ(elapsed(start, start), Duration::zero());
    EXPECT_LE(elapsed(end, start), Duration::zero());
    EXPECT_GE(elapsed(start, end), kHeld - kHeld / 100 - kResolution);
    EXPECT_LE(elapsed(start, end), (now() - before) * 101 / 100 + kResolution);
  });
}

TEST_P(GpuEvent, ElapsedIsRefusedUnlessBothAreTimedRecordedAndDone) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Stream held(device);
    const Event timed(device, Timing::kOn);
    const Event untimed(device);
    const Event never(device, Timing::kOn);
    const Event pending(device, Timing::kOn);
    timed.record(stream);
    untimed.record(stream);
    stream.sync();
    const Gate gate(held);
    pending.record(held);
    for (const Event* bad : {&untimed, &never, &pending}) {
      EXPECT_THROW(static_cast<void>(elapsed(timed, *bad)), GpuError);
      EXPECT_THROW(static_cast<void>(elapsed(*bad, timed)), GpuError);
    }
    EXPECT_EQ(elapsed(timed, timed), Duration::zero());  // the refusals left no error behind
    gate.open();  // freeing memory may wait for all that is queued
    expect_works(device);
  });
}

TEST_P(GpuEvent, ElapsedBetweenTwoDevicesIsRefused) {
  with_two_devices([](const Device& a, const Device& b) {
    const Stream stream_a(a);
    const Stream stream_b(b);
    const Event event_a(a, Timing::kOn);
    const Event event_b(b, Timing::kOn);
    event_a.record(stream_a);
    event_b.record(stream_b);
    event_a.sync();
    event_b.sync();
    EXPECT_THROW(static_cast<void>(elapsed(event_a, event_b)), GpuError);
  });
}

TEST_P(GpuEvent, RecordOnAStreamOfAnotherDeviceIsRefused) {
  with_two_devices([](const Device& a, const Device& b) {
    const Stream stream(b);
    const Event event(a);
    EXPECT_THROW(event.record(stream), GpuError);
    EXPECT_TRUE(event.is_done());
    expect_works(a);
    expect_works(b);
  });
}

TEST_P(GpuEvent, TenThousandAreMadeRecordedAndDestroyed) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Stream waiter(device);
    for (int i = 0; i < support::rounds(10'000); ++i) {
      const Event event(device, i % 2 == 0 ? Timing::kOff : Timing::kOn);
      event.record(stream);
      if (i % 3 == 0) waiter.wait(event);
      if (i % 1'000 == 0) event.sync();
    }
    stream.sync();
    waiter.sync();
    EXPECT_TRUE(stream.is_done());
    expect_works(device);
  });
}

TEST_P(GpuEvent, TenThousandExistAtATime) {
  with_device([](const Device& device) {
    const Stream stream(device);
    std::vector<Event> events;
    for (int i = 0; i < support::rounds(10'000); ++i) {
      events.emplace_back(device);
      events.back().record(stream);
    }
    events.back().sync();
    for (const Event& event : events) EXPECT_TRUE(event.is_done());
  });
}

}  // namespace event_test
}  // namespace leat::gpu
