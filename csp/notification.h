// Something that happens once, and that everybody may wait for.
//
// Example
//   leat::Notification loaded;
//   leat::go([&] { load(weights); loaded.notify(); });
//   loaded.wait();
#pragma once

#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

/// Usable from fibers and plain threads. Must outlive every wait. Allocates nothing. What happens
/// before notify() happens before the wait() that it ends.
class Notification {
 public:
  Notification() = default;
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;

  /// It has happened: wakes everybody. Again has no effect.
  void notify() noexcept;
  /// Whether it has happened. Does not wait.
  [[nodiscard]] bool has_been_notified() const noexcept;
  /// Waits until it has happened. Throws Cancelled.
  void wait();
  /// Waits at most until `deadline` (of the scheduler's clock): whether it has happened. Throws
  /// Cancelled.
  [[nodiscard]] bool wait_until(TimePoint deadline);

 private:
  [[nodiscard]] bool wait(Deadline deadline);

  mutable SpinLock lock_;
  bool notified_ LEAT_GUARDED_BY(lock_) = false;
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  Touchers touchers_;
};

}  // namespace leat
