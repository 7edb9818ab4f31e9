// Waits for a number of things to be done. Go's sync.WaitGroup.
//
// Example
//   leat::WaitGroup done;
//   for (const auto& shard : shards) {
//     done.add();
//     pool.submit([&] { convert(shard); done.done(); });   // threads that are not Leat's
//   }
//   done.wait();
//
// For fibers a TaskGroup is better: it also joins, cancels and passes on errors.
#pragma once

#include <cstdint>

#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

/// A counter that can be waited for to be 0. Usable from fibers and plain threads, again and again.
/// Must outlive every wait. Allocates nothing. What happens before done() happens before the wait()
/// that it ends.
class WaitGroup {
 public:
  WaitGroup() = default;
  WaitGroup(const WaitGroup&) = delete;
  WaitGroup& operator=(const WaitGroup&) = delete;

  /// Adds to the counter; at 0 wakes everybody. Throws std::logic_error, and changes nothing, where
  /// it would become negative.
  void add(std::int64_t count = 1);
  /// add(-1).
  void done() { add(-1); }
  /// Waits until the counter is 0. Throws Cancelled.
  void wait();
  /// Waits at most until `deadline` (of the scheduler's clock): whether it is 0. Throws Cancelled.
  [[nodiscard]] bool wait_until(TimePoint deadline);

 private:
  [[nodiscard]] bool wait(Deadline deadline);

  SpinLock lock_;
  std::int64_t count_ LEAT_GUARDED_BY(lock_) = 0;
  WaitQueue waiters_ LEAT_GUARDED_BY(lock_);
  Touchers touchers_;
};

}  // namespace leat
