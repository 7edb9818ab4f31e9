// A pause in which one thread may look at all fibers.
#pragma once

#include <memory>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/atomic.h"
#include "leat/csp/base/spin_lock.h"

namespace leat {

/// While one lives, no fiber of any scheduler leaves a wait or ends, and no channel is freed: the
/// objects that a waiting fiber points to may be read. At most one lives at a time; a second one
/// waits for the first to end. The thread that holds one must not park.
class LEAT_SCOPED_CAPABILITY Safepoint {
 public:
  Safepoint() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    lock_.lock();
    taken_.store(true, std::memory_order_relaxed);
    heavy_fence();  // every fiber has either passed its poll() by now, or will see taken_
  }
  ~Safepoint() LEAT_NO_THREAD_SAFETY_ANALYSIS {
    taken_.store(false, std::memory_order_release);
    lock_.unlock();
  }
  Safepoint(const Safepoint&) = delete;
  Safepoint& operator=(const Safepoint&) = delete;

  /// Called after a fiber has published that its wait or its life has ended, and before the memory
  /// is freed that the holder of a Safepoint may read. Waits while a Safepoint lives; costs a load
  /// if none does.
  static void poll() noexcept {
    light_fence();
    // acquire: the reads of a Safepoint that has ended happened before the writes that follow here.
    if (__builtin_expect(taken_.load(std::memory_order_acquire), 0)) wait();
  }

  /// For the explorer, which abandons a run half way through: ends a Safepoint of that run.
  static void forget() noexcept {
    std::destroy_at(&lock_);
    std::construct_at(&lock_);
    taken_.store(false);
  }

 private:
  __attribute__((noinline)) static void wait() noexcept {
    const SpinLockGuard until_it_ends(lock_);
  }

  // clang-tidy has no rule for members that are both private and static.
  static inline SpinLock lock_;              // NOLINT(readability-identifier-naming)
  static inline Atomic<bool> taken_{false};  // NOLINT(readability-identifier-naming)
};

}  // namespace leat
