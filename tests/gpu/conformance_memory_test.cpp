// What every backend promises of memory: copies, spans, and how buffers come and go.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/stream.h"
#include "leat/tests/support/backends.h"
#include "leat/tests/support/bytes.h"
#include "leat/tests/support/gate.h"
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
      expect_too_much_is_refused<DeviceBuffer>(device, bytes);
      expect_too_much_is_refused<PinnedBuffer>(device, bytes);
      stream.sync();
    }
    expect_works(device);
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
