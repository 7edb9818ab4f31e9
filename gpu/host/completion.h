// The moment at which a record on a host stream is reached.
//
// One Completion is one record of an event: recording again takes another one from the device's
// pool, so that whoever waits for the earlier record keeps it. Always true under lock_: done_ is
// sticky until the last user has let go, and no waiter and no signal is listed once it is set.
#pragma once

#include <exception>

#include "leat/csp/clock.h"
#include "leat/csp/wait/identity.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"
#include "leat/gpu/backend/done_signal.h"
#include "leat/gpu/backend/pool.h"

namespace leat::gpu::host {

class Completion {
 public:
  /// To be reached by a fiber of `scheduler`.
  explicit Completion(const SchedulerCore& scheduler) noexcept : scheduler_(scheduler) {}

  /// Reached at `at`; `error` if the work before it failed. Once.
  void complete(TimePoint at, const std::exception_ptr& error) noexcept LEAT_EXCLUDES(lock_);
  /// Suspends the calling fiber, or blocks the calling thread, until it is reached; rethrows the
  /// error. Throws Cancelled.
  void wait() LEAT_EXCLUDES(lock_);
  [[nodiscard]] bool is_done() const LEAT_EXCLUDES(lock_);
  /// Calls signal->reach() once it is reached: perhaps at once.
  void subscribe(const DoneSignalRef& signal) LEAT_EXCLUDES(lock_);
  void unsubscribe(DoneSignal& signal) noexcept LEAT_EXCLUDES(lock_);
  /// Rethrows the error, if it is reached and has one.
  void rethrow_error() const LEAT_EXCLUDES(lock_);
  /// Of the fiber that reaches it: identity only.
  [[nodiscard]] const SchedulerCore& scheduler() const noexcept { return scheduler_; }
  /// When it was reached, if it is, on its scheduler's clock.
  [[nodiscard]] TimePoint at() const LEAT_EXCLUDES(lock_);

  /// For the pool.
  void recycle() noexcept LEAT_EXCLUDES(lock_);

 private:
  const SchedulerCore& scheduler_;  // its identity; it may be gone once this is reached
  mutable SpinLock lock_;
  bool done_ LEAT_GUARDED_BY(lock_) = false;
  TimePoint at_ LEAT_GUARDED_BY(lock_);
  std::exception_ptr error_ LEAT_GUARDED_BY(lock_);
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  DoneSignalList signals_ LEAT_GUARDED_BY(lock_);
};

using CompletionRef = Pool<Completion>::Ref;

}  // namespace leat::gpu::host
