// Memory in whole pages: huge pages if the kernel has any, on a chosen NUMA node.
//
// Linux: mmap(2), madvise(2) MADV_HUGEPAGE, mbind(2), memfd_create(2). For large buffers that a
// device copies from: fewer pages are cheaper to pin and to translate, and a copy from the device's
// own node crosses no link between CPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace leat::gpu {

/// Returns the memory of this machine in bytes. Larger requests are refused here: the kernel would
/// grant them, and kill the process when it uses the memory.
[[nodiscard]] std::size_t machine_memory() noexcept;

/// Who may map the pages.
enum class PageSharing : std::uint8_t {
  kPrivate,         // this process alone
  kShared,          // other processes, too, by descriptor()
  kSharedUnpinned,  // likewise. A PinnedArena does not pin them: a device copies them more slowly
};

/// Owns the pages. All of them are present and zeroed from the constructor on: no access faults. A
/// mapping that was moved from is empty.
class PageMapping {
 public:
  /// Maps `bytes` > 0, rounded up to whole pages. `numa_node` is preferred if it has room; -1: the
  /// node of the thread that calls this. Throws std::bad_alloc if there is not enough memory.
  /// kShared: the pages are those of a memfd, which is sealed: nobody can shrink it, which would
  /// end this process by SIGBUS. Throws std::system_error if there is no descriptor left.
  PageMapping(std::size_t bytes, int numa_node, PageSharing sharing = PageSharing::kPrivate);
  PageMapping(PageMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        numa_node_(other.numa_node_),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  PageMapping& operator=(PageMapping other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(numa_node_, other.numa_node_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  /// Unmaps the pages.
  ~PageMapping();

  /// Gives up the pages without unmapping them, because a device may still reach them.
  void abandon() noexcept { data_ = nullptr; }

  /// Aligned to a page, or to kHugePage if the mapping is at least that large.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// Returns the size in bytes, whole pages.
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  /// Returns the node that was asked for; -1: any.
  [[nodiscard]] int numa_node() const noexcept { return numa_node_; }

  /// Returns the memfd, which the mapping owns; -1: the pages are private.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  /// The size of a huge page in bytes.
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int numa_node_ = -1;
  int descriptor_ = -1;
};

}  // namespace leat::gpu
