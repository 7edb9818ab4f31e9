// Which schedulers' fibers, and whether plain threads, have used an object that fibers wait on.
//
// A deadlock report must not be wrong: a plain thread, or a fiber of another scheduler, that has
// used an object once may come back and wake the fibers that wait on it.
#pragma once

#include "leat/csp/base/atomic.h"
#include "leat/csp/wait/identity.h"

namespace leat {

/// The callers that have ever used one object: none, the fibers of one scheduler, or also outsiders
/// (a plain thread, or the fibers of a second scheduler).
///
/// add() and clear() are called under the object's lock. The other functions need no lock.
class CallerSet {
 public:
  /// Adds a caller: a fiber of `scheduler`, or a plain thread (null). See calling_scheduler().
  void add(const SchedulerCore* scheduler) noexcept {
    if (__builtin_expect(contains(scheduler), 1)) return;
    if (scheduler != nullptr && first_.load(std::memory_order_relaxed) == nullptr) {
      first_.store(scheduler, std::memory_order_relaxed);
    } else {
      outsiders_.store(true, std::memory_order_relaxed);
    }
  }
  /// Removes all callers. Only while no fiber or thread waits on the object.
  void clear() noexcept {
    first_.store(nullptr, std::memory_order_relaxed);
    outsiders_.store(false, std::memory_order_relaxed);
  }
  /// Returns whether add(scheduler) would change nothing.
  [[nodiscard]] bool contains(const SchedulerCore* scheduler) const noexcept {
    return (scheduler != nullptr && first_.load(std::memory_order_relaxed) == scheduler) ||
           has_outsiders();
  }
  /// Returns whether a plain thread, or fibers of more than one scheduler, have used the object.
  [[nodiscard]] bool has_outsiders() const noexcept {
    return outsiders_.load(std::memory_order_relaxed);
  }

 private:
  Atomic<const SchedulerCore*> first_{nullptr};
  Atomic<bool> outsiders_{false};
};

}  // namespace leat
