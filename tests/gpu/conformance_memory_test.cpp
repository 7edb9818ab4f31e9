// What every backend promises of memory: copies, spans, and how buffers come and go.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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
#include "leat/gpu/event.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "leat/tests/support/backends.h"
#include "leat/tests/support/bytes.h"
#include "leat/tests/support/gate.h"
#include "leat/tests/support/gpu_error.h"
#include "leat/tests/support/plain_threads.h"

namespace leat::gpu {
namespace {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::byte kPoison{0xA5};

class GpuMemory : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuMemory, testing::ValuesIn(test_backends()), backend_title);

struct Shape {
  std::size_t bytes;
  std::size_t from_offset;
  std::size_t first_offset;
  std::size_t second_offset;
  std::size_t to_offset;
};
// Aligned and not, below and above a page and a megabyte.
constexpr std::array kShapes = {
    Shape{1, 0, 0, 0, 0},         Shape{1, 3, 5, 7, 9},         Shape{255, 1, 0, 3, 2},
    Shape{256, 0, 256, 512, 0},   Shape{4'095, 13, 1, 0, 7},    Shape{4'097, 0, 0, 0, 1},
    Shape{65'537, 9, 31, 63, 17}, Shape{1'048'577, 3, 1, 2, 5}, Shape{3'000'001, 0, 7, 0, 0}};

// Into poisoned buffers that are larger: what is around the destination stays as it is.
TEST_P(GpuMemory, EveryByteTravelsToTheDeviceWithinItAndBack) {
  with_device([](const Device& device) {
    constexpr std::size_t kAround = 64;
    const Stream stream(device);
    std::uint64_t seed = 1;
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(std::to_string(s.bytes) + " bytes");
      const auto source = random_bytes(s.from_offset + s.bytes + kAround, ++seed);
      const PinnedBuffer from = pinned_copy(device, source);
      const DeviceBuffer first(device, s.first_offset + s.bytes + kAround);
      const DeviceBuffer second(device, s.second_offset + s.bytes + kAround);
      const PinnedBuffer poison = pinned_filled(device, second.size(), kPoison);
      const PinnedBuffer to = pinned_filled(device, s.to_offset + second.size() + kAround, kPoison);

      copy_async(stream, second.span(), poison.span());
      copy_async(stream, first.subspan(s.first_offset, s.bytes),
                 from.subspan(s.from_offset, s.bytes));
      copy_async(stream, second.subspan(s.second_offset, s.bytes),
                 first.subspan(s.first_offset, s.bytes));
      copy_async(stream, to.subspan(s.to_offset, second.size()), second.span());
      stream.sync();

      const auto result = std::span<const std::byte>(to.span().bytes());
      const std::size_t begin = s.to_offset + s.second_offset;
      expect_filled(result.first(begin), kPoison);
      expect_bytes(result.subspan(begin, s.bytes),
                   std::span(source).subspan(s.from_offset, s.bytes));
      expect_filled(result.subspan(begin + s.bytes), kPoison);
      expect_bytes(from.span().bytes(), source);
    }
  });
}

TEST_P(GpuMemory, CopiesOfUnequalSizeAreRefused) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const PinnedBuffer pinned = pinned_filled(device, 64, kPoison);
    const DeviceBuffer there(device, 64);
    EXPECT_THROW(copy_async(stream, there.span(), pinned.subspan(0, 63)), std::invalid_argument);
    EXPECT_THROW(copy_async(stream, there.subspan(0, 63), pinned.span()), std::invalid_argument);
    EXPECT_THROW(copy_async(stream, pinned.span(), there.subspan(1, 63)), std::invalid_argument);
    EXPECT_THROW(copy_async(stream, there.subspan(0, 1), there.subspan(1, 2)),
                 std::invalid_argument);
    EXPECT_THROW(copy_async(stream, there.subspan(0, 0), pinned.span()), std::invalid_argument);
    stream.sync();
    expect_filled(pinned.span().bytes(), kPoison);
  });
}

