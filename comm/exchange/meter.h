// How long communication was under way, how long the trainer waited for it, and both at once.
#pragma once

#include "leat/csp/clock.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat::comm {

/// Adds up times in which pieces are under way (busy), and in which the trainer waits in await()
/// for communication: not while a gradient of its own is still being computed. Thread-safe: the
/// exchange's fiber and the trainer tell it.
class Meter {
 public:
  /// The times so far.
  struct Times {
    Duration busy = Duration::zero();
    Duration awaiting = Duration::zero();
    Duration both = Duration::zero();
  };

  /// `now` is a time of one clock, also in the functions below.
  void set_busy(bool busy, TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    add_until(now);
    busy_ = busy;
  }
  void set_awaiting(bool awaiting, TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    add_until(now);
    awaiting_ = awaiting;
  }
  /// A gradient of this rank was given, and may still be computed (1), or its device has it (-1).
  void add_computed(int change, TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    add_until(now);
    computed_ += change;
  }
  [[nodiscard]] Times times(TimePoint now) noexcept {
    const SpinLockGuard guard(lock_);
    add_until(now);
    return times_;
  }

 private:
  // Two callers may have read the clock in another order than they come here.
  void add_until(TimePoint now) noexcept LEAT_REQUIRES(lock_) {
    const Duration passed = now > since_ ? now - since_ : Duration::zero();
    since_ += passed;
    if (busy_) times_.busy += passed;
    const bool exposed = awaiting_ && computed_ == 0;
    if (exposed) times_.awaiting += passed;
    if (busy_ && exposed) times_.both += passed;
  }

  SpinLock lock_;
  TimePoint since_ LEAT_GUARDED_BY(lock_);
  Times times_ LEAT_GUARDED_BY(lock_);
  bool busy_ LEAT_GUARDED_BY(lock_) = false;
  bool awaiting_ LEAT_GUARDED_BY(lock_) = false;
  int computed_ LEAT_GUARDED_BY(lock_) = 0;  // gradients
};

}  // namespace leat::comm
