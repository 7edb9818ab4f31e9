// Allocates fibers and takes them back. Their memory is never used for anything else, so that a
// report or a cancellation can look through all of them.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/fiber/fiber.h"

namespace leat {

class FiberPool {
 public:
  explicit FiberPool(SchedulerCore& core) noexcept : core_(core) {}
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;
  ~FiberPool();

  /// A worker's own stock of fibers. take() and put() lock the pool at most once in kBatch times.
  class Cache {
   public:
    /// Throws std::bad_alloc.
    Fiber& take(FiberPool& pool);
    void put(FiberPool& pool, Fiber& fiber) noexcept;

   private:
    RelaxedAtomic<Fiber*> first_{nullptr};
    RelaxedAtomic<int> count_{0};
  };

  /// Takes a fiber, for threads that have no cache. Throws std::bad_alloc.
  Fiber& take() LEAT_EXCLUDES(lock_);
  void put(Fiber& fiber) noexcept LEAT_EXCLUDES(lock_);

  /// Calls visit(fiber) for every live fiber, the oldest first. While a Safepoint lives, or while
  /// no fiber runs: then they stay alive. Takes no lock.
  template <class F>
  void for_each_live(F&& visit) {
    // acquire: what the makers of slabs and batches wrote.
    for (const Slab* slab = oldest_.load(std::memory_order_acquire); slab != nullptr;
         slab = slab->newer.load(std::memory_order_acquire)) {
      for (std::size_t i = 0; i < slab->batches; ++i) {
        Fiber* const batch = slab->made[i].load(std::memory_order_acquire);
        if (batch == nullptr) continue;
        for (Fiber& fiber : std::span(batch, kBatch)) {
          // acquire: what its launcher wrote.
          if (fiber.live_.load(std::memory_order_acquire)) visit(fiber);
        }
      }
    }
  }

 private:
  static constexpr int kBatch = tuning::kFiberBatch;

  /// Memory for batches of kBatch fibers. A thread reserves a batch and then makes its fibers, so
  /// that the launcher finds them in its CPU's cache.
  struct Slab {
    /// Throws std::bad_alloc.
    explicit Slab(std::size_t batches);
    Slab(const Slab&) = delete;
    Slab& operator=(const Slab&) = delete;
    ~Slab();

    [[nodiscard]] std::align_val_t alignment() const noexcept;

    const std::size_t batches;
    std::byte* const memory;
    Atomic<std::size_t> reserved{0};         // batches; may exceed `batches`
    std::unique_ptr<Atomic<Fiber*>[]> made;  // for each batch, its first fiber; null: not made
    Atomic<Slab*> newer{nullptr};
  };

  /// Takes a chain of free fibers, at least one and at most kBatch. Throws std::bad_alloc.
  Fiber* take_chain(int& count) LEAT_EXCLUDES(lock_);
  void put_chain(Fiber& first, Fiber& last) noexcept LEAT_EXCLUDES(lock_);
  /// Makes a chain of kBatch fibers. No lock is held: it may allocate.
  Fiber* make_chain() LEAT_EXCLUDES(lock_);
  /// Appends a slab, unless another one follows `newest` by now.
  void append_slab(const Slab* newest) LEAT_EXCLUDES(lock_);

  SchedulerCore& core_;
  Atomic<Slab*> oldest_{nullptr};  // slabs are appended under lock_, and stay
  Atomic<Slab*> newest_{nullptr};
  SpinLock lock_;
  Fiber* free_ LEAT_GUARDED_BY(lock_) = nullptr;
};

}  // namespace leat
