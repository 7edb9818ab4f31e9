// How bytes are copied into pinned slots: through the CPU's caches, or past them.
//
// A slot is read next by the device. If all slots together do not fit in the L3 cache, a line is
// evicted before it is written again, and an ordinary store has to fetch it from memory first.
// Non-temporal stores write whole lines without that.
//
// Always true: non-temporal stores are weakly ordered, and neither a lock's release nor a channel
// orders them. So copy_bytes() ends with a fence: after it, all is as after memcpy(). A later place
// would not do: a fiber that parks during a read may go on on another thread, and a fence there
// does not order the stores of the first thread. In a copy of 8 KiB the fence costs nothing that
// can be measured (bench/results/copy.txt).
//
// Thread safety: all functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat::feeder {

/// The least bytes of one copy that go past the caches. Smaller copies gain nothing measurable.
inline constexpr std::size_t kLeastPastCache = std::size_t{8} << 10;

/// The instructions that write past the caches.
enum class Stores : std::uint8_t {
  kCached,  // none: memcpy(). The only ones outside x86-64
  kSse2,
  kAvx,
};
/// "memcpy()", "SSE2", "AVX".
[[nodiscard]] const char* to_string(Stores stores) noexcept;
/// Returns the fastest stores past the caches that this CPU has.
[[nodiscard]] Stores fastest_stores() noexcept;
/// Copies `from` to `to`. The two do not overlap, and may be empty. The CPU must have `stores`.
void copy_bytes(std::byte* to, std::span<const std::byte> from, Stores stores) noexcept;
/// Copies past the caches, and adds the bytes to `*past_cache`. Copies as memcpy() if `past_cache`
/// is null or there are fewer bytes than kLeastPastCache.
void copy_bytes(std::byte* to, std::span<const std::byte> from, std::uint64_t* past_cache) noexcept;

/// Returns the bytes of the L3 cache of CPU 0. 0: not known, or the CPU has no such stores.
[[nodiscard]] std::size_t l3_bytes();
/// For tests: what l3_bytes() returns from now on.
void set_l3_bytes(std::size_t bytes);

}  // namespace leat::feeder
