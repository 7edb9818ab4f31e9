#include "leat/feeder/sources/guarded_range.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

#include "leat/csp/base/page_size.h"
#include "leat/csp/base/signal_chain.h"
#include "leat/csp/error.h"

namespace leat::feeder {

struct GuardedRange::Node {
  std::atomic<std::uint64_t> version{1};  // odd while the node is being changed, and while free
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  // The lost bytes, as two distances that only grow, so that neither update depends on the other:
  // from the first lost byte to `end` (0: none is lost), and from `begin` to behind the last one.
  std::atomic<std::uintptr_t> lost_before_end{0};
  std::atomic<std::uintptr_t> lost_after_begin{0};
  Node* next = nullptr;       // in the list of all nodes; set before the node is in the list
  Node* next_free = nullptr;  // guarded by `changes`
};

namespace {

using Node = GuardedRange::Node;

std::mutex changes;  // guards changes of nodes; the handler does not take it
std::atomic<Node*> nodes{nullptr};
Node* free_nodes = nullptr;
struct sigaction previous = {};
// Like `previous`, set before the handler is installed: the handler does not call page_size().
std::uintptr_t page_bytes = 0;
std::atomic<int> zeros{-1};            // a descriptor of /dev/zero; -1: none
std::atomic<unsigned> given_zeros{0};  // how often
// All given pages lie before this address; and behind the complement of that one. Both only grow.
std::atomic<std::uintptr_t> zeros_behind{0};
std::atomic<std::uintptr_t> zeros_before{0};
constexpr unsigned kPagesAlone = 256;

// Fibers that take turns on a thread share its signal stack and its errno. To ThreadSanitizer each
// fiber is a thread, so it would report a race. All data that the handler shares with other threads
// is atomic.
#define LEAT_IN_HANDLER __attribute__((no_sanitize("thread")))

LEAT_IN_HANDLER void grow(std::atomic<std::uintptr_t>& value, std::uintptr_t least) noexcept {
  std::uintptr_t now = value.load();
  while (now < least && !value.compare_exchange_weak(now, least)) {
  }
}

// Calls visit(node, begin, end) for each range that has memory of [from, to).
template <class Visit>
LEAT_IN_HANDLER void for_ranges(std::uintptr_t from, std::uintptr_t to,
                                const Visit& visit) noexcept {
  for (Node* node = nodes.load(); node != nullptr; node = node->next) {
    const std::uint64_t version = node->version.load();
    const std::uintptr_t begin = node->begin.load();
    const std::uintptr_t end = node->end.load();
    // A node that is being changed is not a wanted one: nobody reads its range.
    if (version % 2 != 0 || node->version.load() != version) continue;
    if (from < end && begin < to) visit(*node, begin, end);
  }
}

// Records [from, to) as lost in all ranges that have some of it: each has readers of its own.
LEAT_IN_HANDLER void record(std::uintptr_t from, std::uintptr_t to) noexcept {
  for_ranges(from, to, [=](Node& node, std::uintptr_t begin, std::uintptr_t end) LEAT_IN_HANDLER {
    grow(node.lost_before_end, end - (from > begin ? from : begin));
    grow(node.lost_after_begin, (to < end ? to : end) - begin);
  });
}

// Returns how far the memory from `page` on is guarded; 0 if it is not.
LEAT_IN_HANDLER std::uintptr_t guarded_end(std::uintptr_t page) noexcept {
  std::uintptr_t least = 0;
  for_ranges(page, page + 1, [&](Node&, std::uintptr_t, std::uintptr_t end) LEAT_IN_HANDLER {
    if (least == 0 || end < least) least = end;
  });
  return least;
}

// Returns `zeros`. A program that closes all descriptors has closed that one, too, and its number
// may be another file's by now.
LEAT_IN_HANDLER int zero_device() noexcept {
  int before = zeros.load();
  struct stat status;
  if (before >= 0 && syscall(SYS_fstat, before, &status) == 0 && S_ISCHR(status.st_mode) &&
      status.st_rdev == makedev(1, 5)) {
    return before;
  }
  const auto now = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/dev/zero", O_CLOEXEC));
  if (zeros.compare_exchange_strong(before, now)) return now;
  syscall(SYS_close, now);  // another thread was faster
  return before;
}

// Maps zeros in place of the missing page. Returns false if that failed.
//
// Each page on its own may divide a mapping, of which a process has 65530. So of many, ever more
// pages behind the missing one are given up with it: what is behind the end of a file that was cut
// off is missing, too.
LEAT_IN_HANDLER bool give_zeros(std::uintptr_t address) noexcept {
  const std::uintptr_t page = address / page_bytes * page_bytes;
  const std::uintptr_t end = guarded_end(page);
  if (end == 0) return false;
  const unsigned doublings = given_zeros.fetch_add(1) / kPagesAlone;
  const std::uintptr_t most = page_bytes << (doublings < 30 ? doublings : 30);
  const std::uintptr_t bytes = most < end - page ? most : end - page;
  grow(zeros_behind, page + bytes);
  grow(zeros_before, ~page);
  record(page, page + bytes);
  // Plain system calls: to ThreadSanitizer, mmap() would write to memory that others read. The
  // offset of a page is its address, by which find_zeros() knows it, and neighbours are joined.
  const int device = zero_device();
  const int flags = MAP_PRIVATE | MAP_FIXED | (device < 0 ? MAP_ANONYMOUS : 0);
  if (syscall(SYS_mmap, page, bytes, PROT_READ, flags, device, device < 0 ? 0 : page) !=
      static_cast<long>(page)) {
    return false;
  }
  record(page, page + bytes);  // in ranges, too, that have been opened meanwhile
  return true;
}

extern "C" LEAT_IN_HANDLER void leat_on_sigbus(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_fault = info->si_code == BUS_ADRERR;
  if (!is_fault || !give_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    pass_on(previous, signal, info, context);
  }
  errno = error;
}

void install() {
  page_bytes = page_size();
  zero_device();
  if (!install_in_front(SIGBUS, &leat_on_sigbus, previous)) {
    throw Error(std::string("leat: cannot handle SIGBUS, as mapped files need: ") +
                std::strerror(errno) + "; check what forbids sigaction(2)");
  }
}

// Records what was lost before the range began: pages that give_zeros() has mapped for others.
void find_zeros(Node& node) {
  std::ifstream maps("/proc/self/maps");
  if (!maps) {
    throw Error(std::string("leat: cannot open /proc/self/maps, which tells what was lost: ") +
                std::strerror(errno));
  }
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::uintptr_t offset = 0;  // of files, far below any address
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNxPTR, &begin, &end,
                    &offset) != 3 ||
        begin != offset) {
      continue;
    }
    begin = std::max(begin, node.begin.load());
    end = std::min(end, node.end.load());
    if (begin >= end) continue;
    grow(node.lost_before_end, node.end.load() - begin);
    grow(node.lost_after_begin, end - node.begin.load());
  }
}

