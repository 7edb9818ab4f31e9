// Anonymous memory in whole pages: huge ones where the kernel has any, on a chosen NUMA node.
//
// Linux: mmap(2), madvise(2) MADV_HUGEPAGE, mbind(2), move_pages(2). For large buffers that a
// device copies from: fewer pages are cheaper to pin and to translate, and a copy from the device's
// own node crosses no link between CPUs.
#pragma once

#include <cstddef>
#include <utility>

namespace leat::gpu {

/// Where pages have come to lie, as the kernel says when it is asked.
struct PagePlacement {
  std::size_t bytes = 0;
  std::size_t huge_bytes = 0;  // of these, in huge pages; 0 also where /proc is not there to tell
  int numa_node = -1;          // that was asked for; -1: any
  std::size_t node_bytes = 0;  // of these, on that node; all of them where any will do
  bool node_known = false;     // whether the kernel told
};

/// Owns the pages. All of them are there, zeroed, once it is made: nothing is left to fault in.
/// Moved from, it is empty.
class HostPages {
 public:
  /// Bytes are rounded up to whole pages; > 0. `numa_node`: preferred, where it has room; -1: the
  /// node of whoever touches first. Throws std::bad_alloc where there is not enough memory.
  HostPages(std::size_t bytes, int numa_node);
  HostPages(HostPages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        numa_node_(other.numa_node_) {}
  HostPages& operator=(HostPages&& other) noexcept {
    HostPages taken(std::move(other));
    std::swap(data_, taken.data_);
    std::swap(bytes_, taken.bytes_);
    std::swap(numa_node_, taken.numa_node_);
    return *this;
  }
  /// Gives the pages back to the kernel.
  ~HostPages();

  /// Gives the pages up without giving them back, for good: a device may still reach them.
  void abandon() noexcept { data_ = nullptr; }

  /// Aligned to a page; to kHugePage if there is room for one.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// In bytes: whole pages.
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  /// Asks the kernel about every page: milliseconds for a gigabyte.
  [[nodiscard]] PagePlacement placement() const;

  /// The bytes of a huge page.
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int numa_node_ = -1;
};

}  // namespace leat::gpu
