// Looking at what fibers are doing while they are doing it.
#pragma once

#include <memory>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/atomic.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

/// While one lives, no fiber of any scheduler leaves a wait, none ends, and no channel is freed:
/// what a waiting fiber points to may be read. One at a time; whoever takes it must not park.
class LEAT_SCOPED_CAPABILITY Safepoint {
 public:
  Safepoint() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    lock_.lock();
    taken_.store(true, std::memory_order_relaxed);
    heavy_fence();  // everybody has by now left what he was leaving, or will see taken_
  }
  ~Safepoint() LEAT_NO_THREAD_SAFETY_ANALYSIS {
    taken_.store(false, std::memory_order_release);
    lock_.unlock();
  }
  Safepoint(const Safepoint&) = delete;
  Safepoint& operator=(const Safepoint&) = delete;

  /// Called by whoever has made it known that he waits no more, or is no more, and before what a
  /// census may read of him goes. Free, unless one is taken: then it waits for its end.
  static void poll() noexcept {
    light_fence();
    // acquire: what a census has read happened before what is written next.
    if (__builtin_expect(taken_.load(std::memory_order_acquire), 0)) wait();
  }

#if defined(LEAT_EXPLORE)
  /// An exploration left a run half way through: nobody will end the one that was taken in it.
  static void forget() noexcept {
    std::destroy_at(&lock_);
    std::construct_at(&lock_);
    taken_.store(false);
  }
#endif

 private:
  __attribute__((noinline)) static void wait() noexcept {
    const SpinLockGuard until_it_ends(lock_);
  }

  // clang-tidy has no rule for members that are both private and static.
  static inline SpinLock lock_;              // NOLINT(readability-identifier-naming)
  static inline Atomic<bool> taken_{false};  // NOLINT(readability-identifier-naming)
};

}  // namespace leat
