// The lock that guards the runtime's own small objects: a channel, a group, a ready queue.
//
// Always true:
//  - The lock is held for a short time. Its holder allocates nothing, makes no system call, and
//    runs no user code. csp/README.md, "Locks", names the exceptions. It is held across a switch
//    only as publish_before_switch() says.
//  - unlock() is the holder's last access to the object that the lock guards. So the next thread
//    that takes the lock may destroy the object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/hooks.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/csp/base/thread_annotations.h"

namespace leat {

/// A lock that spins, and yields the CPU when it has spun for long (tuning::kPausesBeforeYield).
/// Not recursive, not fair. For fibers and plain threads.
class LEAT_CAPABILITY("mutex") SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  /// Takes the lock. Spins while another thread holds it.
  void lock() noexcept LEAT_ACQUIRE() {
    hooks::before_lock(word_);
    // acquire: sees everything the previous holder wrote before its release in unlock().
    if (__builtin_expect(word_.exchange(1, std::memory_order_acquire) != 0, 0)) lock_contended();
  }

  /// Releases the lock. The calling thread holds it.
  void unlock() noexcept LEAT_RELEASE() {
    hooks::before_unlock(word_);
    word_.store(0, std::memory_order_release);
    hooks::released();
  }

  // A fiber that parks holds the lock until its context is saved. Then its worker releases the
  // lock, in the context of the fiber that runs next. Both are one thread; to ThreadSanitizer they
  // are two. So in its builds the fiber publishes its own writes, and the worker's release is
  // hidden from the tool. Otherwise the tool would take it for a release by the fiber that runs
  // next.

  /// The fiber calls it before the switch, with the lock held.
  void publish_before_switch() noexcept {
    if constexpr (kTsan) word_.store(1, std::memory_order_release);
  }
  /// The fiber's worker calls it after the switch, in place of unlock().
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
    hooks::released();
  }
#endif

 private:
  void lock_contended() noexcept;

  std::atomic<std::uint32_t> word_{0};
};

/// A base of objects whose locks are taken in the order of their addresses. Such an object shares
/// its cache lines with no other one; to the explorer, to which a schedule must mean the same in
/// every run, a later object has a higher address.
#if defined(LEAT_EXPLORE)
class LockedInOrder {
 public:
  static void* operator new(std::size_t size) { return hooks::allocate(size); }
  static void operator delete(void* object, std::size_t size) noexcept {
    hooks::deallocate(object, size);
  }
};
#else
class alignas(64) LockedInOrder {};
#endif

/// Holds a SpinLock for a scope.
class LEAT_SCOPED_CAPABILITY SpinLockGuard {
 public:
  [[nodiscard]] explicit SpinLockGuard(SpinLock& lock) noexcept LEAT_ACQUIRE(lock) : lock_(lock) {
    lock_.lock();
  }
  ~SpinLockGuard() LEAT_RELEASE() { lock_.unlock(); }
  SpinLockGuard(const SpinLockGuard&) = delete;
  SpinLockGuard& operator=(const SpinLockGuard&) = delete;

 private:
  SpinLock& lock_;
};

/// Releases a SpinLock that the caller holds, and takes it again at the end of the scope. To
/// clang's analysis the lock is held throughout.
class SpinUnlockGuard {
 public:
  [[nodiscard]] explicit SpinUnlockGuard(SpinLock& lock) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS
      : lock_(lock) {
    lock_.unlock();
  }
  ~SpinUnlockGuard() LEAT_NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  SpinUnlockGuard(const SpinUnlockGuard&) = delete;
  SpinUnlockGuard& operator=(const SpinUnlockGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace leat
