#include "leat/feeder/sources/guarded_range.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
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

// Fibers that take turns on a thread share its signal stack and its errno. To ThreadSanitizer each
// fiber is a thread, so it would report a race. All data that the handler shares with other threads
// is atomic.
#define LEAT_IN_HANDLER __attribute__((no_sanitize("thread")))

LEAT_IN_HANDLER void grow(std::atomic<std::uintptr_t>& value, std::uintptr_t least) noexcept {
  std::uintptr_t now = value.load();
  while (now < least && !value.compare_exchange_weak(now, least)) {
  }
}

// Records the page as lost in all ranges that contain the address: each has readers of its own.
// Returns false if there is none.
LEAT_IN_HANDLER bool record(std::uintptr_t address, std::uintptr_t page) noexcept {
  bool found = false;
  for (Node* node = nodes.load(); node != nullptr; node = node->next) {
    const std::uint64_t version = node->version.load();
    const std::uintptr_t begin = node->begin.load();
    const std::uintptr_t end = node->end.load();
    // A node that is being changed is not the wanted one: nobody reads its range.
    if (version % 2 != 0 || node->version.load() != version) continue;
    if (address < begin || address >= end) continue;
    grow(node->lost_before_end, end - page);
    grow(node->lost_after_begin, page + page_bytes - begin);
    found = true;
  }
  return found;
}

// Maps a page of zeros in place of the missing page. Returns false if that failed.
LEAT_IN_HANDLER bool give_zeros(std::uintptr_t address) noexcept {
  const std::uintptr_t page = address / page_bytes * page_bytes;
  if (!record(address, page)) return false;
  // A plain system call: to ThreadSanitizer, mmap() would write to memory that others read.
  return syscall(SYS_mmap, page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == static_cast<long>(page);
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
  if (!install_in_front(SIGBUS, &leat_on_sigbus, previous)) {
    throw Error(std::string("leat: cannot handle SIGBUS, as mapped files need: ") +
                std::strerror(errno) + "; check what forbids sigaction(2)");
  }
}

}  // namespace

GuardedRange::GuardedRange(const std::byte* data, std::size_t size) {
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
  node_ = node;
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
