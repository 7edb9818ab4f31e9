// Fibers that end together.
//
// Example
//   leat::TaskGroup readers;
//   for (const auto& file : files) readers.go([&] { read(file); });
//   readers.wait();                       // all have ended; the first error, if any, is rethrown
//
// No fiber of a group outlives the group, hence what it captured by reference from the scope around
// it. Modelled on Go's errgroup, with cancellation built in.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <utility>

#include "leat/csp/scheduler.h"
#include "leat/csp/wait/unique_function.h"

namespace leat {

class GroupCore;
class SchedulerCore;

/// A group of fibers of one scheduler. The first exception that leaves one of them cancels the
/// others, and wait() rethrows it.
///
/// Owned by one fiber or thread, which alone may wait; go() and stop() may be called by the group's
/// fibers too. The destructor cancels and joins (it is not a cancellation point); an error that
/// nobody has waited for is dropped with it.
class TaskGroup {
 public:
  /// A group of the calling fiber's scheduler. Throws std::logic_error on a plain thread.
  TaskGroup();
  /// A group of that scheduler; may be made and waited for on a plain thread. The group may outlive
  /// the scheduler, which cancels and joins the group's fibers when it ends.
  explicit TaskGroup(Scheduler& scheduler);
  /// Likewise, for who has the core alone (Scheduler::core()). Not null.
  explicit TaskGroup(std::shared_ptr<SchedulerCore> scheduler);
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// Launches a fiber into the group; waits first while the group is at its limit. Throws Cancelled
  /// while waiting, leat::Error where there is no memory for a stack, std::logic_error if the
  /// scheduler has ended. In a group that was stopped the fiber starts cancelled.
  template <class F>
  void go(F&& body, GoOptions options = {}) {
    launch(UniqueFunction<void()>(std::forward<F>(body)), std::move(options));
  }

  /// Waits until every fiber has ended, then rethrows the first error. If the waiting fiber is
  /// itself cancelled, cancels and joins the group, then throws Cancelled. Throws std::logic_error
  /// on a fiber of the group itself.
  void wait();
  /// Cancels every fiber of the group, present and future. Returns at once.
  void stop() noexcept;
  /// At most `fibers` at a time (at least 1; the default is no limit).
  void set_limit(std::size_t fibers);
  /// Signalled when the group is stopped: for code that computes for long and never waits.
  [[nodiscard]] std::stop_token stop_token() const;

 private:
  void launch(UniqueFunction<void()>&& body, GoOptions&& options);

  std::shared_ptr<SchedulerCore> scheduler_;
  std::shared_ptr<GroupCore> core_;
};

}  // namespace leat
