// What a live view gathers, exactly.
#include "leat/feeder/live/rows.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"

namespace leat::feeder {
namespace rows_test {

using namespace std::chrono_literals;

constexpr std::uint64_t kBatchSize = 16;
constexpr std::uint64_t kBatches = 100;

// Rates: of instants that the test makes up.

TimePoint at(Duration since) { return TimePoint(1h + since); }

void release(LiveRate& rate, Duration when, std::uint64_t batch) {
  rate.add(at(when), batch, batch * kBatchSize);
}

// Steps of `step`, all told, the first batch at `step`.
LiveRate steps_of(Duration step, std::uint64_t count) {
  LiveRate rate;
  for (std::uint64_t i = 1; i <= count; ++i) release(rate, static_cast<int>(i) * step, i);
  return rate;
}

void expect(const LiveRate& rate, Duration now, double batches) {
  const LiveRate::Rates rates = rate.rates(at(now));
  EXPECT_DOUBLE_EQ(rates.batches, batches);
  EXPECT_DOUBLE_EQ(rates.samples, batches * kBatchSize);
}

TEST(LiveRate, IsUnknownUntilAStepIs) {
  LiveRate rate;
  EXPECT_EQ(rate.rates(at(10s)).batches, 0);
  release(rate, 3s, 1);  // how long it took, from what on?
  EXPECT_EQ(rate.rates(at(3s)).batches, 0);
  EXPECT_EQ(rate.rates(at(5s)).batches, 0);
  release(rate, 6s, 2);
  expect(rate, 6s, 1 / 3.0);
}

TEST(LiveRate, OfSlowStepsIsTheSameAtAnyTime) {
  LiveRate rate;
  for (int tenth = 30; tenth < 600; ++tenth) {
    const auto batch = static_cast<std::uint64_t>(tenth / 30);
    rate.add(at(static_cast<int>(batch) * 3s), batch, batch * kBatchSize);
    if (batch >= 2) expect(rate, tenth * 100ms, 1 / 3.0);
  }
}

// 7 a second, looked at ten times a second: what a fixed second counts is 6 or 7 or 8.
TEST(LiveRate, OfFastStepsDoesNotJump) {
  constexpr Duration kStep = 1'000'000'000ns / 7;
  LiveRate rate;
  for (int tenth = 3; tenth < 100; ++tenth) {
    const auto batch = static_cast<std::uint64_t>(tenth * 100ms / kStep);
    rate.add(at(static_cast<int>(batch) * kStep), batch, batch * kBatchSize);
    if (batch < 3) continue;
    EXPECT_NEAR(rate.rates(at(tenth * 100ms)).batches, 7, 1e-6);
  }
}

TEST(LiveRate, IsOfTheLatestSecond) {
  LiveRate rate = steps_of(10ms, 200);  // until 2 s
  for (int i = 1; i <= 99; ++i) release(rate, 2s + i * 20ms, 200U + static_cast<unsigned>(i));
  expect(rate, 3980ms, 50);
}

TEST(LiveRate, IsOfTheLatestFourStepsWhereTheyTakeLonger) {
  LiveRate rate = steps_of(1s, 10);  // until 10 s
  for (std::uint64_t i = 1; i <= 3; ++i) release(rate, 10s + static_cast<int>(i) * 5s, 10 + i);
  expect(rate, 25s, 4 / 16.0);
  release(rate, 30s, 14);
  expect(rate, 30s, 1 / 5.0);
}

// It falls as if the step ended now, no sooner than that is longer than the others; and after the
// pause it is soon what it was.
TEST(LiveRate, FallsDuringAPause) {
  LiveRate rate = steps_of(100ms, 31);  // the latest second: 10 steps until 3.1 s
  expect(rate, 3100ms, 10);
  expect(rate, 3200ms, 10);
  expect(rate, 3300ms, 11 / 1.2);
  expect(rate, 12100ms, 11 / 10.0);
  for (int i = 0; i <= 10; ++i) release(rate, 13100ms + i * 100ms, 32U + static_cast<unsigned>(i));
  expect(rate, 14100ms, 10);
}

// In virtual time work takes none.
TEST(LiveRate, IsUnknownWhereNoTimeHasPassed) {
  EXPECT_EQ(steps_of(0s, 5).rates(at(0s)).batches, 0);
  EXPECT_EQ(steps_of(0s, 5).rates(at(1s)).batches, 0);
}

// Batches may be released on a thread whose clock is not the stages'.
TEST(LiveRate, AnInstantOfAnotherClockBeginsAnew) {
  LiveRate rate = steps_of(100ms, 10);
  rate.add(TimePoint(5ms), 11, 11 * kBatchSize);
  EXPECT_EQ(rate.rates(at(1s)).batches, 0);
  rate.add(TimePoint(7ms), 12, 12 * kBatchSize);
  EXPECT_DOUBLE_EQ(rate.rates(TimePoint(0s)).batches, 500);
}

// Rows: of a ring whose stages and consumer the test plays, under virtual time.

std::shared_ptr<SlotRing> make_ring(const std::string& device, std::size_t rank) {
  const std::vector<Field> fields = {{"x", DType::kUint8, {1}}};
  const BatchPlan plan(kBatches * kBatchSize, kBatchSize, 1, LastBatch::kPartial);
  const State head{.samples = plan.samples(), .batch_size = kBatchSize, .epochs = {}};
  return std::make_shared<SlotRing>(
      gpu::open(device), LocalRank{.index = rank, .of_world = rank},
      BatchLayout("test", fields, {}, kBatchSize), RingSize{.pinned_slots = 3, .device_slots = 2},
      StatsOptions{.device_slots = 2, .pinned_slots = 3}, CheckSlots::kNo, nullptr,
      std::make_shared<ReleaseLog>(plan, head, false), current_scheduler("test"));
}

struct Loop {
  explicit Loop(std::size_t devices, const Live& live = {}, bool is_shared = false)
      : rings(rings_of(devices)),
        rows(live, {.rings = rings, .batches_per_epoch = kBatches, .is_shared = is_shared}) {}
  static std::vector<std::shared_ptr<SlotRing>> rings_of(std::size_t devices) {
    std::vector<std::shared_ptr<SlotRing>> rings;
    for (std::size_t i = 0; i < devices; ++i) {
      rings.push_back(make_ring("host:" + std::to_string(i), i));
    }
    return rings;
  }
  // The consumer has worked for `busy` on a batch, after it waited for as long as is left of
  // `step`.
  void step(Duration step, Duration busy, std::uint64_t epoch, std::uint64_t index,
            std::size_t on = 0) {
    sleep_for(step);
    StatsCollector& stats = rings[on]->stats;
    stats.add_host_release(PassId{1},
                           StatsCollector::HostStep{.starved = step - busy, .busy = busy});
    stats.add_release(epoch, index, kBatchSize, is_own_time);
  }
  const LiveRow& row(std::size_t i = 0) { return rows.update()[i]; }

