// What the queue of waiting operations touches, counted: every node has a page of memory of its own
// that is taken away before an operation, and given back by whoever faults on it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <new>

#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/thread_waiter.h"
#include "leat/csp/wait/waiter.h"

namespace leat {
namespace wait_queue_test {

// What the handler of faults works on.
struct Pages {
  std::byte* first = nullptr;
  std::size_t bytes = 0;
  std::size_t page_size = 0;
  volatile std::size_t touched = 0;
  struct sigaction previous = {};
};
Pages g_pages;

// Called once for each page that is touched: the instruction is run again.
extern "C" void count_the_page(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(info->si_addr) -
                                               g_pages.first);  // enormous if below
  if (offset >= g_pages.bytes) {
    sigaction(SIGSEGV, &g_pages.previous, nullptr);  // a fault like any other
    return;
  }
  std::byte* const page = g_pages.first + offset / g_pages.page_size * g_pages.page_size;
  if (mprotect(page, g_pages.page_size, PROT_READ | PROT_WRITE) != 0) _exit(1);
  g_pages.touched = g_pages.touched + 1;
}

/// A queue of so many operations that wait. One at a time.
class WaitingNodes {
 public:
  explicit WaitingNodes(std::size_t count) : waiters_(count) {
    g_pages.page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    g_pages.bytes = count * g_pages.page_size;
    void* const memory =
        mmap(nullptr, g_pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    g_pages.first = static_cast<std::byte*>(memory);
    struct sigaction action = {};
    action.sa_sigaction = &count_the_page;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &g_pages.previous);
    for (ThreadWaiter& waiter : waiters_) {
      waiter.begin({});
      WaitNode* const node = std::construct_at(&at(nodes_++));
      node->waiter = &waiter;
      queue.push(*node);
    }
  }
  WaitingNodes(const WaitingNodes&) = delete;
  WaitingNodes& operator=(const WaitingNodes&) = delete;
  ~WaitingNodes() {
    sigaction(SIGSEGV, &g_pages.previous, nullptr);
    munmap(g_pages.first, g_pages.bytes);
  }

  /// In the order in which they were queued.
  [[nodiscard]] WaitNode& at(std::size_t index) const noexcept {
    return *reinterpret_cast<WaitNode*>(g_pages.first + index * g_pages.page_size);
  }
  [[nodiscard]] std::size_t count() const noexcept { return nodes_; }
  [[nodiscard]] ThreadWaiter& waiter(std::size_t index) noexcept { return waiters_[index]; }

  /// How many nodes `operation` touches.
  template <class Operation>
  std::size_t touched_by(Operation&& operation) {
    g_pages.touched = 0;
    if (mprotect(g_pages.first, g_pages.bytes, PROT_NONE) != 0) throw std::bad_alloc();
    operation();
    const std::size_t touched = g_pages.touched;
    if (mprotect(g_pages.first, g_pages.bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    return touched;
  }

  WaitQueue queue;

 private:
  std::size_t nodes_ = 0;
  std::deque<ThreadWaiter> waiters_;  // elsewhere: to look at one is no visit to its node
};

constexpr std::size_t kFew = 10;
constexpr std::size_t kMany = 1000;

template <class Operation>
void expect_touched(std::size_t expected, Operation&& operation) {
  for (const std::size_t count : {kFew, kMany}) {
    WaitingNodes nodes(count);
    EXPECT_EQ(nodes.touched_by([&] { operation(nodes); }), expected) << count << " wait";
  }
}

// That this one is found to be linear shows that the others would be.
TEST(WaitQueue, CountingLooksAtAll) {
  for (const std::size_t count : {kFew, kMany}) {
    WaitingNodes nodes(count);
    std::size_t size = 0;
    EXPECT_EQ(nodes.touched_by([&] { size = nodes.queue.size(); }), count);
    EXPECT_EQ(size, count);
  }
}

TEST(WaitQueue, RemovingFromTheMiddleTouchesTheNodeAndItsTwoNeighbours) {
  expect_touched(3, [](WaitingNodes& nodes) { nodes.queue.remove(nodes.at(nodes.count() / 2)); });
}

TEST(WaitQueue, RemovingAnEndTouchesOneNeighbour) {
  expect_touched(2, [](WaitingNodes& nodes) { nodes.queue.remove(nodes.at(0)); });
  expect_touched(2, [](WaitingNodes& nodes) { nodes.queue.remove(nodes.at(nodes.count() - 1)); });
}

TEST(WaitQueue, PoppingTouchesTheOldestAndTheNext) {
  expect_touched(2, [](WaitingNodes& nodes) {
    EXPECT_EQ(nodes.queue.pop_claimed(), &nodes.at(0));
    EXPECT_FALSE(nodes.waiter(0).undecided());
  });
}

TEST(WaitQueue, PushingTouchesTheNewestAndTheOneBeforeIt) {
  expect_touched(2, [](WaitingNodes& nodes) {
    WaitNode node;
    nodes.queue.push(node);  // elsewhere: counted is the other one
    nodes.queue.remove(node);
    nodes.queue.remove(nodes.at(nodes.count() - 1));
  });
}

TEST(WaitQueue, RemovingWhatStandsInNoQueueTouchesNoOther) {
  expect_touched(2, [](WaitingNodes& nodes) {
    static_cast<void>(nodes.queue.pop_claimed());
    nodes.queue.remove(nodes.at(0));
  });
}

// Of n that leave, whatever their order, each costs the same: those who remain are not looked at.
TEST(WaitQueue, RemovingAllFromTheMiddleTouchesEachAtMostThreeTimes) {
  for (const std::size_t count : {kFew, kMany}) {
    WaitingNodes nodes(count);
    std::size_t touched = 0;
    for (std::size_t step = 0; step < count; ++step) {
      // From the middle outwards, on both sides in turn.
      const std::size_t index = step % 2 == 0 ? count / 2 + step / 2 : count / 2 - 1 - step / 2;
      const std::size_t now = nodes.touched_by([&] { nodes.queue.remove(nodes.at(index)); });
      EXPECT_LE(now, 3U);
      touched += now;
    }
    EXPECT_LE(touched, 3 * count);
    EXPECT_TRUE(nodes.queue.empty());
  }
}

TEST(WaitQueue, ThoseDecidedElsewhereAreSkippedAndTheOthersKeepTheirOrder) {
  WaitingNodes nodes(kFew);
  for (std::size_t i = 0; i < kFew; i += 2) EXPECT_TRUE(nodes.waiter(i).claim(Waiter::kTimedOut));
  nodes.queue.remove(nodes.at(5));
  for (const std::size_t next : {1U, 3U, 7U, 9U}) {
    EXPECT_EQ(nodes.queue.pop_claimed(), &nodes.at(next));
  }
  EXPECT_EQ(nodes.queue.pop_claimed(), nullptr);
  EXPECT_TRUE(nodes.queue.empty());
}

}  // namespace wait_queue_test
}  // namespace leat
