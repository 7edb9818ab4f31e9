// The host device's modelled times, exact under virtual time: whatever is not modelled takes none.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/stream.h"
#include "tests/support/run.h"

namespace leat::gpu {
namespace time_test {

using namespace std::chrono_literals;

constexpr std::size_t kMillion = 1'000'000;
// 1 ms for a million bytes to the device, 2 ms for as many back.
constexpr HostModel kModel = {.h2d_bandwidth = 1e9, .d2h_bandwidth = 0.5e9};

class HostTime : public testing::TestWithParam<int> {
 protected:
  /// The virtual time that a run of `body` takes.
  static Duration time_of(const std::function<void()>& body) {
    return support::in_virtual_time({.workers = GetParam()}, body);
  }
};
INSTANTIATE_TEST_SUITE_P(Workers, HostTime, testing::Values(1, 2, 4),
                         [](const auto& one) { return std::to_string(one.param); });

TEST_P(HostTime, WhatIsNotModelledTakesNone) {
  EXPECT_EQ(time_of([] {
              const Device device = open("host");
              const Stream stream(device);
              const PinnedBuffer pinned(device, kMillion);
              const DeviceBuffer there(device, kMillion);
              std::ranges::fill(pinned.span().bytes(), std::byte{1});
              copy_async(stream, there.span(), pinned.span());
              stream.launch_host([] {});
              copy_async(stream, pinned.span(), there.span());
              stream.sync();
            }),
            0ns);
}

TEST_P(HostTime, AwaitUntilEndsAtItsDeadlineOrWithTheRecord) {
  EXPECT_EQ(time_of([] {
              const Device device = open_host(kModel);
              const Stream stream(device);
              const Event copied(device);
              const PinnedBuffer pinned(device, kMillion);
              const DeviceBuffer there(device, kMillion);
              copy_async(stream, there.span(), pinned.span());
              copied.record(stream);
              const TimePoint start = now();
              EXPECT_FALSE(copied.await_until(start + 400us));
              EXPECT_EQ(now() - start, 400us);
              EXPECT_FALSE(copied.await_until(start + 100us));
              EXPECT_EQ(now() - start, 400us);
              EXPECT_TRUE(copied.await_until(start + 1h));
              EXPECT_EQ(now() - start, 1ms);
            }),
            1ms);
}

TEST_P(HostTime, ACopyTakesItsLatencyAndItsBytesOverTheBandwidth) {
  HostModel model = kModel;
  model.copy_latency = 10us;
  EXPECT_EQ(time_of([&model] {
              const Device device = open_host(model);
              const Stream stream(device);
              const PinnedBuffer pinned(device, kMillion);
              const DeviceBuffer there(device, kMillion);
              std::ranges::fill(pinned.span().bytes(), std::byte{1});
              const auto half = kMillion / 2;

              copy_async(stream, there.span(), pinned.span());
              stream.sync();
              EXPECT_EQ(now().time_since_epoch(), 1ms + 10us);
              copy_async(stream, pinned.span(), there.span());
              stream.sync();
              EXPECT_EQ(now().time_since_epoch(), 3ms + 20us);
              copy_async(stream, there.subspan(0, half), there.subspan(half, half));
              stream.sync();
              EXPECT_EQ(now().time_since_epoch(), 3ms + 30us);  // within the device: latency alone
            }),
            3ms + 30us);
}

TEST_P(HostTime, ACopyTakesNotANanosecondMoreThanArithmeticSays) {
  static_cast<void>(time_of([] {
    const Device device = open_host(kModel);
    const Stream stream(device);
    const PinnedBuffer pinned(device, kMillion);
    const DeviceBuffer there(device, kMillion);
    std::ranges::fill(pinned.span().bytes(), std::byte{1});
    TimePoint expected = now();
    for (std::size_t bytes = 1; bytes < kMillion; bytes = bytes * 3 / 2 + 1) {
      copy_async(stream, there.subspan(0, bytes), pinned.subspan(0, bytes));
      stream.sync();
      expected += Duration(static_cast<std::int64_t>(bytes));
      ASSERT_EQ(now(), expected) << bytes << " bytes";
    }
  }));
}

TEST_P(HostTime, CopiesTogetherHaveOneLatency) {
  HostModel model = kModel;
  model.copy_latency = 10us;
  EXPECT_EQ(time_of([&model] {
              const Device device = open_host(model);
              const Stream stream(device);
              const PinnedBuffer pinned(device, kMillion);
              const DeviceBuffer there(device, kMillion);
              std::ranges::fill(pinned.span().bytes(), std::byte{1});
              const auto part = kMillion / 4;
              std::vector<CopyToDevice> batch;
              for (std::size_t at = 0; at < kMillion; at += part) {
                batch.push_back({there.subspan(at, part), pinned.subspan(at, part)});
              }
              copy_async(stream, batch);
              stream.sync();
              EXPECT_EQ(now().time_since_epoch(), 1ms + 10us);
              for (const CopyToDevice& one : batch) copy_async(stream, one.to, one.from);
              stream.sync();
            }),
            2ms + 50us);
}

TEST_P(HostTime, ASelectTakesAnEventWhenItIsReached) {
  EXPECT_EQ(time_of([] {
              const Device device = open("host");
              const Stream stream(device);
              const Event event(device);
              stream.launch_host([] {}, 5ms);
              event.record(stream);
              EXPECT_EQ(select(on_done(event), on_timeout(4ms)), 1);
              EXPECT_EQ(now().time_since_epoch(), 4ms);
              EXPECT_EQ(select(on_done(event), on_timeout(4ms)), 0);
              EXPECT_EQ(now().time_since_epoch(), 5ms);
            }),
            5ms);
}

// So that waiting for the end of the device is a deadlock.
TEST_P(HostTime, TimesThatAreTooLongAreForEver) {
  const auto body = [] {
    const Device device = open_host({.h2d_bandwidth = 1e-12});
    const Stream copies(device);
    const Stream compute(device);
    const Event copied(device);
    const Event computed(device);
    const PinnedBuffer pinned(device, 100);
    const DeviceBuffer there(device, 100);
    std::ranges::fill(pinned.span().bytes(), std::byte{1});
    sleep_for(1s);
    copy_async(copies, there.span(), pinned.span());
    copied.record(copies);
    compute.launch_host([] {}, Duration::max());
    computed.record(compute);
    EXPECT_EQ(select(on_done(copied), on_done(computed), on_timeout(1'000'000s)), 2);
  };
  EXPECT_THROW(static_cast<void>(time_of(body)), Deadlock);
}

TEST_P(HostTime, CopiesInOneDirectionTakeTurns) {
  EXPECT_EQ(time_of([] {
              const Device device = open_host(kModel);
              const Stream first(device);
              const Stream second(device);
              const Event first_end(device);
              const PinnedBuffer pinned(device, kMillion);
              const DeviceBuffer there(device, 2 * kMillion);
              std::ranges::fill(pinned.span().bytes(), std::byte{1});
              copy_async(first, there.subspan(0, kMillion), pinned.span());
              first_end.record(first);
              first_end.await();
              EXPECT_EQ(now().time_since_epoch(), 1ms);
              copy_async(first, there.subspan(0, kMillion), pinned.span());
              copy_async(second, there.subspan(kMillion, kMillion), pinned.span());
              std::vector<TimePoint> ends;
              for (const Stream* stream : {&first, &second}) {
                stream->sync();
                ends.push_back(now());
              }
              EXPECT_EQ(std::ranges::max(ends).time_since_epoch(), 3ms);
            }),
            3ms);
}

TEST_P(HostTime, KernelsOfTwoStreamsTakeTurns) {
  EXPECT_EQ(time_of([] {
              const Device device = open_host(kModel);
              const Stream first(device);
              const Stream second(device);
              first.launch_host([] {}, 4ms);
              second.launch_host([] {}, 6ms);
              first.sync();
              second.sync();
            }),
            10ms);
}

TEST_P(HostTime, CopiesInBothDirectionsAndAKernelOverlap) {
  EXPECT_EQ(
      time_of([] {
        const Device device = open_host(kModel);
        const std::array<Stream, 3> streams = {Stream(device), Stream(device), Stream(device)};
        const std::array<Event, 3> ends = {Event(device), Event(device), Event(device)};
        const PinnedBuffer pinned(device, 2 * kMillion);
        const DeviceBuffer there(device, 2 * kMillion);
        std::ranges::fill(pinned.span().bytes(), std::byte{1});
        copy_async(streams[0], there.subspan(0, kMillion), pinned.subspan(0, kMillion));
        copy_async(streams[1], pinned.subspan(kMillion, kMillion),
                   there.subspan(kMillion, kMillion));
        streams[2].launch_host([] {}, 3ms);
        for (std::size_t i = 0; i < 3; ++i) ends[i].record(streams[i]);
        ends[0].await();
        EXPECT_EQ(now().time_since_epoch(), 1ms);
        ends[1].await();
        EXPECT_EQ(now().time_since_epoch(), 2ms);
        ends[2].await();
        EXPECT_EQ(now().time_since_epoch(), 3ms);
      }),
      3ms);
}

TEST_P(HostTime, AKernelTakesItsModelledTimeOrItsOwnIfThatIsLonger) {
  EXPECT_EQ(time_of([] {
              const Device device = open("host");
              const Stream stream(device);
              stream.launch_host([] { sleep_for(2ms); }, 5ms);
              stream.sync();
              EXPECT_EQ(now().time_since_epoch(), 5ms);
              stream.launch_host([] { sleep_for(8ms); }, 5ms);
              stream.sync();
            }),
            13ms);
}

TEST_P(HostTime, ElapsedBetweenTimedEventsIsExact) {
  static_cast<void>(time_of([] {
    const Device device = open_host(kModel);
    const Stream stream(device);
    const Stream busy(device);
    const Event start(device, Timing::kOn);
    const Event middle(device, Timing::kOn);
    const Event end(device, Timing::kOn);
    sleep_for(100ms);
    start.record(stream);
    stream.launch_host([] {}, 7ms);
    middle.record(stream);
    middle.await();
    busy.launch_host([] {}, 11ms);
    const Event busy_end(device);
    busy_end.record(busy);
    stream.wait(busy_end);
    end.record(stream);
    end.await();
    EXPECT_EQ(elapsed(start, middle), 7ms);
    EXPECT_EQ(elapsed(middle, end), 11ms);
    EXPECT_EQ(elapsed(start, end), 18ms);
    EXPECT_EQ(elapsed(end, start), -18ms);
    sleep_for(1s);
    EXPECT_EQ(elapsed(start, end), 18ms);
  }));
}

// Copies on one stream, kernels on another, `slots` buffers between them: the events that a
// prefetcher uses.
Duration pipelined(int batches, Duration kernel, std::size_t slots) {
  const Device device = open_host(kModel);
  const Stream copies(device);
  const Stream compute(device);
  const PinnedBuffer pinned(device, 3 * kMillion);
  std::ranges::fill(pinned.span().bytes(), std::byte{1});
  std::vector<DeviceBuffer> there;
  std::vector<Event> copied;
  std::vector<Event> released;
  for (std::size_t i = 0; i < slots; ++i) {
    there.emplace_back(device, pinned.size());
    copied.emplace_back(device);
    released.emplace_back(device);
  }
  const TimePoint start = now();
  for (int k = 0; k < batches; ++k) {
    const auto slot = static_cast<std::size_t>(k) % slots;
    copies.wait(released[slot]);
    copy_async(copies, there[slot].span(), pinned.span());
    copied[slot].record(copies);
    compute.wait(copied[slot]);
    compute.launch_host([] {}, kernel);
    released[slot].record(compute);
  }
  compute.sync();
  return now() - start;
}

TEST_P(HostTime, OfADoubleBufferedLoopIsThatOfTheSlowerSide) {
  static_cast<void>(time_of([] {
    // A copy takes 3 ms.
    EXPECT_EQ(pipelined(10, 5ms, 2), 3ms + 10 * 5ms);
    EXPECT_EQ(pipelined(10, 2ms, 2), 10 * 3ms + 2ms);
    EXPECT_EQ(pipelined(10, 5ms, 1), 10 * (3ms + 5ms));
  }));
}

TEST_P(HostTime, ADeviceDestroyedWithWorkQueuedRunsItOutExactly) {
  int ran = 0;
  EXPECT_EQ(time_of([&ran] {
              {
                const Device device = open_host(kModel);
                const Stream first(device);
                const Stream second(device);
                const PinnedBuffer pinned(device, kMillion);
                const DeviceBuffer there(device, kMillion);
                std::ranges::fill(pinned.span().bytes(), std::byte{1});
                for (int i = 0; i < 3; ++i) {
                  first.launch_host([&ran] { ++ran; }, 5ms);
                  copy_async(second, there.span(), pinned.span());
                }
                EXPECT_EQ(now().time_since_epoch(), 0ns);
              }
              EXPECT_EQ(ran, 3);
              EXPECT_EQ(now().time_since_epoch(), 15ms);
            }),
            15ms);
}

TEST_P(HostTime, AFullQueueHoldsTheCallerBackUntilThereIsRoom) {
  static_cast<void>(time_of([] {
    const Device device = open("host");
    const Stream stream(device);
    for (int i = 0; i < 1'025; ++i) stream.launch_host([] {}, 1ms);  // one runs, 1,024 wait
    EXPECT_LE(now().time_since_epoch(), 1ms);
    for (int i = 0; i < 1'000; ++i) stream.launch_host([] {}, 1ms);
    EXPECT_GE(now().time_since_epoch(), 999ms);
    EXPECT_LE(now().time_since_epoch(), 1'001ms);
    stream.sync();
    EXPECT_EQ(now().time_since_epoch(), 2'025ms);
  }));
}

}  // namespace time_test
}  // namespace leat::gpu
