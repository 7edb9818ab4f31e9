// A counting semaphore that fibers and threads wait on.
//
// Example
//   leat::Semaphore credit(4 << 20);                 // bytes in flight
//   credit.acquire(piece.size());                    // waits for room
//   send(piece, [&] { credit.release(piece.size()); });
#pragma once

#include <cstdint>

#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

/// Units that are acquired and released. First come, first served: a request waits while an earlier
/// one does, also where it would fit itself, so that a large one is never starved.
///
/// Usable from fibers and plain threads. Must outlive every wait. Allocates nothing.
class Semaphore {
 public:
  /// Throws std::invalid_argument for a negative number of units.
  explicit Semaphore(std::int64_t units);
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  /// Takes `units` (at least 0; otherwise throws std::invalid_argument); waits until there are as
  /// many. Throws Cancelled; then nothing was taken.
  void acquire(std::int64_t units = 1);
  /// Takes them if that is possible at once.
  [[nodiscard]] bool try_acquire(std::int64_t units = 1);
  /// Waits at most until `deadline` (of the scheduler's clock). Throws Cancelled.
  [[nodiscard]] bool acquire_until(std::int64_t units, TimePoint deadline);
  /// Adds `units` (at least 0), which need not have been acquired here; wakes those who can go on.
  /// Throws std::overflow_error, and adds none, if there would be more than 2^63 - 1.
  void release(std::int64_t units = 1);
  /// Out of date as soon as it is read, if others use the semaphore.
  [[nodiscard]] std::int64_t available() const noexcept;

 private:
  [[nodiscard]] bool acquire(std::int64_t units, Deadline deadline);
  void grant(WakeList& wake) noexcept LEAT_REQUIRES(lock_);

  mutable SpinLock lock_;
  std::int64_t available_ LEAT_GUARDED_BY(lock_);
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  Touchers touchers_;
};

}  // namespace leat