  const std::vector<std::shared_ptr<SlotRing>> rings;
  LiveRows rows;
  bool is_own_time = true;
};

template <class Body>
void in_virtual_time(Body&& body) {
  VirtualClock clock;
  run(std::forward<Body>(body), {.workers = 1, .clock = &clock});
}

TEST(LiveRows, RatesAreOfTheStepsTime) {
  in_virtual_time([] {
    Loop loop(1);
    EXPECT_EQ(loop.row().steps_per_second, 0);
    loop.step(3s, 1s, 0, 0);
    EXPECT_EQ(loop.row().steps_per_second, 0);
    EXPECT_EQ(loop.row().done, 1U);
    for (std::uint64_t i = 1; i < 10; ++i) {
      loop.step(3s, 1s, 0, i);
      const LiveRow& row = loop.row();
      EXPECT_DOUBLE_EQ(row.steps_per_second, 1 / 3.0);
      EXPECT_DOUBLE_EQ(row.samples_per_second, kBatchSize / 3.0);
      EXPECT_DOUBLE_EQ(row.done_per_second, 1 / 3.0);
      EXPECT_EQ(row.done, i + 1);
      EXPECT_EQ(row.total, kBatches);
    }
  });
}

// A program that is over before the view has looked.
TEST(LiveRows, RatesAreKnownAtTheFirstLook) {
  in_virtual_time([] {
    Loop loop(1);
    for (std::uint64_t i = 0; i < 5; ++i) loop.step(2ms, 1ms, 0, i);
    const LiveRow& row = loop.row();
    EXPECT_DOUBLE_EQ(row.steps_per_second, 500);
    EXPECT_DOUBLE_EQ(row.samples_per_second, 500 * kBatchSize);
  });
}

// Not all there ever was: steps of 1 s first, then of 3 s.
TEST(LiveRows, TimesAreOfTheLatestSteps) {
  in_virtual_time([] {
    Loop loop(1);
    loop.step(1s, 250ms, 0, 0);
    for (std::uint64_t i = 1; i < 10; ++i) {
      loop.step(1s, 250ms, 0, i);
      EXPECT_DOUBLE_EQ(loop.row().stats.t_step, 1);
      EXPECT_DOUBLE_EQ(loop.row().stats.consumer.busy, 0.25);
    }
    for (std::uint64_t i = 10; i < 20; ++i) {
      loop.step(3s, 3s, 0, i);
      EXPECT_DOUBLE_EQ(loop.row().stats.t_step, 3);
      EXPECT_DOUBLE_EQ(loop.row().stats.consumer.busy, 1);
    }
    sleep_for(10s);  // nothing new: what was known stays
    EXPECT_DOUBLE_EQ(loop.row().stats.t_step, 3);
  });
}

TEST(LiveRows, ProgressIsOfTheEpochOrOfWhatWasTold) {
  in_virtual_time([] {
    Loop loop(1);
    Loop told(1, {.batches = 7});
    for (std::uint64_t i = 0; i < 6; ++i) {
      loop.step(1s, 1s, i / 4, i % 4);
      told.step(1s, 1s, i / 4, i % 4);
    }
    EXPECT_EQ(loop.row().epoch, 1U);
    EXPECT_EQ(loop.row().done, 2U);
    EXPECT_EQ(loop.row().total, kBatches);
    EXPECT_EQ(told.row().epoch, 1U);
    EXPECT_EQ(told.row().done, 6U);
    EXPECT_EQ(told.row().total, 7U);
  });
}

// Two devices, one batch a second each, of one epoch: two a second of what is left.
TEST(LiveRows, DevicesThatShareAnEpochEndItTogether) {
  in_virtual_time([] {
    const auto play = [](Loop& loop) {
      for (std::uint64_t i = 0; i < 10; ++i) {
        loop.step(500ms, 250ms, 1, 2 * i, 0);
        loop.step(500ms, 250ms, 1, 2 * i + 1, 1);
      }
      return loop.rows.update();
    };
    Loop shared(2, {}, true);
    for (const LiveRow& row : play(shared)) {
      EXPECT_EQ(row.epoch, 1U);
      EXPECT_EQ(row.done, 20U);
      EXPECT_DOUBLE_EQ(row.steps_per_second, 1);
      EXPECT_DOUBLE_EQ(row.done_per_second, 2);
    }
    shared.step(500ms, 250ms, 2, 0, 1);  // the next epoch has begun, for both
    for (const LiveRow& row : shared.rows.update()) {
      EXPECT_EQ(row.epoch, 2U);
      EXPECT_EQ(row.done, 1U);
    }
    Loop apart(2);
    play(apart);
    EXPECT_EQ(apart.rows.update()[0].done, 19U);
    EXPECT_EQ(apart.rows.update()[1].done, 20U);
    EXPECT_DOUBLE_EQ(apart.rows.update()[0].done_per_second, 1);
    Loop told(2, {.batches = 50}, true);  // on each device
    play(told);
    EXPECT_EQ(told.rows.update()[0].done, 10U);
    EXPECT_DOUBLE_EQ(told.rows.update()[0].done_per_second, 1);
  });
}

TEST(LiveRows, SlotsAreCountedAndEndsOfEpochsAreNone) {
  in_virtual_time([] {
    Loop loop(1);
    SlotRing& ring = *loop.rings[0];
    EXPECT_EQ(loop.row().filled, 0U);
    EXPECT_EQ(loop.row().ready, 0U);
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_EQ(ring.filled.try_send(ring.pinned()[i].get()), ChannelStatus::ok);
      EXPECT_EQ(loop.row().filled, i + 1);
    }
    for (std::size_t i = 0; i < 2; ++i) {
      DeviceSlot& slot = *ring.device_slots()[i];
      slot.state.move_on(DeviceState::kFree, DeviceState::kCopying);
      EXPECT_EQ(loop.row().ready, i);
      slot.state.move_on(DeviceState::kCopying, DeviceState::kReady);
      ASSERT_EQ(ring.ready.try_send({.slot = &slot}), ChannelStatus::ok);
      EXPECT_EQ(loop.row().ready, i + 1);
    }
    ASSERT_EQ(ring.ready.try_send({}), ChannelStatus::ok);  // an end
    EXPECT_EQ(ring.ready.size(), 3U);
    EXPECT_EQ(loop.row().ready, 2U);
    EXPECT_EQ(loop.row().stats.device_slots, 2U);
  });
}

}  // namespace rows_test
}  // namespace leat::feeder