// Takes a node for the range.
Node* new_range(const std::byte* data, std::size_t size) {
  static std::once_flag installed;
  std::call_once(installed, install);

  const std::lock_guard lock(changes);
  const bool is_new = free_nodes == nullptr;
  Node* const node = is_new ? new Node : free_nodes;
  if (!is_new) free_nodes = node->next_free;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  node->begin.store(begin);
  node->end.store(begin + (size + page_bytes - 1) / page_bytes * page_bytes);
  node->lost_before_end.store(0);
  node->lost_after_begin.store(0);
  node->version.fetch_add(1);
  if (is_new) {
    node->next = nodes.load();
    nodes.store(node);
  }
  return node;
}

}  // namespace

GuardedRange::GuardedRange(Node* node) noexcept : node_(node) {}

GuardedRange::GuardedRange(const std::byte* data, std::size_t size, bool is_new)
    : GuardedRange(new_range(data, size)) {
  const bool is_near =
      node_->begin.load() < zeros_behind.load() && ~node_->end.load() < zeros_before.load();
  if (!is_new && is_near) find_zeros(*node_);
}

GuardedRange::~GuardedRange() {
  const std::lock_guard lock(changes);
  node_->version.fetch_add(1);
  node_->next_free = free_nodes;
  free_nodes = node_;
}

bool GuardedRange::is_damaged() const noexcept { return node_->lost_before_end.load() != 0; }

std::size_t GuardedRange::first_lost() const noexcept {
  return node_->end.load() - node_->begin.load() - node_->lost_before_end.load();
}

bool GuardedRange::is_lost(std::size_t from, std::size_t to) const noexcept {
  if (!is_damaged()) return false;
  return from < node_->lost_after_begin.load() && first_lost() < to;
}

}  // namespace leat::feeder
