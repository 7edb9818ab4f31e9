// A FIFO queue of operations that wait for one event: a value in a channel, the end of a group.
//
// Intrusive and untyped: the nodes live on the waiters' stacks, and nothing is allocated. Not
// thread-safe: the lock of the object that owns the queue guards the queue and its nodes' links.
#pragma once

#include <cstddef>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

class WaitQueue;

/// One operation's place in one queue. Every wait makes one, so it writes little: members without
/// an initial value are set when the node enters a queue, or just before.
struct WaitNode {
  // Not `= default`, which would zero it.
  // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject): by design
  WaitNode() noexcept {}

  Waiter* waiter;
  int outcome = 0;      // the operation's outcome if this node is popped
  bool closed = false;  // set by the claimer: the channel was closed, and no value was moved
  // A sender's value, or a receiver's storage: the claimer moves from or to it.
  void* slot;
  WaitQueue* queue = nullptr;  // the queue that it is in, or null
  WaitNode* next;
  WaitNode* previous;
  Cycles since;  // about when it entered a channel's queue
};

/// The queue. All calls are made with its owner's lock held, except empty().
class WaitQueue {
 public:
  /// True if the queue is empty. Without the lock: if it was empty at some instant of the call.
  [[nodiscard]] bool empty() const noexcept {
    // acquire: later reads see no older state (ChannelCore::would_block).
    return first_.load(std::memory_order_acquire) == nullptr;
  }

  /// Appends `node`, which is in no queue.
  void push(WaitNode& node) noexcept {
    node.queue = this;
    node.next = nullptr;
    node.previous = last_;
    if (last_ != nullptr) {
      last_->next = &node;
    } else {
      set_first(&node);
    }
    last_ = &node;
  }

  /// Removes `node`, wherever it is in the queue, in O(1). Does nothing if it is in no queue.
  void remove(WaitNode& node) noexcept {
    if (node.queue == nullptr) return;
    if (node.previous != nullptr) {
      node.previous->next = node.next;
    } else {
      set_first(node.next);
    }
    (node.next != nullptr ? node.next->previous : last_) = node.previous;
    node.queue = nullptr;
  }

  /// Returns the number of operations that are undecided. O(n).
  [[nodiscard]] std::size_t size() const noexcept {
    std::size_t count = 0;
    for (const WaitNode* node = oldest(); node != nullptr; node = node->next) {
      if (node->waiter->undecided()) ++count;
    }
    return count;
  }

  /// Returns the oldest node, decided or not; null if there is none.
  [[nodiscard]] WaitNode* oldest() const noexcept { return first_.load(std::memory_order_relaxed); }

  /// Removes and claims the oldest operation that is still undecided; null if there is none. The
  /// caller must call waiter->ready(), after it has moved the value and released the lock.
  WaitNode* pop_claimed() noexcept {
    while (WaitNode* node = oldest()) {
      remove(*node);
      if (node->waiter->claim(node->outcome)) return node;
    }
    return nullptr;
  }

 private:
  // release: pairs with empty().
  void set_first(WaitNode* node) noexcept { first_.store(node, std::memory_order_release); }

  Atomic<WaitNode*> first_{nullptr};
  WaitNode* last_ = nullptr;
};

/// Waiters that were claimed under a lock, to be woken after the lock is released: made before the
/// lock's guard, the list is destroyed after it, and wakes those that are left. A list through the
/// nodes, which stay valid until their waiter's ready(). Allocates nothing.
class WakeList {
 public:
  WakeList() = default;
  WakeList(const WakeList&) = delete;
  WakeList& operator=(const WakeList&) = delete;
  ~WakeList() { wake(); }

  /// Appends `node`, which pop_claimed() returned or whose operation the caller has claimed.
  void add(WaitNode& node) noexcept {
    node.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &node;
    last_ = &node;
  }
  /// Claims and appends all undecided operations of `queue`.
  void add_all(WaitQueue& queue) noexcept {
    while (WaitNode* const node = queue.pop_claimed()) add(*node);
  }
  /// Wakes all waiters in the order of add(), and empties the list. No lock is held.
  void wake() noexcept {
    for (WaitNode* node = first_; node != nullptr;) {
      WaitNode* const next = node->next;  // the node is gone once its waiter is ready
      node->waiter->ready();
      node = next;
    }
    first_ = last_ = nullptr;
  }

 private:
  WaitNode* first_ = nullptr;
  WaitNode* last_ = nullptr;
};

}  // namespace leat
