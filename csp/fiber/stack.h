// Stacks for fibers: mapped lazily, guarded at the low end, recycled.
#pragma once

#include <array>
#include <cstddef>

#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/fiber/context.h"

namespace leat {

/// Hands out stacks and takes them back. Stacks of the pool's default size are kept for the next
/// fiber, and so are the latest of other sizes (tuning::kMostOtherStacks). Thread-safe.
///
/// Below its low end every stack has a guard of 64 KiB: an overflow faults instead of overwriting
/// the next stack. A function with local variables larger than that may step over the guard, unless
/// it is compiled with -fstack-clash-protection. With g++, targets that link leat::csp get that
/// flag. The kernel commits memory page by page as it is touched.
class StackPool {
 public:
  /// Bytes of the guard below a stack. No page is larger.
  static constexpr std::size_t kGuard = std::size_t{64} << 10;

  explicit StackPool(std::size_t default_size);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  [[nodiscard]] std::size_t default_size() const noexcept { return default_size_; }
  /// A stack of at least `size` bytes (0: the default). Throws leat::Error if the system has no
  /// memory or no more mappings.
  StackSpan allocate(std::size_t size);
  void release(StackSpan stack) noexcept;

  /// A worker's own stock of stacks of the default size: take() and put() need no lock and no
  /// system call. Its destructor gives the stacks back to the pool, which must outlive it.
  class Cache {
   public:
    explicit Cache(StackPool& pool) noexcept : pool_(pool) {}
    ~Cache() { keep(0); }
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    /// False if the stock is empty.
    bool take(StackSpan& stack) noexcept;
    /// Gets stacks from the pool, if it has any.
    void refill() noexcept;
    void put(StackSpan stack) noexcept;

   private:
    static constexpr int kMost = tuning::kMostCachedStacks;
    /// Gives all but `few` stacks back to the pool.
    void keep(int few) noexcept;

    StackPool& pool_;
    std::array<RelaxedAtomic<std::byte*>, kMost> low_;
    RelaxedAtomic<int> count_{0};
  };

 private:
  /// Returns the link of a free stack, at its high end, where its page is committed.
  [[nodiscard]] std::byte*& next(std::byte* low) const noexcept;
  /// Takes a stack out of the list of free ones; null if there is none.
  std::byte* pop() noexcept LEAT_REQUIRES(lock_);

  const std::size_t default_size_;
  SpinLock lock_;
  std::byte* free_ LEAT_GUARDED_BY(lock_) = nullptr;  // the low end; linked through the stacks
  /// Free stacks of other sizes; {nullptr, 0}: no stack. A full array drops its stacks in turns,
  /// one for each that comes back.
  std::array<StackSpan, tuning::kMostOtherStacks> others_ LEAT_GUARDED_BY(lock_){};
  std::size_t oldest_ LEAT_GUARDED_BY(lock_) = 0;
};

}  // namespace leat
