// What every backend promises of streams: order within one, independence and waits between several.
#include "leat/gpu/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "tests/gpu/conformance/gpu_stream.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/plain_threads.h"

namespace leat::gpu {
namespace conformance_stream_test {

using namespace gpu_stream;  // NOLINT(google-build-using-namespace): fixture of this test
using namespace support;     // NOLINT(google-build-using-namespace): fixtures of this test

INSTANTIATE_TEST_SUITE_P(Backends, GpuStream, testing::ValuesIn(test_backends()), backend_title);

// More of them than its queue holds.
TEST_P(GpuStream, RunsHostFunctionsInOrder) {
  with_device([](const Device& device) {
    const Stream stream(device);
    std::vector<int> order;
    std::vector<int> expected;
    for (int i = 0; i < 2'000; ++i) {
      stream.launch_host([&order, i] { order.push_back(i); });
      expected.push_back(i);
    }
    stream.sync();
    EXPECT_EQ(order, expected);
  });
}

// The host function between two copies rewrites their common source.
TEST_P(GpuStream, RunsCopiesAndHostFunctionsInOrder) {
  with_device([](const Device& device) {
    constexpr std::size_t kRounds = 16;
    const Stream stream(device);
    const PinnedBuffer source = pinned_filled(device, kBytes, std::byte{0});
    const PinnedBuffer results = pinned_filled(device, kRounds * kBytes, kPoison);
    const DeviceBuffer first(device, kBytes);
    const DeviceBuffer second(device, kBytes);
    for (std::size_t i = 0; i < kRounds; ++i) {
      stream.launch_host([&source, i] { fill(source.span(), static_cast<std::byte>(i)); });
      copy_async(stream, first.span(), source.span());
      copy_async(stream, second.span(), first.span());
      copy_async(stream, results.subspan(i * kBytes, kBytes), second.span());
    }
    stream.sync();
    for (std::size_t i = 0; i < kRounds; ++i) {
      expect_filled(results.subspan(i * kBytes, kBytes).bytes(), static_cast<std::byte>(i));
    }
  });
}

TEST_P(GpuStream, WaitsForAnEventOfAnotherStream) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(kBytes, 1);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, kBytes, std::byte{0});
    const DeviceBuffer there(device, kBytes);
    const Stream producer(device);
    const Stream consumer(device);
    const Event copied(device);
    const Event consumed(device);

    const Gate gate(producer);
    copy_async(producer, there.span(), from.span());
    copied.record(producer);
    consumer.wait(copied);
    copy_async(consumer, to.span(), there.span());
    consumed.record(consumer);

    EXPECT_FALSE(copied.is_done());
    EXPECT_FALSE(consumed.is_done());
    EXPECT_FALSE(producer.is_done());
    EXPECT_FALSE(consumer.is_done());
    expect_filled(to.span().bytes(), std::byte{0});
    gate.open();
    consumed.sync();
    EXPECT_TRUE(copied.is_done());
    expect_bytes(to.span().bytes(), bytes);
  });
}

TEST_P(GpuStream, WaitHoldsNothingThatWasEnqueuedBefore) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(kBytes, 2);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, kBytes, std::byte{0});
    const DeviceBuffer there(device, kBytes);
    const Stream producer(device);
    const Stream consumer(device);
    const Event held(device);
    const Event before(device);

    const Gate gate(producer);
    held.record(producer);
    copy_async(consumer, there.span(), from.span());
    copy_async(consumer, to.span(), there.span());
    before.record(consumer);
    consumer.wait(held);

    before.sync();  // would not return if the wait held it
    expect_bytes(to.span().bytes(), bytes);
    EXPECT_FALSE(held.is_done());
  });
}

TEST_P(GpuStream, WaitForAnEventNeverRecordedHoldsNothing) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Event never(device);
    bool ran = false;
    stream.wait(never);
    stream.launch_host([&ran] { ran = true; });
    stream.sync();
    EXPECT_TRUE(ran);
  });
}

TEST_P(GpuStream, DoesNotHoldAnotherStream) {
  with_device([](const Device& device) {
    const Stream held(device);
    const Stream other(device);
    const Event reached(device);
    const Gate gate(held);
    reached.record(other);
    reached.sync();
    EXPECT_TRUE(other.is_done());
    EXPECT_FALSE(held.is_done());
  });
}

