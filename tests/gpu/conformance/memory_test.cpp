// What every backend promises of memory: spans, how buffers come and go, and what they may take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/error.h"
#include "leat/gpu/event.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/gpu_error.h"
#include "tests/support/plain_threads.h"

namespace leat::gpu {
namespace memory_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::byte kPoison{0xA5};

class GpuMemory : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuMemory, testing::ValuesIn(test_backends()), backend_title);

template <class Buffer>
void expect_subspans_are_checked(const Device& device) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  const Buffer buffer(device, 100);
  EXPECT_EQ(buffer.subspan(0, 100).data(), buffer.data());
  EXPECT_EQ(buffer.subspan(99, 1).data(), buffer.data() + 99);
  EXPECT_EQ(buffer.subspan(100, 0).size(), 0U);
  EXPECT_EQ(buffer.subspan(10, 50).subspan(20, 30).data(), buffer.data() + 30);
  EXPECT_THROW(static_cast<void>(buffer.subspan(0, 101)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(buffer.subspan(100, 1)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(buffer.subspan(101, 0)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(buffer.subspan(1, kMost)), std::out_of_range);  // wraps to 0
  EXPECT_THROW(static_cast<void>(buffer.subspan(kMost, 1)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(buffer.subspan(10, 50).subspan(20, 31)), std::out_of_range);
}

TEST_P(GpuMemory, SubspansThatLeaveTheirSpanAreRefused) {
  with_device([](const Device& device) {
    expect_subspans_are_checked<DeviceBuffer>(device);
    expect_subspans_are_checked<PinnedBuffer>(device);
  });
}

TEST_P(GpuMemory, IsAlignedAsPromised) {
  with_device([](const Device& device) {
    for (const std::size_t bytes : {1U, 7U, 100U, 4'097U}) {
      const DeviceBuffer there(device, bytes);
      const PinnedBuffer pinned(device, bytes);
      const PinnedBuffer write_combined(device, bytes, PinnedUse::kWriteCombined);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there.data()) % 256, 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned.data()) % 4'096, 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(write_combined.data()) % 4'096, 0U);
    }
  });
}

template <class Buffer>
void expect_moves_leave_nothing(const Device& device) {
  Buffer first(device, 100);
  std::byte* const data = first.data();
  Buffer second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.size(), 100U);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): it says what it then is
  EXPECT_EQ(first.size(), 0U);
  EXPECT_THROW(static_cast<void>(first.subspan(0, 1)), std::out_of_range);
  first = Buffer(device, 50);
  EXPECT_EQ(first.size(), 50U);
  first = std::move(second);
  EXPECT_EQ(first.data(), data);
  EXPECT_EQ(first.device(), device);
  EXPECT_EQ(second.data(), nullptr);  // NOLINT(bugprone-use-after-move): likewise
  EXPECT_EQ(device.memory().device.used + device.memory().pinned.used, 100U);
}

TEST_P(GpuMemory, BuffersMovedFromAreEmptyAndMayBeAssignedTo) {
  with_device([](const Device& device) {
    expect_moves_leave_nothing<DeviceBuffer>(device);
    expect_moves_leave_nothing<PinnedBuffer>(device);
  });
}

// Freeing may wait for the gate: another thread does it.
TEST_P(GpuMemory, BuffersFreedWhileCopiesAreQueuedLiveUntilTheseHaveRun) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(100'003, 12);
    for (const bool stream_goes_first : {false, true}) {
      const PinnedBuffer to = pinned_filled(device, bytes.size(), kPoison);
      const Event copied(device);
      std::optional<Stream> stream(device);
      std::optional<PinnedBuffer> from(pinned_copy(device, bytes));
      std::optional<DeviceBuffer> there(std::in_place, device, bytes.size());
      std::optional<DeviceBuffer> elsewhere(std::in_place, device, bytes.size());
      const Gate gate(*stream);
      copy_async(*stream, there->span(), from->span());
      copy_async(*stream, elsewhere->span(), there->span());
      copy_async(*stream, to.span(), elsewhere->span());
      copied.record(*stream);
      on_plain_threads(
          1,
          [&](int /*thread*/) {
            if (stream_goes_first) stream.reset();
            from.reset();
            there.reset();
            elsewhere.reset();
            // Memory that was given back too early would be handed out again, and overwritten.
            const PinnedBuffer again = pinned_filled(device, bytes.size(), std::byte{0x11});
            stream.reset();
          },
          [&] {
            yield();
            gate.open();
          });
      copied.sync();
      expect_bytes(to.span().bytes(), bytes);
    }
  });
}

