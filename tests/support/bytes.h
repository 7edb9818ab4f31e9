// Bytes to copy, and whether they have arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "leat/gpu/buffer.h"

namespace leat::support {

/// Pseudo-random bytes; equal seeds give equal bytes.
[[nodiscard]] std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed);

/// For the CPU: pinned memory with these bytes, or filled with one value.
[[nodiscard]] gpu::PinnedBuffer pinned_copy(const gpu::Device& device,
                                            std::span<const std::byte> bytes);
[[nodiscard]] gpu::PinnedBuffer pinned_filled(const gpu::Device& device, std::size_t bytes,
                                              std::byte value);
void fill(gpu::PinnedSpan span, std::byte value);

/// Fails the test, naming the first byte that differs.
void expect_bytes(std::span<const std::byte> actual, std::span<const std::byte> expected);
/// Fails the test unless every byte is `value`.
void expect_filled(std::span<const std::byte> actual, std::byte value);

/// Fails the test unless bytes travel to the device and back, on a stream and buffers made for it.
void expect_works(const gpu::Device& device);

}  // namespace leat::support
