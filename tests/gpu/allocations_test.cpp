// What the operations of a device allocate on the heap: nothing, once they are warm. A program of
// its own, because it replaces the global operator new.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/select.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/counting_new.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace allocations_test {

using namespace std::chrono_literals;
using support::allocations_of;
using support::backend_title;
using support::test_backends;

constexpr int kTimes = 100;
constexpr std::size_t kBytes = 4'096;

class GpuAllocations : public support::BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuAllocations, testing::ValuesIn(test_backends()),
                         backend_title);

/// Streams, events and buffers to work with.
struct Parts {
  explicit Parts(const Device& device)
      : copies(device),
        compute(device),
        copied(device),
        done(device, Timing::kOn),
        pinned(device, kBytes),
        there(device, kBytes) {}
  Stream copies;
  Stream compute;
  Event copied;
  Event done;
  PinnedBuffer pinned;
  DeviceBuffer there;
};

void step(const Parts& p) {
  copy_async(p.copies, p.there.span(), p.pinned.span());
  p.copied.record(p.copies);
  p.compute.wait(p.copied);
  p.compute.launch_host([&p] { static_cast<void>(p); });
  p.done.record(p.compute);
  p.copies.wait(p.done);
  static_cast<void>(p.done.is_done());
}

TEST_P(GpuAllocations, AreCounted) {
  with_device([](const Device& device) {
    EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(1)); }), 1U);
    EXPECT_GT(allocations_of([&] { static_cast<void>(open(device.name())); }), 0U);
  });
}

TEST_P(GpuAllocations, OfStepsThatAreAwaited) {
  with_device([](const Device& device) {
    const Parts p(device);
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) {
                  step(p);
                  p.done.await();
                  p.compute.sync();
                }
              }),
              0U);
  });
}

TEST_P(GpuAllocations, OfStepsThatQueueUp) {
  with_device([](const Device& device) {
    const Parts p(device);
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) step(p);
                p.done.sync();
                p.done.await();
              }),
              0U);
  });
}

TEST(HostAllocations, OfStepsOnAModelledLink) {
  const Parts p(open_host({.h2d_bandwidth = 1e9, .copy_latency = 1us}));
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < kTimes; ++i) step(p);
              p.done.sync();
            }),
            0U);
}

TEST_P(GpuAllocations, OfSelectsOverEvents) {
  with_device([](const Device& device) {
    const Parts p(device);
    const Channel<int> silence(0);
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) {
                  step(p);
                  int done = 0;
                  select(on_done(p.done, [&] { ++done; }), on_recv(silence), on_timeout(1s));
                  EXPECT_EQ(done, 1);
                }
              }),
              0U);
  });
}

TEST_P(GpuAllocations, OfSelectsThatAreGivenUp) {
  with_device([](const Device& device) {
    const Parts p(device);
    const support::Gate gate(p.copies);
    p.copied.record(p.copies);
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) {
                  EXPECT_EQ(select(on_done(p.copied), otherwise()), 1);
                }
              }),
              0U);
    gate.open();
  });
}

TEST_P(GpuAllocations, OfEventsMadeAndDestroyed) {
  with_device([](const Device& device) {
    const Parts p(device);
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) {
                  const Event event(p.copies.device());
                  const Event timed(p.copies.device(), Timing::kOn);
                  event.record(p.copies);
                  timed.record(p.copies);
                  p.compute.wait(event);
                  timed.await();
                }
                p.compute.sync();
              }),
              0U);
  });
}

TEST_P(GpuAllocations, OfBatchedCopies) {
  with_device([](const Device& device) {
    const Parts p(device);
    EXPECT_EQ(allocations_of([&] {
                for (int i = 0; i < kTimes; ++i) {
                  const std::array<CopyToDevice, 3> batch{{
                      {p.there.subspan(0, 7), p.pinned.subspan(0, 7)},
                      {p.there.subspan(7, 0), p.pinned.subspan(7, 0)},
                      {p.there.subspan(64, 640), p.pinned.subspan(8, 640)},
                  }};
                  copy_async(p.copies, batch);
                }
                p.copies.sync();
              }),
              0U);
  });
}

TEST_P(GpuAllocations, OfTakingFromAnArena) {
  with_device([](const Device& device) {
    PinnedArena arena(device, std::size_t{1} << 20);
    EXPECT_EQ(allocations_of([&] { static_cast<void>(arena.take(100)); }), 0U);
  });
}

// Memory whose users cannot be noted stays as long as the device: no allocation waits for it, and
// it goes on counting.
TEST(HostAllocations, WhereThereIsNoMemoryLeftNothingIsLetGoOfTooEarly) {
  constexpr std::size_t kPart = 100;
  const Device device = open_host({.memory_bytes = 30 * kPart});
  const Stream stream(device);
  std::vector<DeviceBuffer> parts;
  while (parts.size() < 30) parts.emplace_back(device, kPart);
  {
    const support::Gate gate(stream);
    support::set_allocating({.exhausted = true});
    parts.clear();
    support::set_allocating({});
  }
  stream.sync();
  const std::size_t left = device.memory().device.used;
  EXPECT_GT(left, 0U);
  EXPECT_THROW(DeviceBuffer(device, 30 * kPart), OutOfMemory);  // and does not wait
  const DeviceBuffer rest(device, 30 * kPart - left);
}

}  // namespace allocations_test
}  // namespace leat::gpu
