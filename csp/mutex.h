// Mutual exclusion among fibers and threads, held across parks.
//
// Example
//   leat::Mutex mutex;
//   const std::scoped_lock lock(mutex);     // std::unique_lock too
//   journal.write(channel.recv());          // may park: others wait for the mutex, not a worker
//
// A std::mutex blocks the worker, and must not be held where a fiber may park.
#pragma once

#include <cstdint>

#include "leat/csp/base/atomic.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

/// Not recursive. First come, first served: unlock() hands it to who has waited longest. It belongs
/// to nobody in particular: any fiber or thread may unlock it. Must outlive every wait. Allocates
/// nothing. Meets the standard's Lockable; lock() throws Cancelled.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  /// Waits until it is free, and takes it. Throws Cancelled; then it was not taken.
  void lock();
  /// Takes it if it is free, and returns whether it was. Does not wait.
  [[nodiscard]] bool try_lock();
  /// Waits at most until `deadline` (of the scheduler's clock). Throws Cancelled.
  [[nodiscard]] bool try_lock_until(TimePoint deadline);
  /// Throws std::logic_error if it is not locked.
  void unlock();

 private:
  [[nodiscard]] bool lock(Deadline deadline);

  SpinLock lock_;
  bool locked_ LEAT_GUARDED_BY(lock_) = false;
  Atomic<std::uint64_t> holder_{0};  // the fiber's id; 0: none, or a thread. Written under lock_
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  Touchers touchers_;
};

}  // namespace leat
