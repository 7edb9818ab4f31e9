// Allocates fibers and takes them back. Their memory is never used for anything else, so that a
// report or a cancellation can look through all of them.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

class FiberPool {
 public:
  explicit FiberPool(SchedulerCore& core) noexcept : core_(core) {}
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;
  ~FiberPool() = default;

  /// A worker's own stock of fibers. take() and put() take the pool's lock at most once in kBatch
  /// times.
  class Cache {
   public:
    /// Throws std::bad_alloc.
    Fiber& take(FiberPool& pool);
    void put(FiberPool& pool, Fiber& fiber) noexcept;

   private:
    friend class FiberPool;
    static constexpr int kBatch = tuning::kFiberBatch;
    RelaxedAtomic<Fiber*> first_{nullptr};
    RelaxedAtomic<int> count_{0};
  };

  /// Takes a fiber, for threads that have no cache. Throws std::bad_alloc.
  Fiber& take() LEAT_EXCLUDES(lock_);
  void put(Fiber& fiber) noexcept LEAT_EXCLUDES(lock_);

  /// Calls visit(fiber) for every live fiber. While a Safepoint lives, or while no fiber runs: then
  /// they stay alive.
  template <class F>
  void for_each_live(F&& visit) LEAT_EXCLUDES(lock_) {
    for (std::size_t i = 0;; ++i) {
      const std::span<Fiber> slab = slab_at(i);
      if (slab.empty()) return;
      for (Fiber& fiber : slab) {
        // acquire: what its launcher wrote.
        if (fiber.live_.load(std::memory_order_acquire)) visit(fiber);
      }
    }
  }

 private:
  /// Memory for `size` fibers, of which the first made_ are constructed.
  class Slab {
   public:
    /// Throws std::bad_alloc.
    explicit Slab(std::size_t size);
    Slab(Slab&& other) noexcept;
    Slab& operator=(Slab&&) = delete;
    ~Slab();

    [[nodiscard]] bool is_full() const noexcept { return made_ == size_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::span<Fiber> made() const noexcept { return {memory_, made_}; }
    /// Constructs the next fiber. The slab must not be full.
    Fiber& make(SchedulerCore& core) noexcept;

   private:
    [[nodiscard]] std::align_val_t alignment() const noexcept;

    std::size_t size_;
    std::size_t made_ = 0;
    Fiber* memory_;
  };

  /// Returns the fibers of a slab; empty for an index beyond the last slab.
  [[nodiscard]] std::span<Fiber> slab_at(std::size_t index) LEAT_EXCLUDES(lock_);
  /// Takes a chain of up to `most` free fibers, at least one. Throws std::bad_alloc.
  Fiber* take_chain(int most, int& count) LEAT_EXCLUDES(lock_);
  void put_chain(Fiber& first, Fiber& last) noexcept LEAT_EXCLUDES(lock_);
  Fiber* make_chain(int most, int& count) LEAT_REQUIRES(lock_);

  SchedulerCore& core_;
  SpinLock lock_;
  std::vector<Slab> slabs_ LEAT_GUARDED_BY(lock_);
  Fiber* free_ LEAT_GUARDED_BY(lock_) = nullptr;
};

}  // namespace leat
