// What every backend promises of PinnedArena: what it hands out, where it lies, when it goes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "leat/csp/scheduler.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/event.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"
#include "tests/support/gpu_error.h"
#include "tests/support/plain_threads.h"

namespace leat::gpu {
namespace arena_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::byte kPoison{0xA5};

class GpuArena : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuArena, testing::ValuesIn(test_backends()), backend_title);

TEST_P(GpuArena, HandsOutEveryByteOnce) {
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

TEST_P(GpuArena, ThatIsFullSaysSo) {
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

TEST_P(GpuArena, IsCopiedFromAndTo) {
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

TEST_P(GpuArena, LiesWhereTheDeviceIs) {
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
TEST_P(GpuArena, DestroyedWhileCopiesAreQueuedLivesUntilTheseHaveRun) {
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

// The code that unblocks a stream may need another stream for that, and memory in its order.
TEST_P(GpuArena, ThatWaitsToBeDestroyedHoldsNobodyUp) {
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

}  // namespace arena_test
}  // namespace leat::gpu
