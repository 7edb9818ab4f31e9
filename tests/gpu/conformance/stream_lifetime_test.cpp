// What every backend promises of streams that are moved, assigned and destroyed, and of what they
// own.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "tests/gpu/conformance/gpu_stream.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace conformance_stream_lifetime_test {

using namespace gpu_stream;  // NOLINT(google-build-using-namespace): fixture of this test
using namespace support;     // NOLINT(google-build-using-namespace): fixtures of this test

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

}  // namespace conformance_stream_lifetime_test
}  // namespace leat::gpu
