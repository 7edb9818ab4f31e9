// A signal that is given once. Any number of fibers and threads may wait for it.
//
// Example
//   leat::Notification loaded;
//   leat::go([&] { load(weights); loaded.notify(); });
//   loaded.wait();
//
// Thread-safe: any fiber or plain thread may call its functions. What happens before notify()
// happens before the return of the wait() that it ends. The notification must outlive every call.
// It allocates nothing.
//
// Errors: Cancelled where a fiber waits.
#pragma once

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"

namespace leat {

/// A signal, at first not given. Once given, it stays given.
class Notification {
 public:
  Notification() = default;
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;

  /// Gives the signal: wakes every fiber and thread that waits. A second call has no effect.
  void notify() noexcept;
  /// Returns whether the signal was given. Does not wait.
  [[nodiscard]] bool has_been_notified() const noexcept;
  /// Waits for the signal; returns at once if it was given before. Throws Cancelled.
  void wait();
  /// As wait(), but at most until `deadline` (of the caller's clock: leat::now()). Returns whether
  /// the signal was given. Throws Cancelled.
  [[nodiscard]] bool wait_until(TimePoint deadline);

 private:
  [[nodiscard]] bool wait(Deadline deadline);

  mutable SpinLock lock_;
  bool notified_ LEAT_GUARDED_BY(lock_) = false;
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  CallerSet callers_;
};

}  // namespace leat