TEST_P(GpuMemory, CopiesThatOverlapAreRefusedAndNeighboursAreNot) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const auto bytes = random_bytes(128, 11);
    const PinnedBuffer from = pinned_copy(device, std::span(bytes).first(64));
    const PinnedBuffer to = pinned_filled(device, 128, kPoison);
    const DeviceBuffer there(device, 128);
    const auto at = [&](std::size_t offset) { return there.subspan(offset, 64); };
    copy_async(stream, at(0), from.span());
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{63}}) {
      EXPECT_THROW(copy_async(stream, at(offset), at(0)), std::invalid_argument) << offset;
      EXPECT_THROW(copy_async(stream, at(0), at(offset)), std::invalid_argument) << offset;
    }
    copy_async(stream, at(64), at(0));
    copy_async(stream, to.span(), there.span());
    stream.sync();
    const auto result = std::span<const std::byte>(to.span().bytes());
    expect_bytes(result.first(64), std::span(bytes).first(64));
    expect_bytes(result.last(64), std::span(bytes).first(64));
  });
}

// More than a backend may hand over at once, of sizes and offsets that are odd, some of no bytes.
TEST_P(GpuMemory, ManyCopiesTogetherAllTravel) {
  with_device([](const Device& device) {
    constexpr std::size_t kCopies = 150;
    constexpr std::size_t kRoom = 1'000;
    const Stream stream(device);
    const auto source = random_bytes(kCopies * kRoom, 21);
    const PinnedBuffer from = pinned_copy(device, source);
    const PinnedBuffer to = pinned_filled(device, source.size(), kPoison);
    const DeviceBuffer there(device, source.size());
    const DeviceBuffer elsewhere(device, source.size());
    std::vector<CopyToDevice> out;
    std::vector<CopyWithinDevice> within;
    std::vector<CopyToHost> back;
    const auto length = [](std::size_t i) { return i % 7 == 0 ? 0 : (i * 37) % (kRoom - 5); };
    for (std::size_t i = 0; i < kCopies; ++i) {
      const std::size_t at = i * kRoom + i % 5;
      out.push_back({there.subspan(at, length(i)), from.subspan(at, length(i))});
      within.push_back({elsewhere.subspan(at, length(i)), there.subspan(at, length(i))});
      back.push_back({to.subspan(at, length(i)), elsewhere.subspan(at, length(i))});
    }
    copy_async(stream, out);
    copy_async(stream, within);
    copy_async(stream, back);
    stream.sync();
    for (std::size_t i = 0; i < kCopies; ++i) {
      const auto result = std::span<const std::byte>(to.span().bytes()).subspan(i * kRoom, kRoom);
      expect_filled(result.first(i % 5), kPoison);
      expect_bytes(result.subspan(i % 5, length(i)),
                   std::span(source).subspan(i * kRoom + i % 5, length(i)));
      expect_filled(result.subspan(i % 5 + length(i)), kPoison);
    }
  });
}

TEST_P(GpuMemory, CopiesTogetherAreInStreamOrder) {
  with_device([](const Device& device) {
    constexpr std::size_t kPart = 5'001;
    const Stream stream(device);
    const PinnedBuffer source = pinned_filled(device, 2 * kPart, std::byte{1});
    const PinnedBuffer first = pinned_filled(device, 2 * kPart, kPoison);
    const PinnedBuffer second = pinned_filled(device, 2 * kPart, kPoison);
    const DeviceBuffer there(device, 2 * kPart);
    const std::array<CopyToDevice, 2> out{
        {{there.subspan(0, kPart), source.subspan(0, kPart)},
         {there.subspan(kPart, kPart), source.subspan(kPart, kPart)}}};
    const Gate gate(stream);
    copy_async(stream, out);
    copy_async(stream, first.span(), there.span());
    stream.launch_host([&source] { fill(source.span(), std::byte{2}); });
    copy_async(stream, out);
    copy_async(stream, second.span(), there.span());
    gate.open();
    stream.sync();
    expect_filled(first.span().bytes(), std::byte{1});
    expect_filled(second.span().bytes(), std::byte{2});
  });
}

