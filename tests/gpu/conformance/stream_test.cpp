// What every backend promises of streams: order within one, independence and waits between several.
#include "leat/gpu/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "tests/support/backends.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/plain_threads.h"

namespace leat::gpu {
namespace conformance_stream_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::size_t kBytes = 10'007;
constexpr std::byte kPoison{0xA5};

class GpuStream : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuStream, testing::ValuesIn(test_backends()), backend_title);

TEST_P(GpuStream, RunsHostFunctionsInOrder) {
  with_device([](const Device& device) {
    const Stream stream(device);
    std::vector<int> order;
    std::vector<int> expected;
    for (int i = 0; i < 100; ++i) {
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

TEST_P(GpuStream, RunsMoreOperationsThanItsQueueHolds) {
  with_device([](const Device& device) {
    constexpr int kOperations = 5'000;
    const Stream stream(device);
    int ran = 0;
    for (int i = 0; i < kOperations; ++i) stream.launch_host([&ran] { ++ran; });
    stream.sync();
    EXPECT_EQ(ran, kOperations);
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

TEST_P(GpuStream, DestroyedWithWorkQueuedStillRunsIt) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(kBytes, 3);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, kBytes, std::byte{0});
    const DeviceBuffer there(device, kBytes);
    const Event copied(device);
    std::optional<Stream> stream(device);
    const Gate gate(*stream);
    copy_async(*stream, there.span(), from.span());
    copy_async(*stream, to.span(), there.span());
    copied.record(*stream);
    stream.reset();
    EXPECT_FALSE(copied.is_done());
    gate.open();
    copied.sync();
    expect_bytes(to.span().bytes(), bytes);
  });
}

TEST_P(GpuStream, DestroyedWhileItWaitsForAnotherStillRunsItsWork) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(kBytes, 4);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, kBytes, std::byte{0});
    const DeviceBuffer there(device, kBytes);
    const Event consumed(device);
    std::optional<Stream> producer(device);
    std::optional<Stream> consumer(device);
    const Gate gate(*producer);
    copy_async(*producer, there.span(), from.span());
    {
      const Event copied(device);
      copied.record(*producer);
      consumer->wait(copied);
    }
    copy_async(*consumer, to.span(), there.span());
    consumed.record(*consumer);
    producer.reset();
    consumer.reset();
    EXPECT_FALSE(consumed.is_done());
    gate.open();
    consumed.sync();
    expect_bytes(to.span().bytes(), bytes);
  });
}

TEST_P(GpuStream, MovedFromMayBeDestroyedAndAssignedTo) {
  with_device([](const Device& device) {
    Stream first(device);
    const StreamRef view = first;
    Stream second(std::move(first));
    EXPECT_EQ(second.ref(), view);
    { const Stream destroyed_empty(std::move(first)); }  // NOLINT(bugprone-use-after-move)
    first = Stream(device);
    EXPECT_FALSE(first.ref() == view);
    std::vector<int> order;
    first.launch_host([&order] { order.push_back(1); });
    first.sync();
    second.launch_host([&order] { order.push_back(2); });
    second.sync();
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
  });
}

TEST_P(GpuStream, MovedFromSaysSoWhateverIsAskedOfIt) {
  with_device([](const Device& device) {
    Stream from(device);
    const Stream to(std::move(from));
    const Event event(device);
    const PinnedBuffer pinned = pinned_filled(device, 64, kPoison);
    const DeviceBuffer there(device, 64);
    // NOLINTBEGIN(bugprone-use-after-move): it says what it then is
    EXPECT_EQ(from.device(), device);
    EXPECT_THROW(from.sync(), std::logic_error);
    EXPECT_THROW(static_cast<void>(from.is_done()), std::logic_error);
    EXPECT_THROW(static_cast<void>(from.is_capturing()), std::logic_error);
    EXPECT_THROW(copy_async(from, std::span<const CopyToDevice>{}), std::logic_error);
    EXPECT_THROW(static_cast<void>(from.native_handle()), std::logic_error);
    EXPECT_THROW(from.wait(event), std::logic_error);
    EXPECT_THROW(from.launch_host([] {}), std::logic_error);
    EXPECT_THROW(event.record(from), std::logic_error);
    EXPECT_THROW(copy_async(from, there.span(), pinned.span()), std::logic_error);
    EXPECT_THROW(copy_async(from, there.subspan(0, 0), pinned.subspan(0, 0)), std::logic_error);
    EXPECT_THROW(DeviceBuffer(from, 64), std::logic_error);
    // NOLINTEND(bugprone-use-after-move)
    expect_works(device);
  });
}

TEST_P(GpuStream, AssignedToALiveOneLeavesTheSourceEmpty) {
  with_device([](const Device& device) {
    Stream first(device);
    Stream second(device);
    const StreamRef view = second;
    const Gate gate(first);
    first = std::move(second);  // what was `first` goes, its work queued
    EXPECT_EQ(first.ref(), view);
    EXPECT_THROW(second.sync(), std::logic_error);  // NOLINT(bugprone-use-after-move): that is it
    Stream& self = first;
    first = std::move(self);
    EXPECT_EQ(first.ref(), view);
    first.sync();
    gate.open();
  });
}

TEST_P(GpuStream, ViewsAndDevicesMovedFromAreAsBefore) {
  with_device([](const Device& opened) {
    Device device = opened;
    const Stream stream(device);
    const Event event(device);
    StreamRef stream_view = stream;
    EventRef event_view = event;
    const StreamRef other_stream_view = std::move(stream_view);
    const EventRef other_event_view = std::move(event_view);
    const Device other_device = std::move(device);
    // NOLINTBEGIN(bugprone-use-after-move): it says what it then is
    event_view.record(stream_view);
    event_view.sync();
    EXPECT_EQ(stream_view, other_stream_view);
    EXPECT_EQ(device, other_device);
    EXPECT_EQ(device.name(), opened.name());
    // NOLINTEND(bugprone-use-after-move)
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

TEST_P(GpuStream, OutlivesTheDeviceHandleThatItWasMadeFrom) {
  with_device([](Device device) {
    const Stream stream(device);
    const Event event(std::move(device));
    bool ran = false;
    stream.launch_host([&ran] { ran = true; });
    event.record(stream);
    event.sync();
    EXPECT_TRUE(ran);
  });
}

TEST_P(GpuStream, DestroysWhatAHostFunctionOwnsOnceItHasRun) {
  with_device([](const Device& device) {
    const Stream stream(device);
    auto owned = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = owned;
    const Gate gate(stream);
    stream.launch_host([owned = std::move(owned)] {});
    EXPECT_FALSE(watched.expired());
    gate.open();
    stream.sync();
    EXPECT_TRUE(watched.expired());
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
