#include "tests/support/bytes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "leat/gpu/stream.h"

namespace leat::support {

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> bytes(count);
  std::uint64_t state = seed;
  for (std::byte& byte : bytes) {
    // Splitmix64 (Steele, Lea, Flood 2014).
    std::uint64_t z = state += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    byte = static_cast<std::byte>(z >> 56);
  }
  return bytes;
}

gpu::PinnedBuffer pinned_copy(const gpu::Device& device, std::span<const std::byte> bytes) {
  gpu::PinnedBuffer buffer(device, bytes.size());
  std::ranges::copy(bytes, buffer.span().bytes().begin());
  return buffer;
}

gpu::PinnedBuffer pinned_filled(const gpu::Device& device, std::size_t bytes, std::byte value) {
  gpu::PinnedBuffer buffer(device, bytes);
  fill(buffer.span(), value);
  return buffer;
}

void fill(gpu::PinnedSpan span, std::byte value) { std::ranges::fill(span.bytes(), value); }

void expect_bytes(std::span<const std::byte> actual, std::span<const std::byte> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  const auto difference = std::ranges::mismatch(actual, expected);
  if (difference.in1 == actual.end()) return;
  ADD_FAILURE() << "byte " << difference.in1 - actual.begin() << " of " << actual.size() << " is "
                << std::to_integer<int>(*difference.in1) << ", not "
                << std::to_integer<int>(*difference.in2);
}

void expect_filled(std::span<const std::byte> actual, std::byte value) {
  expect_bytes(actual, std::vector<std::byte>(actual.size(), value));
}

void expect_works(const gpu::Device& device) {
  const auto bytes = random_bytes(4097, 97);
  const gpu::PinnedBuffer from = pinned_copy(device, bytes);
  const gpu::PinnedBuffer to = pinned_filled(device, bytes.size(), std::byte{0});
  const gpu::DeviceBuffer there(device, bytes.size());
  const gpu::Stream stream(device);
  gpu::copy_async(stream, there.span(), from.span());
  gpu::copy_async(stream, to.span(), there.span());
  stream.sync();
  expect_bytes(to.span().bytes(), bytes);
}

}  // namespace leat::support