TEST_P(GpuMemory, OfCopiesTogetherNoneIsEnqueuedIfOneIsRefused) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const PinnedBuffer pinned = pinned_filled(device, 64, kPoison);
    const DeviceBuffer there(device, 64);
    const PinnedBuffer zeros = pinned_filled(device, 64, std::byte{0});
    copy_async(stream, there.span(), zeros.span());
    const std::array<CopyToDevice, 2> unequal{
        {{there.span(), pinned.span()}, {there.subspan(0, 8), pinned.subspan(0, 9)}}};
    const std::array<CopyWithinDevice, 1> overlapping{{{there.subspan(0, 8), there.subspan(7, 8)}}};
    EXPECT_THROW(copy_async(stream, unequal), std::invalid_argument);
    EXPECT_THROW(copy_async(stream, overlapping), std::invalid_argument);
    copy_async(stream, std::span<const CopyToDevice>{});  // none is no operation
    copy_async(stream, pinned.span(), there.span());
    stream.sync();
    expect_filled(pinned.span().bytes(), std::byte{0});
  });
}

TEST_P(GpuMemory, CopiesOfNoBytesDoNothing) {
  with_device([](const Device& device) {
    const Stream stream(device);
    const PinnedBuffer pinned = pinned_filled(device, 64, kPoison);
    const DeviceBuffer there(device, 64);
    const PinnedBuffer no_pinned(device, 0);
    const DeviceBuffer none_there(device, 0);
    EXPECT_EQ(none_there.size(), 0U);
    EXPECT_EQ(no_pinned.span().bytes().size(), 0U);
    copy_async(stream, none_there.span(), no_pinned.span());
    copy_async(stream, no_pinned.span(), none_there.span());
    copy_async(stream, none_there.span(), none_there.span());
    copy_async(stream, there.subspan(64, 0), pinned.subspan(0, 0));
    copy_async(stream, there.subspan(8, 0), there.subspan(8, 0));
    copy_async(stream, DeviceSpan{}, PinnedSpan{});
    stream.sync();
    expect_filled(pinned.span().bytes(), kPoison);
  });
}

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

