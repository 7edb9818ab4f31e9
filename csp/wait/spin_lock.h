// The lock under which the runtime touches its own few words: a channel, a group, a ready queue.
//
// Always true:
//  - held for tens of nanoseconds, never across a blocking system call or user code; across a
//    switch only as publish_before_switch() says;
//  - unlock() is the holder's last access to the object that the lock protects, so whoever takes
//    the lock next may destroy that object.
#pragma once

#include <atomic>
#include <cstdint>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/explore/hooks.h"
#include "leat/csp/wait/sanitizers.h"
#include "leat/csp/wait/thread_annotations.h"

namespace leat {

class LEAT_CAPABILITY("mutex") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept LEAT_ACQUIRE() {
    hooks::before_lock(word_);
    // acquire: sees everything the previous holder wrote before its release in unlock().
    if (__builtin_expect(word_.exchange(1, std::memory_order_acquire) != 0, 0)) lock_contended();
  }

  void unlock() noexcept LEAT_RELEASE() {
    hooks::before_unlock(word_);
    word_.store(0, std::memory_order_release);
  }

  // A fiber that parks holds the lock until its context is saved: its worker drops it then, in the
  // context of whatever runs next. Both are one thread; to ThreadSanitizer they are two. So there
  // the fiber publishes what it wrote, and that the worker drops the lock is hidden from the tool,
  // which would take the one for something that happens before what runs next.

  /// By the fiber, which still holds the lock, before it is switched away from.
  void publish_before_switch() noexcept {
    if constexpr (kTsan) word_.store(1, std::memory_order_release);
  }
  /// By its worker, in place of unlock().
#if defined(LEAT_TSAN)
  __attribute__((noinline, no_sanitize("thread"))) void unlock_after_switch() noexcept
      LEAT_NO_THREAD_SAFETY_ANALYSIS {
    full_fence();
    *reinterpret_cast<volatile std::uint32_t*>(&word_) = 0;
  }
#else
  void unlock_after_switch() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    hooks::before_unlock(word_);
    word_.store(0, std::memory_order_release);
  }
#endif

 private:
  void lock_contended() noexcept;

  std::atomic<std::uint32_t> word_{0};
};

/// Holds a SpinLock for a scope.
class LEAT_SCOPED_CAPABILITY SpinLockGuard {
 public:
  explicit SpinLockGuard(SpinLock& lock) noexcept LEAT_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinLockGuard() LEAT_RELEASE() { lock_.unlock(); }
  SpinLockGuard(const SpinLockGuard&) = delete;
  SpinLockGuard& operator=(const SpinLockGuard&) = delete;

 private:
  SpinLock& lock_;
};

/// Drops a SpinLock that the caller holds, and takes it again at the end of the scope. To clang's
/// analysis the lock is held throughout.
class SpinUnlockGuard {
 public:
  explicit SpinUnlockGuard(SpinLock& lock) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS : lock_(lock) {
    lock_.unlock();
  }
  ~SpinUnlockGuard() LEAT_NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  SpinUnlockGuard(const SpinUnlockGuard&) = delete;
  SpinUnlockGuard& operator=(const SpinUnlockGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace leat
