// A counting semaphore for fibers and threads.
//
// Example
//   leat::Semaphore credit(4 << 20);                 // bytes in flight
//   credit.acquire(piece.size());                    // waits for room
//   send(piece, [&] { credit.release(piece.size()); });
//
// Thread-safe: any fiber or plain thread may call its functions. The semaphore must outlive every
// call. It allocates nothing.
//
// Errors: Cancelled where a fiber waits; std::invalid_argument for a negative number of units;
// std::overflow_error for more units than an std::int64_t can count.
#pragma once

#include <cstdint>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"

namespace leat {

/// A number of units that callers acquire and release. First come, first served: a request waits
/// while an earlier one waits, even if there are enough units for it. So no large request starves.
class Semaphore {
 public:
  /// A semaphore with `units` available. Throws std::invalid_argument if `units` is negative.
  explicit Semaphore(std::int64_t units);
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  /// Takes `units`; waits until that many are available. Throws Cancelled, and then takes nothing;
  /// std::invalid_argument if `units` is negative.
  void acquire(std::int64_t units = 1);
  /// Takes `units` if that is possible at once. Returns whether the call took the units. Does not
  /// wait. Throws std::invalid_argument if `units` is negative.
  [[nodiscard]] bool try_acquire(std::int64_t units = 1);
  /// As acquire(), but waits at most until `deadline` (of the caller's clock: leat::now()). Returns
  /// whether the call took the units. Throws as acquire().
  [[nodiscard]] bool acquire_until(std::int64_t units, TimePoint deadline);
  /// Adds `units`, and wakes the callers for which there are enough now. The units need not have
  /// been acquired before. Throws std::invalid_argument if `units` is negative, and
  /// std::overflow_error if there would be more than 2^63 - 1; then nothing changes.
  void release(std::int64_t units = 1);
  /// Returns the number of available units, which may already be out of date if other fibers or
  /// threads use the semaphore.
  [[nodiscard]] std::int64_t available() const noexcept;

 private:
  [[nodiscard]] bool acquire(std::int64_t units, Deadline deadline);
  void grant(WakeList& wake) noexcept LEAT_REQUIRES(lock_);

  mutable SpinLock lock_;
  std::int64_t available_ LEAT_GUARDED_BY(lock_);
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  CallerSet callers_;
};

}  // namespace leat
