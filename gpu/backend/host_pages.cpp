#include "leat/gpu/backend/host_pages.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <new>
#include <string>

namespace leat::gpu {
namespace {

#if !defined(MADV_POPULATE_WRITE)
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14; older headers do not name it
#endif

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// The kernel promises more memory than there is, and kills who uses it.
bool exceeds_machine(std::size_t bytes) noexcept {
  struct sysinfo system {};
  sysinfo(&system);  // fails for a bad address alone
  return bytes > static_cast<std::size_t>(system.totalram) * system.mem_unit;
}

// Preferred, not bound: a node that is full, or that this process may not use, is no reason to
// fail.
void prefer_node(void* memory, std::size_t bytes, int node) noexcept {
  constexpr int kBits = 64 * 16;
  if (node < 0 || node >= kBits) return;
  std::array<unsigned long, kBits / 64> mask{};
  mask[static_cast<std::size_t>(node) / 64] = 1UL << (static_cast<unsigned>(node) % 64);
  // Refused in some containers; placement() tells where the pages are.
  static_cast<void>(syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, mask.data(), kBits + 1, 0U));
}

void populate(std::byte* memory, std::size_t bytes) {
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return;
  if (errno != EINVAL) throw std::bad_alloc();  // EINVAL: an older kernel
  for (std::size_t at = 0; at < bytes; at += page_size()) {
    *static_cast<volatile std::byte*>(memory + at) = std::byte{0};
  }
}

// AnonHugePages of the mapping that begins at `memory`, and of those that the kernel split it into.
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

HostPages::HostPages(std::size_t bytes, int numa_node) : numa_node_(numa_node) {
  const std::size_t page = page_size();
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;
  if (bytes > kMost || exceeds_machine(bytes)) throw std::bad_alloc();
  bytes = (bytes + page - 1) / page * page;
  // Enough to begin at a huge page; the rest is given back.
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : page;
  const std::size_t mapped = bytes + alignment - page;
  void* const memory =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(memory);
  const std::size_t skip =
      (alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment) % alignment;
  if (skip > 0) munmap(begin, skip);
  if (mapped - skip > bytes) munmap(begin + skip + bytes, mapped - skip - bytes);
  data_ = begin + skip;
  bytes_ = bytes;
  // Without huge pages it is slower, and correct.
  if (alignment == kHugePage) static_cast<void>(madvise(data_, bytes_, MADV_HUGEPAGE));
  prefer_node(data_, bytes_, numa_node_);
  try {
    populate(data_, bytes_);
  } catch (...) {
    munmap(data_, bytes_);
    throw;
  }
}

HostPages::~HostPages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

PagePlacement HostPages::placement() const {
  PagePlacement placement{.bytes = bytes_,
                          .huge_bytes = huge_bytes(data_, bytes_),
                          .numa_node = numa_node_,
                          .node_bytes = 0,
                          .node_known = true};
  if (numa_node_ < 0) {
    placement.node_bytes = bytes_;
    return placement;
  }
  const std::size_t page = page_size();
  constexpr std::size_t kAtOnce = 512;
  std::array<void*, kAtOnce> pages{};
  std::array<int, kAtOnce> nodes{};
  for (std::size_t at = 0; at < bytes_;) {
    std::size_t count = 0;
    for (; count < kAtOnce && at < bytes_; at += page) pages[count++] = data_ + at;
    // Without nodes to move to, it tells where the pages are.
    if (syscall(SYS_move_pages, 0, count, pages.data(), nullptr, nodes.data(), 0) != 0) {
      placement.node_known = false;
      placement.node_bytes = 0;
      return placement;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (nodes[i] == numa_node_) placement.node_bytes += page;
    }
  }
  return placement;
}

}  // namespace leat::gpu