TEST_P(GpuStream, IsDoneWhenAllThatWasEnqueuedHasRun) {
  with_device([](const Device& device) {
    const Stream stream(device);
    EXPECT_TRUE(stream.is_done());
    for (int i = 0; i < 100; ++i) {
      const Gate gate(stream);
      EXPECT_FALSE(stream.is_done());
      gate.open();
      stream.sync();
      EXPECT_TRUE(stream.is_done());
    }
  });
}

TEST_P(GpuStream, IsDoneOnceAnEventAtItsEndIsDone) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Event end(device);
    for (int i = 0; i < 100; ++i) {
      stream.launch_host([] {});
      end.record(stream);
      end.sync();
      EXPECT_TRUE(stream.is_done());
    }
  });
}

TEST_P(GpuStream, SyncReturnsAfterTheWorkHasRun) {
  with_device([](const Device& device) {
    const Stream stream(device);
    bool ran = false;
    const Gate gate(stream);
    stream.launch_host([&ran] { ran = true; });
    on_plain_threads(
        4,
        [&](int /*index*/) {
          stream.sync();
          EXPECT_TRUE(ran);
        },
        [&] { gate.open(); });
  });
}

TEST_P(GpuStream, NoFunctionAndNegativeTimesAreRefused) {
  with_device([](const Device& device) {
    const Stream stream(device);
    EXPECT_THROW(stream.launch_host({}), std::invalid_argument);
    EXPECT_THROW(stream.launch_host([] {}, Duration(-1)), std::invalid_argument);
    stream.sync();
  });
}

TEST_P(GpuStream, HandsDataFromOneDeviceToAnother) {
  with_two_devices([](const Device& a, const Device& b) {
    const auto bytes = random_bytes(kBytes, 6);
    const PinnedBuffer from = pinned_copy(a, bytes);
    const PinnedBuffer between = pinned_filled(a, kBytes, kPoison);
    const PinnedBuffer to = pinned_filled(b, kBytes, kPoison);
    const DeviceBuffer on_a(a, kBytes);
    const DeviceBuffer on_b(b, kBytes);
    const Stream producer(a);
    const Stream consumer(b);
    const Event produced(a);
    const Event consumed(b);
    const Gate gate(producer);
    copy_async(producer, on_a.span(), from.span());
    copy_async(producer, between.span(), on_a.span());
    produced.record(producer);
    consumer.wait(produced);
    copy_async(consumer, on_b.span(), between.span());  // pinned for both
    copy_async(consumer, to.span(), on_b.span());
    consumed.record(consumer);
    EXPECT_FALSE(produced.is_done());
    EXPECT_FALSE(consumed.is_done());
    expect_filled(to.span().bytes(), kPoison);
    gate.open();
    consumed.sync();
    EXPECT_TRUE(produced.is_done());
    expect_bytes(to.span().bytes(), bytes);
  });
}

TEST_P(GpuStream, HasALegacyStreamWhereForeignOnesAreKnown) {
  with_device([](const Device& device) {
    const PinnedBuffer pinned = pinned_filled(device, 64, kPoison);
    const DeviceBuffer there(device, 64);
    if (!device.capabilities().foreign_streams) {
      EXPECT_THROW(static_cast<void>(StreamRef::legacy(device)), GpuError);
      return;
    }
    const StreamRef legacy = StreamRef::legacy(device);
    const Stream copies(device);
    const Event copied(device);
    const Event used(device);
    bool ran = false;
    const Gate gate(copies);
    copy_async(copies, there.span(), pinned.span());
    copied.record(copies);
    legacy.wait(copied);
    legacy.launch_host([&ran] { ran = true; });
    used.record(legacy);
    EXPECT_FALSE(used.is_done());
    EXPECT_THROW(copy_async(legacy, there.span(), pinned.span()), GpuError);
    gate.open();
    used.sync();
    EXPECT_TRUE(ran);
    legacy.sync();
    EXPECT_TRUE(legacy.is_done());
    EXPECT_FALSE(legacy.is_capturing());
    expect_works(device);
  });
}

