// A counter: fibers and threads wait until it is 0. Go's sync.WaitGroup.
//
// Example
//   leat::WaitGroup done;
//   for (const auto& shard : shards) {
//     done.add();
//     pool.submit([&] { convert(shard); done.done(); });   // on threads that are not Leat's
//   }
//   done.wait();
//
// To wait for fibers, use a TaskGroup: it also joins and cancels them, and rethrows their errors.
//
// Thread-safe: any fiber or plain thread may call its functions. What happens before done() happens
// before the return of the wait() that it ends. The wait group must outlive every call. It
// allocates nothing.
//
// Errors: Cancelled where a fiber waits; std::logic_error for a negative counter;
// std::overflow_error for a counter that an std::int64_t cannot hold.
#pragma once

#include <cstdint>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"

namespace leat {

/// A counter, at first 0. May be used again after it has returned to 0.
class WaitGroup {
 public:
  WaitGroup() = default;
  WaitGroup(const WaitGroup&) = delete;
  WaitGroup& operator=(const WaitGroup&) = delete;

  /// Adds `count`, which may be negative, to the counter. If it becomes 0, wakes every fiber and
  /// thread that waits. Throws std::logic_error if it would become negative, and
  /// std::overflow_error if it would exceed 2^63 - 1; then nothing changes.
  void add(std::int64_t count = 1);
  /// add(-1).
  void done() { add(-1); }
  /// Waits until the counter is 0. Throws Cancelled.
  void wait();
  /// As wait(), but at most until `deadline` (of the caller's clock: leat::now()). Returns whether
  /// the counter was 0. Throws Cancelled.
  [[nodiscard]] bool wait_until(TimePoint deadline);

 private:
  [[nodiscard]] bool wait(Deadline deadline);

  SpinLock lock_;
  std::int64_t count_ LEAT_GUARDED_BY(lock_) = 0;
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  CallerSet callers_;
};

}  // namespace leat
