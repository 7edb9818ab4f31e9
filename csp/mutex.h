// A mutex for fibers and threads, which may be held across a park.
//
// Example
//   leat::Mutex mutex;
//   const std::scoped_lock lock(mutex);     // std::unique_lock too
//   journal.write(channel.recv());          // may park: the mutex stays locked, the worker is free
//
// A std::mutex blocks the worker, and must not be held where a fiber may park.
//
// Thread-safe: any fiber or plain thread may call its functions. The mutex must outlive every call.
// It allocates nothing.
//
// Errors: Cancelled where a fiber waits; std::logic_error for unlocking a mutex that is not locked.
#pragma once

#include <cstdint>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"

namespace leat {

/// Mutual exclusion. First come, first served: unlock() hands the mutex to the caller that has
/// waited longest. Not recursive. Has no owner: any fiber or thread may unlock it. Meets the
/// standard's requirements Lockable.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  /// Waits until the mutex is free, and locks it. Throws Cancelled without locking it.
  void lock();
  /// Locks the mutex if it is free. Returns whether the call locked it. Does not wait.
  [[nodiscard]] bool try_lock();
  /// As lock(), but waits at most until `deadline` (of the caller's clock: leat::now()). Returns
  /// whether the call locked the mutex. Throws Cancelled.
  [[nodiscard]] bool try_lock_until(TimePoint deadline);
  /// Unlocks the mutex, or hands it to the next caller that waits. Throws std::logic_error if it is
  /// not locked.
  void unlock();

 private:
  [[nodiscard]] bool lock(Deadline deadline);

  SpinLock lock_;
  bool locked_ LEAT_GUARDED_BY(lock_) = false;
  Atomic<std::uint64_t> holder_{0};  // the fiber's id; 0: none, or a thread. Written under lock_
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  CallerSet callers_;
};

}  // namespace leat
