#include "leat/gpu/backend/page_mapping.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <new>
#include <system_error>

#include "leat/csp/base/page_size.h"

namespace leat::gpu {
namespace {

#if !defined(MADV_POPULATE_WRITE)
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14; older headers do not name it
#endif

// Prefers a node. Does not fail if the node is full or if this process may not use it.
void prefer_node(void* memory, std::size_t bytes, int node) noexcept {
  constexpr int kBits = 64 * 16;
  if (node < 0 || node >= kBits) return;
  std::array<unsigned long, kBits / 64> mask{};
  mask[static_cast<std::size_t>(node) / 64] = 1UL << (static_cast<unsigned>(node) % 64);
  // Refused in some containers; placement_of() reports where the pages are.
  static_cast<void>(syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, mask.data(), kBits + 1, 0U));
}

void populate(std::byte* memory, std::size_t bytes) {
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return;
  if (errno != EINVAL) throw std::bad_alloc();  // EINVAL: an older kernel
  for (std::size_t at = 0; at < bytes; at += page_size()) {
    *static_cast<volatile std::byte*>(memory + at) = std::byte{0};
  }
}

// Maps a sealed memfd over the `bytes` bytes at `memory`, and returns it.
int share(std::byte* memory, std::size_t bytes) {
  const int descriptor = memfd_create("leat", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) {
    throw std::system_error(errno, std::generic_category(), "leat: memory to share (memfd_create)");
  }
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
      mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) ==
          MAP_FAILED) {
    close(descriptor);
    throw std::bad_alloc();
  }
  return descriptor;
}

}  // namespace

std::size_t machine_memory() noexcept {
  struct sysinfo system {};
  sysinfo(&system);  // fails only for a bad address
  return static_cast<std::size_t>(system.totalram) * system.mem_unit;
}

PageMapping::PageMapping(std::size_t bytes, int numa_node, PageSharing sharing)
    : numa_node_(numa_node) {
  const std::size_t page = page_size();
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;
  if (bytes > kMost || bytes > machine_memory()) throw std::bad_alloc();
  bytes = (bytes + page - 1) / page * page;
  // Maps enough to begin at a huge page, and unmaps the rest.
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
  try {
    if (sharing != PageSharing::kPrivate) descriptor_ = share(data_, bytes_);
  } catch (...) {
    munmap(data_, bytes_);
    throw;
  }
  // A failure is ignored: without huge pages copies are only slower.
  if (alignment == kHugePage) static_cast<void>(madvise(data_, bytes_, MADV_HUGEPAGE));
  prefer_node(data_, bytes_, numa_node_);
  try {
    populate(data_, bytes_);
  } catch (...) {
    munmap(data_, bytes_);
    if (descriptor_ >= 0) close(descriptor_);
    throw;
  }
}

PageMapping::~PageMapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace leat::gpu
