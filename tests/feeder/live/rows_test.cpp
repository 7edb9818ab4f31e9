// What a live view gathers, exactly.
#include "leat/feeder/live/rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/plan/batch_plan.h"
#include "leat/feeder/state.h"
#include "leat/gpu/device.h"
#include "tests/support/run.h"

namespace leat::feeder {
namespace rows_test {

using namespace std::chrono_literals;
using support::in_virtual_time;

constexpr std::uint64_t kBatchSize = 16;
constexpr std::uint64_t kBatches = 100;

// Rates: of instants that the test makes up.

struct Steps {
  Duration step;  // negative: another clock goes on
  std::uint64_t count;
};

TEST(LiveRate, IsOfTheLatestSecondOrFourSteps) {
  struct Case {
    const char* name;
    std::vector<Steps> steps;
    Duration since;  // the latest release
    double rate;
  };
  const std::vector<Case> cases = {
      {"nothing was released", {}, 10s, 0},
      {"one batch: how long it took, from what on?", {{3s, 1}}, 2s, 0},
      {"a step", {{3s, 2}}, 0s, 1 / 3.0},
      {"in virtual time work takes none", {{0s, 5}}, 1s, 0},
      {"the latest second", {{10ms, 200}, {20ms, 99}}, 0s, 50},
      {"of slow steps the latest four", {{1s, 10}, {5s, 3}}, 0s, 4 / 16.0},
      {"of which none is older", {{1s, 10}, {5s, 4}}, 0s, 1 / 5.0},
      {"a step that is as long as the others", {{100ms, 31}}, 100ms, 10},
      {"between two steps", {{700ms, 20}}, 300ms, 1 / 0.7},
      {"the first of a pause", {{100ms, 31}}, 200ms, 11 / 1.2},
      {"a long pause", {{100ms, 31}}, 9s, 11 / 10.0},
      {"a second after the pause", {{100ms, 31}, {10s, 1}, {100ms, 10}}, 0s, 10},
      {"the first batch on another clock", {{100ms, 10}, {-900ms, 1}}, 0s, 0},
      {"the second batch on it", {{100ms, 10}, {-900ms, 1}, {2ms, 1}}, 0s, 500},
  };
  for (const Case& one : cases) {
    LiveRate rate;
    StatsCollector::Progress progress;
    progress.latest_at = TimePoint(1h);
    double rate_now = rate.update(progress, progress.latest_at);
    for (const Steps& steps : one.steps) {
      for (std::uint64_t i = 0; i < steps.count; ++i) {
        progress.latest_at += steps.step;
        if (++progress.batches == 1) progress.first_at = progress.latest_at;
        rate_now = rate.update(progress, progress.latest_at);
      }
    }
    if (one.since > 0s) rate_now = rate.update(progress, progress.latest_at + one.since);
    EXPECT_DOUBLE_EQ(rate_now, one.rate) << one.name;
  }
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
    BatchRecord batch{{.batch = {.epoch = epoch, .index = index, .samples = kBatchSize}},
                      {.busy = busy,
                       .step_end = now(),
                       .starved = step - busy,
                       .pass = PassId{1},
                       .is_done = true,
                       .ended_in_own_time = true}};
    stats.step_ended(batch);
    stats.given_back(batch);
  }
  const LiveRow& row(std::size_t i = 0) { return rows.update()[i]; }

  const std::vector<std::shared_ptr<SlotRing>> rings;
  LiveRows rows;
};

// Not all there ever was: steps of 1 s first, then of 3 s.
TEST(LiveRows, FiguresAreOfTheLatestSecond) {
  in_virtual_time([] {
    Loop loop(1);
    loop.step(1s, 250ms, 0, 0);
    const auto look_for_a_second = [&](Duration step, Duration busy) {
      for (std::uint64_t i = 1; i <= kLooksPerSecond; ++i) {
        loop.step(step, busy, 0, i);
        static_cast<void>(loop.row());
      }
      loop.step(step, busy, 0, kLooksPerSecond + 1);
    };
    look_for_a_second(1s, 250ms);
    EXPECT_DOUBLE_EQ(loop.row().stats.t_step, 1);
    EXPECT_DOUBLE_EQ(loop.row().stats.consumer.busy, 0.25);
    look_for_a_second(3s, 3s);
    EXPECT_DOUBLE_EQ(loop.row().stats.t_step, 3);
    EXPECT_DOUBLE_EQ(loop.row().stats.consumer.busy, 1);
    // Nothing new: what was known stays.
    for (int i = 0; i < 3 * kLooksPerSecond; ++i) EXPECT_DOUBLE_EQ(loop.row().stats.t_step, 3);
  });
}

TEST(LiveRows, ProgressIsOfTheEpochOrOfWhatWasTold) {
  in_virtual_time([] {
    for (const std::uint64_t told : {0U, 7U}) {
      Loop loop(1, {.batches = told});
      for (std::uint64_t i = 0; i < 6; ++i) loop.step(1s, 1s, i / 4, i % 4);
      EXPECT_EQ(loop.row().epoch, 1U);
      EXPECT_EQ(loop.row().done, told == 0 ? 2U : 6U);
      EXPECT_EQ(loop.row().total, told == 0 ? kBatches : told);
    }
  });
}

// Two devices, one batch a second each, of one epoch: two a second of what is left.
TEST(LiveRows, DevicesThatShareAnEpochEndItTogether) {
  in_virtual_time([] {
    struct Case {
      bool is_shared;
      std::uint64_t told;  // on each device
      std::array<std::uint64_t, 2> done;
      double done_per_second;
    };
    for (const Case& one :
         {Case{true, 0, {20, 20}, 2}, Case{false, 0, {19, 20}, 1}, Case{true, 50, {10, 10}, 1}}) {
      Loop loop(2, {.batches = one.told}, one.is_shared);
      for (std::uint64_t i = 0; i < 20; ++i) loop.step(500ms, 250ms, 1, i, i % 2);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(loop.row(i).done, one.done[i]);
        EXPECT_DOUBLE_EQ(loop.row(i).steps_per_second, 1);
        EXPECT_DOUBLE_EQ(loop.row(i).done_per_second, one.done_per_second);
      }
      loop.step(500ms, 250ms, 2, 0, 1);  // the next epoch has begun, if shared for both
      EXPECT_EQ(loop.row(0).epoch, one.is_shared && one.told == 0 ? 2U : 1U);
    }
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
