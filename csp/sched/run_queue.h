// The queues of fibers that can run: a worker's ring, its single-fiber slots, and plain lists.
//
// Always true: a fiber stands in at most one of them, and only while no worker runs it. A list may
// also hold fibers whose waits were claimed under a lock, until they are made ready without it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/fiber/fiber.h"

namespace leat {

/// FIFO of fibers, linked through the fibers themselves. Not thread-safe.
class FiberList {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_.get() == nullptr; }
  void push(Fiber& fiber) noexcept {
    fiber.next_.set(nullptr);
    if (empty()) {
      first_.set(&fiber);
    } else {
      last_.get()->next_.set(&fiber);
    }
    last_.set(&fiber);
  }
  [[nodiscard]] Fiber* oldest() const noexcept { return first_.get(); }
  Fiber* pop() noexcept {
    Fiber* const fiber = first_.get();
    if (fiber != nullptr) first_.set(fiber->next_.get());
    return fiber;
  }
  /// Makes the fibers ready, and empties the list. For fibers whose waits the caller has claimed:
  /// until now, no other list can hold them. Called without a lock.
  void make_ready() noexcept {
    while (Fiber* const fiber = pop()) fiber->ready_once_parked();
  }

 private:
  RelaxedAtomic<Fiber*> first_{nullptr};
  RelaxedAtomic<Fiber*> last_{nullptr};
};

/// A bounded FIFO from which its owner takes one fiber, and other workers steal half. Only the
/// owner pushes. Lock-free, as Go's (runtime/proc.go: runqput, runqget, runqsteal).
///
/// Always true: head_ <= tail_ <= head_ + kSize; the slots in [head_, tail_) hold fibers; head_
/// only grows, and a thread that moves it forward by compare-and-swap owns the fibers it moved
/// past.
class RunRing {
 public:
  /// Fibers that find no room go through the scheduler's lock. With 256, waves of 1,000 launches
  /// took 1.2 times as long with one worker, and 1.1 (median) to 2 times (least) with two.
  static constexpr std::uint32_t kSize = 1024;

  [[nodiscard]] std::uint32_t size() const noexcept {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed);
  }
  /// Returns the number of fibers taken out so far, modulo 2^32.
  [[nodiscard]] std::uint32_t taken() const noexcept {
    return head_.load(std::memory_order_relaxed);
  }
  /// Returns the number of fibers pushed so far, modulo 2^32.
  [[nodiscard]] std::uint32_t pushed() const noexcept {
    return tail_.load(std::memory_order_relaxed);
  }

  /// Called by the owner. Returns false if the ring is full.
  bool push(Fiber& fiber) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    // acquire: a thief reads a slot before it moves head_ past it, so the slot may be overwritten.
    if (tail - head_.load(std::memory_order_acquire) == kSize) return false;
    slots_[tail % kSize].store(&fiber, std::memory_order_relaxed);
    // release: publishes the slot, and all that the fiber's waker wrote.
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// Called by the owner. `alone`: no worker steals, because there is only one worker.
  Fiber* pop(bool alone) noexcept {
    std::uint32_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (head == tail_.load(std::memory_order_relaxed)) return nullptr;
      Fiber* const fiber = slots_[head % kSize].load(std::memory_order_relaxed);
      if (alone) {
        head_.store(head + 1, std::memory_order_relaxed);
        return fiber;
      }
      if (head_.compare_exchange_weak(head, head + 1, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        return fiber;
      }
    }
  }

  /// Called by the owner, if no other worker steals. Swaps the fiber that was pushed last with the
  /// fiber that has `before` fibers in front of it.
  void exchange_last(std::uint32_t before) noexcept {
    Atomic<Fiber*>& one = slots_[(head_.load(std::memory_order_relaxed) + before) % kSize];
    Atomic<Fiber*>& last = slots_[(tail_.load(std::memory_order_relaxed) - 1) % kSize];
    Fiber* const pushed_last = last.load(std::memory_order_relaxed);
    last.store(one.load(std::memory_order_relaxed), std::memory_order_relaxed);
    one.store(pushed_last, std::memory_order_relaxed);
  }

  /// Called by any worker. Takes half of the fibers, the oldest first, at most kSize / 2. Returns
  /// their number.
  std::uint32_t steal_half(std::array<Fiber*, kSize / 2>& out) noexcept {
    std::uint32_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      // acquire: pairs with push().
      const std::uint32_t size = tail_.load(std::memory_order_acquire) - head;
      // Larger than kSize: `head` is stale, because the owner is at work.
      if (size == 0 || size > kSize) return 0;
      const std::uint32_t count = size - size / 2;
      for (std::uint32_t i = 0; i < count; ++i) {
        out[i] = slots_[(head + i) % kSize].load(std::memory_order_relaxed);
      }
      // Succeeds only if no fiber was taken meanwhile: then the slots were not overwritten.
      if (head_.compare_exchange_strong(head, head + count, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
        return count;
      }
    }
  }

 private:
  alignas(64) Atomic<std::uint32_t> head_{0};
  alignas(64) Atomic<std::uint32_t> tail_{0};
  std::array<Atomic<Fiber*>, kSize> slots_{};
};

/// A place for one fiber. Its owner puts a fiber in; the owner or another worker takes it out.
class FiberSlot {
 public:
  [[nodiscard]] bool empty() const noexcept {
    return fiber_.load(std::memory_order_relaxed) == nullptr;
  }
  /// Called by the owner. Returns false if the slot is not empty. Only the owner fills the slot, so
  /// no read-modify-write is needed.
  bool put(Fiber& fiber) noexcept {
    if (!empty()) return false;
    // release: publishes all that the fiber's waker wrote.
    fiber_.store(&fiber, std::memory_order_release);
    return true;
  }
  /// Called by any worker. Returns null if the slot is empty. `alone`: no worker steals, because
  /// there is only one worker.
  Fiber* take(bool alone) noexcept {
    if (empty()) return nullptr;
    if (!alone) return fiber_.exchange(nullptr, std::memory_order_acquire);
    Fiber* const fiber = fiber_.load(std::memory_order_relaxed);
    fiber_.store(nullptr, std::memory_order_relaxed);
    return fiber;
  }

 private:
  Atomic<Fiber*> fiber_{nullptr};
};

}  // namespace leat