TEST_P(GpuMemory, InAStreamsOrderIsUsedThereAndByWhatWaitsForIt) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(100'003, 31);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, bytes.size(), kPoison);
    const Stream producer(device);
    const Stream consumer(device);
    const Event copied(device);
    const DeviceBuffer there(producer, bytes.size());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there.data()) % 256, 0U);
    copy_async(producer, there.span(), from.span());
    copied.record(producer);
    consumer.wait(copied);
    copy_async(consumer, to.span(), there.span());
    consumer.sync();
    expect_bytes(to.span().bytes(), bytes);
  });
}

// Its destructor does not wait, so the thread that will open the gate destroys it.
TEST_P(GpuMemory, InAStreamsOrderIsFreedBehindWhatIsQueuedThere) {
  with_device([](const Device& device) {
    if (!device.capabilities().stream_ordered_memory) {
      GTEST_SKIP() << device.name() << " has no memory pools: freeing waits for all that is queued";
    }
    const auto bytes = random_bytes(100'003, 32);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, bytes.size(), kPoison);
    const Stream stream(device);
    const Gate gate(stream);
    for (int i = 0; i < 3; ++i) {
      DeviceBuffer first(stream, bytes.size());
      const DeviceBuffer second = std::move(first);
      copy_async(stream, second.span(), from.span());
      copy_async(stream, to.span(), second.span());
    }
    EXPECT_FALSE(stream.is_done());
    gate.open();
    stream.sync();
    expect_bytes(to.span().bytes(), bytes);
  });
}

TEST_P(GpuMemory, InAStreamsOrderOutlivesItsStream) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(100'003, 34);
    const PinnedBuffer from = pinned_copy(device, bytes);
    const PinnedBuffer to = pinned_filled(device, bytes.size(), kPoison);
    const Event copied(device);
    std::optional<Stream> stream(device);
    std::optional<DeviceBuffer> there(std::in_place, *stream, bytes.size());
    const Gate gate(*stream);
    copy_async(*stream, there->span(), from.span());
    copy_async(*stream, to.span(), there->span());
    copied.record(*stream);
    stream.reset();
    const Stream another(device);  // may get the handle, or the address, of the one that is gone
    if (device.capabilities().stream_ordered_memory) there.reset();
    EXPECT_FALSE(copied.is_done());
    gate.open();
    copied.sync();
    expect_bytes(to.span().bytes(), bytes);
  });
}

TEST_P(GpuMemory, PinnedToBeWrittenAloneIsCopiedFrom) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(10'007, 33);
    const PinnedBuffer from(device, bytes.size(), PinnedUse::kWriteCombined);
    std::ranges::copy(bytes, from.span().bytes().begin());
    const PinnedBuffer to = pinned_filled(device, bytes.size(), kPoison);
    const DeviceBuffer there(device, bytes.size());
    const Stream stream(device);
    copy_async(stream, there.span(), from.span());
    copy_async(stream, to.span(), there.span());
    stream.sync();
    expect_bytes(to.span().bytes(), bytes);
  });
}

