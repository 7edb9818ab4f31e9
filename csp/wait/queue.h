// FIFO of operations that wait for one thing: for a channel's values, for a group to end.
//
// Intrusive and untyped: the nodes live on the waiting side's stack, nothing is allocated. Not
// thread-safe: the lock of the object that owns the queue protects it and the links of its nodes.
#pragma once

#include <cstddef>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

class WaitQueue;

/// One operation's place in one queue. What has no initial value is set when it enters the queue: a
/// node is made for every wait.
struct WaitNode {
  // Not `= default`, which would zero it.
  // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject): by design
  WaitNode() noexcept {}

  Waiter* waiter;
  int outcome = 0;      // what popping this node claims the operation with
  bool closed = false;  // set by the claimer: ended by close, nothing was moved
  // A sender's value, or a receiver's storage: the claimer moves from or to it.
  void* slot;
  WaitQueue* queue = nullptr;  // the queue it stands in, or null
  WaitNode* next;
  WaitNode* previous;
  Cycles since;  // about when it entered a channel's queue
};

class WaitQueue {
 public:
  /// Without the lock: whether it was empty at some instant of the call.
  [[nodiscard]] bool empty() const noexcept {
    // acquire: what is read next is not older (ChannelCore::would_block).
    return first_.load(std::memory_order_acquire) == nullptr;
  }

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

  /// Takes `node` out, wherever it stands, in constant time; nothing if it stands in no queue.
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

  /// How many wait and are undecided. O(n).
  [[nodiscard]] std::size_t size() const noexcept {
    std::size_t count = 0;
    for (const WaitNode* node = oldest(); node != nullptr; node = node->next) {
      if (node->waiter->undecided()) ++count;
    }
    return count;
  }

  /// The oldest node, decided or not; null if there is none.
  [[nodiscard]] WaitNode* oldest() const noexcept { return first_.load(std::memory_order_relaxed); }

  /// Takes out and claims the oldest operation that is still undecided; null if there is none. The
  /// caller owes waiter->ready(), after it has moved the value and dropped the lock.
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

/// Waiters claimed under a lock and to be woken after it is dropped. Chained through the nodes,
/// which stay valid until their waiter's ready().
class WakeList {
 public:
  void add(WaitNode& node) noexcept {
    node.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &node;
    last_ = &node;
  }
  /// Wakes all, oldest first. Without any lock held.
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
