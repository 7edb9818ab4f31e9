#include "leat/gpu/backend/page_placement.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

#include "leat/csp/base/page_size.h"

namespace leat::gpu {
namespace {

// Sums AnonHugePages over all mappings that overlap the range: the kernel may have split it.
std::size_t huge_bytes(const std::byte* memory, std::size_t bytes) {
  std::ifstream smaps("/proc/self/smaps");
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  std::size_t huge = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    const char* const end = line.data() + line.size();
    const auto first = std::from_chars(line.data(), end, from, 16);
    if (first.ec == std::errc{} && first.ptr != end && *first.ptr == '-') {
      static_cast<void>(std::from_chars(first.ptr + 1, end, to, 16));
      ours = from < begin + bytes && to > begin;
    } else if (ours && line.starts_with("AnonHugePages:")) {
      huge += std::stoul(line.substr(sizeof "AnonHugePages:")) * 1024;
    }
  }
  return std::min(huge, bytes);  // a neighbour may have become part of the same mapping
}

}  // namespace

PagePlacement placement_of(const PageMapping& mapping) {
  std::byte* const data = mapping.data();
  const std::size_t bytes = mapping.size();
  PagePlacement placement{.bytes = bytes,
                          .huge_bytes = huge_bytes(data, bytes),
                          .numa_node = mapping.numa_node(),
                          .node_bytes = 0,
                          .node_known = true};
  if (placement.numa_node < 0) {
    placement.node_bytes = bytes;
    return placement;
  }
  const std::size_t page = page_size();
  constexpr std::size_t kAtOnce = 512;
  std::array<void*, kAtOnce> pages{};
  std::array<int, kAtOnce> nodes{};
  for (std::size_t at = 0; at < bytes;) {
    std::size_t count = 0;
    for (; count < kAtOnce && at < bytes; at += page) pages[count++] = data + at;
    // Without target nodes the call moves nothing and reports where the pages are.
    if (syscall(SYS_move_pages, 0, count, pages.data(), nullptr, nodes.data(), 0) != 0) {
      placement.node_known = false;
      placement.node_bytes = 0;
      return placement;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (nodes[i] == placement.numa_node) placement.node_bytes += page;
    }
  }
  return placement;
}

}  // namespace leat::gpu