TEST_P(GpuMemory, IsAlignedForAnyType) {
  with_device([](const Device& device) {
    for (const std::size_t bytes : {1U, 7U, 100U, 4'097U}) {
      const DeviceBuffer there(device, bytes);
      const PinnedBuffer pinned(device, bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there.data()) % alignof(std::max_align_t), 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned.data()) % alignof(std::max_align_t), 0U);
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

// ---- The arena

TEST_P(GpuMemory, AnArenaHandsOutEveryByteOnce) {
  with_device([](const Device& device) {
    PinnedArena arena(device, 3 * 4'096 + 5);
    EXPECT_EQ(arena.capacity(), 3 * 4'096 + 5U);
    const PinnedSpan first = arena.take(5'000);
    const PinnedSpan second = arena.take(4'096);
    const PinnedSpan third = arena.take(4, 1);
    const PinnedSpan last = arena.take(1, 1);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 4'096, 0U);
    EXPECT_EQ(second.data(), first.data() + 2 * 4'096);
    EXPECT_EQ(third.data(), second.data() + 4'096);
    EXPECT_EQ(last.data(), third.data() + 4);
    EXPECT_EQ(arena.left(), 0U);
    EXPECT_EQ(arena.take(0, 1).size(), 0U);
    std::byte value{1};
    for (const PinnedSpan& span : {first, second, third, last}) fill(span, value = value << 1);
    value = std::byte{1};
    for (const PinnedSpan& span : {first, second, third, last}) {
      expect_filled(span.bytes(), value = value << 1);
    }
  });
}

TEST_P(GpuMemory, AnArenaThatIsFullSaysSo) {
  with_device([](const Device& device) {
    PinnedArena arena(device, 10'000);
    static_cast<void>(arena.take(6'000));
    expect_gpu_error([&] { static_cast<void>(arena.take(2'000)); },
                     {"take 2000 bytes", device.name(), "6000 of its 10000 bytes"});
    expect_gpu_error([&] { static_cast<void>(arena.take(std::size_t{1} << 62, 1)); }, {"full"});
    EXPECT_THROW(static_cast<void>(arena.take(1, 3)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(arena.take(1, 8'192)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(arena.take(1, 0)), std::invalid_argument);
    EXPECT_EQ(arena.take(1'808).size(), 1'808U);
    EXPECT_THROW(PinnedArena(device, 0), std::invalid_argument);
  });
}

TEST_P(GpuMemory, AnArenaIsCopiedFromAndTo) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(3'000'001, 41);
    PinnedArena arena(device, 2 * bytes.size() + 4'096);
    const PinnedSpan from = arena.take(bytes.size());
    const PinnedSpan to = arena.take(bytes.size());
    std::ranges::copy(bytes, from.bytes().begin());
    const DeviceBuffer there(device, bytes.size());
    const Stream stream(device);
    copy_async(stream, there.span(), from);
    copy_async(stream, to, there.span());
    stream.sync();
    expect_bytes(to.bytes(), bytes);
  });
}

TEST_P(GpuMemory, AnArenaLiesWhereTheDeviceIs) {
  with_device([](const Device& device) {
    const PinnedArena arena(device, std::size_t{4} << 20);
    EXPECT_EQ(arena.fallback(), "");
    const PagePlacement placement = arena.placement();
    EXPECT_EQ(placement.bytes, std::size_t{4} << 20);
    EXPECT_EQ(placement.numa_node, device.info().numa_node);
    EXPECT_EQ(placement.node_bytes, placement.node_known ? placement.bytes : 0U);
  });
}

// Destroying it may wait for the gate: another thread does it.
TEST_P(GpuMemory, AnArenaDestroyedWhileCopiesAreQueuedLivesUntilTheseHaveRun) {
  with_device([](const Device& device) {
    const auto bytes = random_bytes(100'003, 42);
    for (const bool stream_goes_first : {false, true}) {
      const DeviceBuffer there(device, bytes.size());
      const PinnedBuffer to = pinned_filled(device, bytes.size(), kPoison);
      const Event copied(device);
      std::optional<Stream> stream(device);
      std::optional<PinnedArena> arena(std::in_place, device, bytes.size());
      const PinnedSpan from = arena->take(bytes.size());
      std::ranges::copy(bytes, from.bytes().begin());
      const Gate gate(*stream);
      copy_async(*stream, there.span(), from);
      copy_async(*stream, to.span(), there.span());
      copied.record(*stream);
      on_plain_threads(
          1,
          [&](int /*thread*/) {
            if (stream_goes_first) stream.reset();
            arena.reset();
            const PinnedArena again(device, bytes.size());  // its pages may be the same
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

// Whoever opens what holds a stream up may need a stream, and memory in its order, for that.
TEST_P(GpuMemory, AnArenaThatWaitsToBeDestroyedHoldsNobodyUp) {
  with_device([](const Device& device) {
    const DeviceBuffer there(device, 100);
    const Stream stream(device);
    std::optional<PinnedArena> arena(std::in_place, device, 100);
    const Gate gate(stream);
    copy_async(stream, there.span(), arena->take(100));
    on_plain_threads(
        1, [&](int /*thread*/) { arena.reset(); },
        [&] {
          for (int i = 0; i < 100; ++i) {
            yield();
            const Stream another(device);
            if (device.capabilities().stream_ordered_memory) {
              const DeviceBuffer in_order(another, 100);
            }
          }
          gate.open();
        });
  });
}

// ---- Caps

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
  } catch (const GpuError& e) {
    EXPECT_EQ(e.device(), device.name());
    EXPECT_NE(e.call(), "");
    EXPECT_NE(std::string(e.what()).find(std::to_string(bytes)), std::string::npos) << e.what();
  }
}

TEST_P(GpuMemory, OutOfItSaysSoAndEverythingWorksOn) {
  with_device([](const Device& device) {
    const Stream stream(device);
    for (const std::size_t bytes : {std::size_t{1} << 60, std::numeric_limits<std::size_t>::max(),
                                    std::numeric_limits<std::size_t>::max() - 4'096}) {
      expect_gpu_error([&] { DeviceBuffer(stream, bytes); }, {device.name()});
      expect_gpu_error([&] { PinnedArena(device, bytes); }, {device.name()});
      expect_too_much_is_refused<DeviceBuffer>(device, bytes);
      expect_too_much_is_refused<PinnedBuffer>(device, bytes);
      stream.sync();
    }
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

}  // namespace
}  // namespace leat::gpu
