// The fibers of one group. They share the first error, the request to stop, and the list of fibers
// that wait for them to end.
//
// Always true:
//  - a fiber belongs to exactly one group from its launch until it is done;
//  - stopped_ is reset in restart() alone, while the root group has no fiber;
//  - joiners are woken when the group becomes empty, after the last closure was destroyed.
//
// A group lists its fibers, so that stopping it takes time in proportion to its size. The root
// group does not: its fibers are launched and end without a lock, and workers count them. stop() on
// the root group looks at all fibers of the scheduler.
//
// Lock order: lock_, then SchedulerCore::lock_.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <stop_token>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/wait/queue.h"

namespace leat {

class Fiber;
class SchedulerCore;

class GroupCore : public std::enable_shared_from_this<GroupCore> {
 public:
  /// Keeps `core` alive, though not its workers: launching on a scheduler that has ended throws.
  explicit GroupCore(std::shared_ptr<SchedulerCore> core);
  /// The root group, which the core itself owns. It does not keep the core alive.
  explicit GroupCore(SchedulerCore& core);

  [[nodiscard]] SchedulerCore& core() const noexcept { return core_; }

  /// Waits while the group has `limit` fibers, then adds `fiber`, which is about to run for the
  /// first time. Throws Cancelled.
  void add(Fiber& fiber) LEAT_EXCLUDES(lock_);
  /// Removes a fiber that is done, or whose launch failed. Wakes joiners and launchers.
  void remove(Fiber& fiber) noexcept LEAT_EXCLUDES(lock_);
  /// For the root group, when its last fiber has ended: wakes joiners.
  void wake_joiners() noexcept LEAT_EXCLUDES(lock_);
  /// For the root group: whether anything has ever waited for it to become empty.
  [[nodiscard]] bool was_joined() const noexcept {
    return was_joined_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
  /// Remembers the first error, and stops the group.
  void fail(std::exception_ptr error) noexcept LEAT_EXCLUDES(lock_);
  /// Cancels every fiber, present and future.
  void stop() noexcept LEAT_EXCLUDES(lock_);
  /// Waits until no fiber is left. Throws Cancelled if the caller is asked to stop (never while it
  /// is shielded), or std::logic_error if the caller is one of the group's fibers.
  void join(ParkReason reason = ParkReason::kJoin) LEAT_EXCLUDES(lock_);
  void set_limit(std::size_t limit) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::exception_ptr first_error() const LEAT_EXCLUDES(lock_);
  /// Returns the first error and forgets it: the caller alone owns the exception.
  [[nodiscard]] std::exception_ptr take_first_error() noexcept LEAT_EXCLUDES(lock_);
  /// For the root group, once it was joined: as take_first_error(), and if the group is still empty
  /// it is no longer stopped. Its stop token stays signalled, but nobody has it.
  [[nodiscard]] std::exception_ptr restart() noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::stop_token stop_token() const { return stop_source_.get_token(); }

  // Links in the scheduler's list of groups; SchedulerCore::groups_lock_.
  GroupCore* next = nullptr;
  GroupCore* previous = nullptr;
  // Links in the chain of groups that SchedulerCore::stop_everything() stops, and whether the group
  // was ever in one; likewise.
  std::shared_ptr<GroupCore> next_to_stop;
  bool chained_to_stop = false;

 private:
  void wait_in(WaitQueue& queue, ParkReason reason) LEAT_REQUIRES(lock_);
  void leave(WakeList& wake) noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool is_empty() const noexcept LEAT_REQUIRES(lock_);

  std::shared_ptr<SchedulerCore> hold_;
  SchedulerCore& core_;
  const bool is_root_;
  std::stop_source stop_source_;
  mutable SpinLock lock_;
  Fiber* fibers_ LEAT_GUARDED_BY(lock_) = nullptr;
  std::size_t count_ LEAT_GUARDED_BY(lock_) = 0;  // not used by the root group
  std::size_t limit_ LEAT_GUARDED_BY(lock_) = static_cast<std::size_t>(-1);
  Atomic<bool> stopped_{false};  // set under lock_
  Atomic<bool> was_joined_{false};
  std::exception_ptr first_error_ LEAT_GUARDED_BY(lock_);
  WaitQueue joiners_ LEAT_GUARDED_BY(lock_);
  WaitQueue launchers_ LEAT_GUARDED_BY(lock_);  // wait for room under the limit
};

}  // namespace leat