TEST_P(GpuStream, NoForeignStreamIsNull) {
  with_device([](const Device& device) {
    EXPECT_THROW(static_cast<void>(StreamRef::from_native(device, nullptr)), GpuError);
  });
}

TEST_P(GpuStream, HasANativeHandleWhereKernelsAreLaunchedWithIt) {
  with_device([](const Device& device) {
    const Stream stream(device);
    EXPECT_EQ(stream.native_handle() != nullptr, device.capabilities().cuda_kernels);
  });
}

TEST_P(GpuStream, EightThreadsUseOneDevice) {
  with_device([](const Device& device) {
    constexpr int kThreads = 8;
    constexpr std::uint64_t kRounds = 20;
    on_plain_threads(kThreads, [&device](int thread) {
      const Stream there_stream(device);
      const Stream back_stream(device);
      const Event copied(device);
      const DeviceBuffer there(device, kBytes);
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        const auto bytes =
            random_bytes(kBytes, static_cast<std::uint64_t>(thread) * kRounds + round);
        const PinnedBuffer from = pinned_copy(device, bytes);
        const PinnedBuffer to = pinned_filled(device, kBytes, kPoison);
        copy_async(there_stream, there.span(), from.span());
        copied.record(there_stream);
        back_stream.wait(copied);
        copy_async(back_stream, to.span(), there.span());
        back_stream.sync();
        expect_bytes(to.span().bytes(), bytes);
      }
    });
  });
}

// Each thread records the same event; the latest record is its own or one that covers it.
TEST_P(GpuStream, EightThreadsUseOneStreamAndOneEvent) {
  with_device([](const Device& device) {
    constexpr std::size_t kThreads = 8;
    constexpr std::size_t kRounds = 100;
    const Stream stream(device);
    const Stream waiter(device);
    const Event event(device);
    std::vector<std::atomic<bool>> ran(kThreads * kRounds);
    on_plain_threads(kThreads, [&](int thread) {
      for (std::size_t round = 0; round < kRounds; ++round) {
        std::atomic<bool>& mine = ran[static_cast<std::size_t>(thread) * kRounds + round];
        stream.launch_host([&mine] { mine = true; });
        event.record(stream);
        waiter.wait(event);
        static_cast<void>(event.is_done());
        static_cast<void>(stream.is_done());
        event.sync();
        EXPECT_TRUE(mine);
      }
    });
    waiter.sync();
    EXPECT_TRUE(std::ranges::all_of(ran, [](const auto& one) { return one.load(); }));
  });
}

TEST_P(GpuStream, FailsForGoodAfterAFailedOperation) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const Stream other(device);
    const Event event(device);
    const PinnedBuffer pinned = pinned_filled(device, kBytes, kPoison);
    const DeviceBuffer there(device, kBytes);
    const Gate gate(stream);
    stream.launch_host([] { throw std::runtime_error("bad kernel"); });
    event.record(stream);
    gate.open();
    for (int i = 0; i < 2; ++i) {
      EXPECT_THROW(event.await(), GpuError);
      EXPECT_THROW(event.sync(), GpuError);
      EXPECT_THROW(static_cast<void>(event.is_done()), GpuError);
      EXPECT_THROW(stream.sync(), GpuError);
      EXPECT_THROW(static_cast<void>(stream.is_done()), GpuError);
      EXPECT_THROW(other.sync(), GpuError);
      EXPECT_THROW(other.wait(event), GpuError);
      EXPECT_THROW(copy_async(other, there.span(), pinned.span()), GpuError);
      EXPECT_THROW(other.launch_host([] {}), GpuError);
      EXPECT_THROW(event.record(other), GpuError);
      EXPECT_THROW(Stream{device}, GpuError);
      EXPECT_THROW(DeviceBuffer(device, kBytes), GpuError);
      EXPECT_THROW(PinnedBuffer(device, kBytes), GpuError);
      EXPECT_THROW(copy_async(other, std::span<const CopyToDevice>{}), GpuError);
    }
  });
}

}  // namespace conformance_stream_test
}  // namespace leat::gpu
