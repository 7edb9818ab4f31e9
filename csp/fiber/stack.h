// Stacks for fibers: mapped lazily, guarded at the low end, recycled.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/fiber/context.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

/// Hands out stacks and takes them back. Stacks of the pool's default size are kept for the next
/// fiber; others are unmapped when they come back. Thread-safe.
///
/// Below its low end every stack has a guard of 64 KiB, so that an overflow faults instead of
/// overwriting a neighbour. A function with local variables larger than that may step over it,
/// unless it is compiled with -fstack-clash-protection: with g++, the target leat::csp hands that
/// flag on to who links it. Memory is committed by the kernel page by page as it is touched.
class StackPool {
 public:
  /// Bytes below a stack that fault.
  static constexpr std::size_t kGuard = std::size_t{64} << 10;  // pages are at most as large

  explicit StackPool(std::size_t default_size);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  [[nodiscard]] std::size_t default_size() const noexcept { return default_size_; }
  /// A stack of at least `size` bytes (0: the default). Throws leat::Error if the system has no
  /// memory or no more mappings.
  StackSpan allocate(std::size_t size);
  void release(StackSpan stack) noexcept;

  /// A worker's own stock of stacks of the default size: no lock, no system call. Gives them back
  /// to the pool, which must outlive it, at its end.
  class Cache {
   public:
    explicit Cache(StackPool& pool) noexcept : pool_(pool) {}
    ~Cache() { keep(0); }
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    /// False if it has none.
    bool take(StackSpan& stack) noexcept;
    /// Gets some, if there are, from the pool.
    void refill() noexcept;
    void put(StackSpan stack) noexcept;

   private:
    static constexpr int kMost = tuning::kMostCachedStacks;
    /// Gives back all but `few`.
    void keep(int few) noexcept;

    StackPool& pool_;
    std::array<RelaxedAtomic<std::byte*>, kMost> low_;
    RelaxedAtomic<int> count_{0};
  };

 private:
  const std::size_t default_size_;
  SpinLock lock_;
  std::vector<StackSpan> free_ LEAT_GUARDED_BY(lock_);
};

}  // namespace leat
