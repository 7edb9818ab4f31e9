// What every backend promises of copies: every byte, alone and several together, and what is
// refused.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "leat/gpu/buffer.h"
#include "leat/gpu/stream.h"
#include "tests/support/backends.h"
#include "tests/support/bytes.h"
#include "tests/support/gate.h"

namespace leat::gpu {
namespace copy_test {

using namespace support;  // NOLINT(google-build-using-namespace): fixtures of this test

constexpr std::byte kPoison{0xA5};

class GpuCopy : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(Backends, GpuCopy, testing::ValuesIn(test_backends()), backend_title);

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
TEST_P(GpuCopy, EveryByteTravelsToTheDeviceWithinItAndBack) {
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

TEST_P(GpuCopy, CopiesOfUnequalSizeAreRefused) {
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

TEST_P(GpuCopy, CopiesThatOverlapAreRefusedAndNeighboursAreNot) {
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
TEST_P(GpuCopy, ManyCopiesTogetherAllTravel) {
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

TEST_P(GpuCopy, CopiesTogetherAreInStreamOrder) {
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

TEST_P(GpuCopy, OfCopiesTogetherNoneIsEnqueuedIfOneIsRefused) {
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

TEST_P(GpuCopy, CopiesOfNoBytesDoNothing) {
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

}  // namespace copy_test
}  // namespace leat::gpu
