// One record of an event on a host stream.
//
// Recording an event again takes another EventRecord from the device's pool, so a fiber that waits
// for the earlier record keeps that one. Always true under lock_: done_ stays set until the last
// reference is released, and once it is set there are no waiters and no signals.
#pragma once

#include <exception>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/identity.h"
#include "leat/csp/wait/queue.h"
#include "leat/gpu/backend/done_signal.h"
#include "leat/gpu/backend/pool.h"

namespace leat::gpu::host {

/// A record, and the fibers, threads and signals that wait for it. Thread-safe.
class EventRecord {
 public:
  /// A record that a fiber of `scheduler` will complete.
  explicit EventRecord(const SchedulerCore& scheduler) noexcept : scheduler_(scheduler) {}

  /// Marks the record done at time `at`, with `error` if the work before it failed, and wakes all
  /// waiters. Called once.
  void complete(TimePoint at, const std::exception_ptr& error) noexcept LEAT_EXCLUDES(lock_);
  /// Suspends the calling fiber, or blocks the calling thread, until the record is done; rethrows
  /// the error. Throws Cancelled.
  void wait() LEAT_EXCLUDES(lock_);
  /// Returns whether the record is done.
  [[nodiscard]] bool is_done() const LEAT_EXCLUDES(lock_);
  /// Calls signal->notify() once the record is done; within this call if it is done already.
  void subscribe(const DoneSignalRef& signal) LEAT_EXCLUDES(lock_);
  /// Ends the subscription. Does not wait for a notify() that is under way.
  void unsubscribe(DoneSignal& signal) noexcept LEAT_EXCLUDES(lock_);
  /// Rethrows the error if the record is done and has one.
  void rethrow_error() const LEAT_EXCLUDES(lock_);
  /// Returns the scheduler whose fiber completes the record; only for comparison.
  [[nodiscard]] const SchedulerCore& scheduler() const noexcept { return scheduler_; }
  /// Returns the time at which the record was done, on its scheduler's clock.
  [[nodiscard]] TimePoint at() const LEAT_EXCLUDES(lock_);

  /// Called by the pool.
  void recycle() noexcept LEAT_EXCLUDES(lock_);

 private:
  const SchedulerCore& scheduler_;  // only its address: it may be gone once the record is done
  mutable SpinLock lock_;
  bool done_ LEAT_GUARDED_BY(lock_) = false;
  TimePoint at_ LEAT_GUARDED_BY(lock_);
  std::exception_ptr error_ LEAT_GUARDED_BY(lock_);
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  DoneSignalList signals_ LEAT_GUARDED_BY(lock_);
};

using EventRecordRef = Pool<EventRecord>::Ref;

}  // namespace leat::gpu::host