TEST_P(GpuMemory, IsCounted) {
  with_device([](const Device& device) {
    EXPECT_EQ(device.memory().device.used, 0U);
    EXPECT_EQ(device.memory().device.cap, 0U);
    {
      const Stream stream(device);
      const DeviceBuffer there(device, 1'000);
      const DeviceBuffer in_order(stream, 200);
      PinnedBuffer pinned(device, 30);
      const PinnedBuffer moved(std::move(pinned));
      const PinnedArena arena(device, 5'000);
      EXPECT_EQ(device.memory().device.used, 1'200U);
      EXPECT_EQ(device.memory().pinned.used, 5'030U);
    }
    EXPECT_EQ(device.memory().device.used, 0U);
    EXPECT_EQ(device.memory().pinned.used, 0U);
    { const DeviceBuffer less(device, 1); }
    EXPECT_EQ(device.memory().device.peak, 1'200U);
    EXPECT_EQ(device.memory().pinned.peak, 5'030U);
  });
}

TEST_P(GpuMemory, BeyondTheCapsIsRefusedWithTheSums) {
  with_device({.device_bytes = 10'000, .pinned_bytes = 20'000}, [](const Device& device) {
    const Stream stream(device);
    const DeviceBuffer there(device, 6'000);
    const PinnedArena arena(device, 15'000);
    EXPECT_EQ(device.memory().device.cap, 10'000U);
    EXPECT_EQ(device.memory().pinned.cap, 20'000U);
    const std::vector<std::string_view> device_says = {
        "over the cap", "4001 bytes of device memory", "6000 of 10000", "MemoryCaps::device_bytes"};
    const std::vector<std::string_view> pinned_says = {
        "over the cap", "5001 bytes of pinned memory", "15000 of 20000",
        "MemoryCaps::pinned_bytes"};
    expect_gpu_error([&] { DeviceBuffer(device, 4'001); }, device_says);
    expect_gpu_error([&] { DeviceBuffer(stream, 4'001); }, device_says);
    expect_gpu_error([&] { PinnedBuffer(device, 5'001); }, pinned_says);
    expect_gpu_error([&] { PinnedArena(device, 5'001); }, pinned_says);
    expect_gpu_error([&] { DeviceBuffer(device, std::numeric_limits<std::size_t>::max()); },
                     {"over the cap"});
    const DeviceBuffer fits(device, 4'000);
    const PinnedBuffer fits_too(device, 5'000);
    EXPECT_EQ(device.memory().device.used, 10'000U);
    EXPECT_EQ(device.memory().pinned.used, 20'000U);
  });
}

TEST_P(GpuMemory, OutlivesTheDeviceHandleThatItWasMadeFrom) {
  with_device([](Device device) {
    const PinnedBuffer pinned = pinned_filled(device, 100, kPoison);
    const DeviceBuffer there(std::move(device), 100);
    const Stream stream(there.device());
    copy_async(stream, there.span(), pinned.span());
    stream.sync();
    expect_works(pinned.device());
  });
}

template <class Buffer>
void expect_too_much_is_refused(const Device& device, std::size_t bytes) {
  try {
    const Buffer buffer(device, bytes);
    ADD_FAILURE() << "got " << bytes << " bytes";
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(e.bytes(), bytes);
    EXPECT_NE(e.request().find(std::to_string(bytes) + " bytes"), std::string::npos) << e.request();
    EXPECT_NE(e.request().find(" on " + device.name()), std::string::npos) << e.request();
    EXPECT_NE(std::string(e.what()).find(e.request()), std::string::npos) << e.what();
  }
}

TEST_P(GpuMemory, OutOfItSaysSoAndEverythingWorksOn) {
  with_device([](const Device& device) {
    const Stream stream(device);
    for (const std::size_t bytes : {std::size_t{1} << 60, std::numeric_limits<std::size_t>::max(),
                                    std::numeric_limits<std::size_t>::max() - 4'096}) {
      expect_throws<OutOfMemory>([&] { DeviceBuffer(stream, bytes); }, {device.name()});
      expect_too_much_is_refused<PinnedArena>(device, bytes);
      expect_too_much_is_refused<DeviceBuffer>(device, bytes);
      expect_too_much_is_refused<PinnedBuffer>(device, bytes);
      stream.sync();
    }
    EXPECT_EQ(device.memory().device.peak, 0U);
    EXPECT_EQ(device.memory().pinned.peak, 0U);
    expect_works(device);
    EXPECT_EQ(device.memory().device.used, 0U);
    EXPECT_EQ(device.memory().pinned.used, 0U);
  });
}

TEST_P(GpuMemory, MayBeMadeRefusedAndFreedByManyThreadsAtOnce) {
  with_device([](const Device& device) {
    on_plain_threads(8, [&device](int thread) {
      const Stream stream(device);
      if (thread == 0) {
        for (int i = 0; i < 50; ++i) {
          expect_too_much_is_refused<DeviceBuffer>(device, std::size_t{1} << 60);
        }
      }
      for (std::size_t i = 1; i <= 50; ++i) {
        const PinnedBuffer pinned = pinned_filled(device, i, std::byte{1});
        const DeviceBuffer there(device, i);
        copy_async(stream, there.span(), pinned.span());
      }
      stream.sync();
      EXPECT_TRUE(stream.is_done());
    });
  });
}

}  // namespace memory_test
}  // namespace leat::gpu
