#include "leat/feeder/slots/copy.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>

#include "leat/feeder/stats.h"
#include "leat/feeder/stats/figures.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace leat::feeder {
namespace {

#if defined(__x86_64__)

// A line that is written in part is fetched from memory, so whole lines are written.
constexpr std::size_t kLine = 64;
// Lines of neighbouring pages are copied in turns, because a CPU fetches ahead within a page and
// begins anew in each: 1.1 times as fast at 8 KiB, 1.2 times at 150 KB.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostPages = 4;

// Copies the first `width` bytes, which are whole lines, of each of `pages` pages.
using CopyPages = void(std::byte* to, const std::byte* from, std::size_t width, std::size_t pages);

__attribute__((target("avx"))) void copy_pages_avx(std::byte* to, const std::byte* from,
                                                   std::size_t width, std::size_t pages) {
  for (std::size_t in_page = 0; in_page < width; in_page += kLine) {
    for (std::size_t at = in_page; at < pages * kPage; at += kPage) {
      const auto* const source = reinterpret_cast<const __m256i*>(from + at);
      auto* const line = reinterpret_cast<__m256i*>(to + at);
      const __m256i first = _mm256_loadu_si256(source);
      const __m256i second = _mm256_loadu_si256(source + 1);
      _mm256_stream_si256(line, first);
      _mm256_stream_si256(line + 1, second);
    }
  }
}

void copy_pages_sse2(std::byte* to, const std::byte* from, std::size_t width, std::size_t pages) {
  for (std::size_t in_page = 0; in_page < width; in_page += kLine) {
    for (std::size_t at = in_page; at < pages * kPage; at += kPage) {
      const auto* const source = reinterpret_cast<const __m128i*>(from + at);
      auto* const line = reinterpret_cast<__m128i*>(to + at);
      for (int i = 0; i < 4; ++i) _mm_stream_si128(line + i, _mm_loadu_si128(source + i));
    }
  }
}

// Copies `bytes`, which are whole lines, to `to`, where a line begins.
void copy_lines(std::byte* to, const std::byte* from, std::size_t bytes, CopyPages* copy_pages) {
  while (bytes > 0) {
    const std::size_t pages = std::min(bytes / kPage, kMostPages);
    const std::size_t done = pages > 0 ? pages * kPage : bytes;
    copy_pages(to, from, std::min(done, kPage), std::max<std::size_t>(pages, 1));
    to += done;
    from += done;
    bytes -= done;
  }
}

#endif

}  // namespace

const char* to_string(Stores stores) noexcept {
  switch (stores) {
    case Stores::kCached: return "memcpy()";
    case Stores::kSse2: return "SSE2";
    case Stores::kAvx: return "AVX";
  }
  return "?";
}

Stores fastest_stores() noexcept {
#if defined(__x86_64__)
  static const bool has_avx = __builtin_cpu_supports("avx") != 0;
  return has_avx ? Stores::kAvx : Stores::kSse2;
#else
  return Stores::kCached;
#endif
}

void copy_bytes(std::byte* to, std::span<const std::byte> from, Stores stores) noexcept {
  if (from.empty()) return;  // memcpy() takes no null
#if defined(__x86_64__)
  if (stores != Stores::kCached) {
    const std::size_t to_line = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
    const std::size_t head = std::min(to_line, from.size());
    const std::size_t lines = (from.size() - head) / kLine * kLine;
    const std::span<const std::byte> tail = from.subspan(head + lines);
    std::memcpy(to, from.data(), head);
    copy_lines(to + head, from.data() + head, lines,
               stores == Stores::kAvx ? copy_pages_avx : copy_pages_sse2);
    std::memcpy(to + head + lines, tail.data(), tail.size());
    _mm_sfence();
    return;
  }
#endif
  std::memcpy(to, from.data(), from.size());
}

void copy_bytes(std::byte* to, std::span<const std::byte> from,
                std::uint64_t* past_cache) noexcept {
  if (past_cache == nullptr || from.size() < kLeastPastCache) {
    copy_bytes(to, from, Stores::kCached);
    return;
  }
  copy_bytes(to, from, fastest_stores());
  *past_cache += from.size();
}

namespace {

std::size_t read_l3_bytes() {
  if (fastest_stores() == Stores::kCached) return 0;
  // First, because sysconf() of older versions of glibc returns the sum over all L3 caches of an
  // AMD processor.
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");  // "32768K"
  std::size_t kibibytes = 0;
  char unit = 0;
  if (file >> kibibytes >> unit && unit == 'K') return kibibytes << 10;
  return static_cast<std::size_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
}

std::atomic<std::size_t>& l3() {
  static std::atomic<std::size_t> bytes = read_l3_bytes();
  return bytes;
}

}  // namespace

std::size_t l3_bytes() { return l3().load(std::memory_order_relaxed); }

void set_l3_bytes(std::size_t bytes) { l3().store(bytes, std::memory_order_relaxed); }

std::string Stats::copies_text() const {
  if (past_cache_bytes == 0 || ring_bytes < l3_bytes()) return "";  // autotune makes rings smaller
  return std::string("  copies into pinned memory bypass the cache (") +
         to_string(fastest_stores()) + " stores): the ring of " +
         bytes_text(static_cast<double>(ring_bytes)) + " is at least as large as the L3 cache of " +
         bytes_text(static_cast<double>(l3_bytes())) + "\n";
}

}  // namespace leat::feeder
