// Having the disk fetch bytes that are read later (Dataset::announce).
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "leat/csp/base/page_size.h"

namespace leat::feeder {

/// The most bytes that one call announces. The kernel fetches only the first part of a larger
/// range: as much as a device reads ahead (read_ahead_kb, 128 by default) or takes in one request.
inline constexpr std::uint64_t kMostAnnounced = std::uint64_t{128} << 10;

/// Announces bytes of a mapped file. Returns false if the kernel refuses.
inline bool announce_mapped(std::span<const std::byte> bytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::size_t before = address % page_size();
  auto* const first = const_cast<std::byte*>(bytes.data() - before);
  const std::size_t size = before + bytes.size();
  for (std::size_t at = 0; at < size; at += kMostAnnounced) {
    const std::size_t piece = std::min<std::size_t>(size - at, kMostAnnounced);
    if (madvise(first + at, piece, MADV_WILLNEED) != 0) return false;
  }
  return true;
}

}  // namespace leat::feeder
