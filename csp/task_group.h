// Fibers that end together.
//
// Example
//   leat::TaskGroup readers;
//   for (const auto& file : files) readers.go([&] { read(file); });
//   readers.wait();                       // all have ended; rethrows the first error, if any
//
// Modelled on Go's errgroup, with cancellation built in. No fiber of a group outlives the group. So
// a fiber may capture by reference what the scope around the group owns.
//
// Thread and fiber safety: one fiber or thread owns the group, and only the owner may wait. The
// group's own fibers may call go() and stop(). fibers() is thread-safe.
//
// Lifetime: the destructor cancels the fibers and waits for their end. The destructor is not a
// cancellation point.
//
// Errors: the first exception that leaves a fiber cancels the other fibers, and wait() rethrows it.
// If wait() is not called, the destructor drops that exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/base/unique_function.h"
#include "leat/csp/scheduler.h"

namespace leat {

class GroupCore;
class SchedulerCore;

/// What one fiber does at some instant.
struct FiberReport {
  std::uint64_t id = 0;  ///< as in Scheduler::dump()
  std::string name;      ///< GoOptions::name
  std::string state;     ///< "runs, or can run", or what it waits for and since when
};

/// A group of fibers of one scheduler. The head of the file has the rules for threads and errors.
class TaskGroup {
 public:
  /// Makes a group of the calling fiber's scheduler. Throws std::logic_error on a plain thread.
  [[nodiscard]] TaskGroup();
  /// Makes a group of `scheduler`; a plain thread may make it and wait for it. The group may
  /// outlive the scheduler, which cancels and joins the group's fibers when it ends.
  [[nodiscard]] explicit TaskGroup(Scheduler& scheduler);
  /// As the constructor above, given the scheduler's core (Scheduler::core()). Not null.
  [[nodiscard]] explicit TaskGroup(std::shared_ptr<SchedulerCore> scheduler);
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// Launches a fiber into the group. Waits first while the group is at its limit. In a group that
  /// was stopped, the fiber starts cancelled. Throws Cancelled if the caller is cancelled while it
  /// waits, leat::Error if no stack can be allocated, std::logic_error if the scheduler has ended.
  template <class F>
  void go(F&& body, GoOptions options = {}) {
    launch(UniqueFunction<void()>(std::forward<F>(body)), std::move(options));
  }

  /// Waits until every fiber has ended, then rethrows the first exception that left one. If the
  /// waiting fiber is cancelled, wait() cancels and joins the group, then throws Cancelled. Throws
  /// std::logic_error on a fiber of the group itself.
  void wait();
  /// Cancels every fiber of the group, also those launched later. Returns at once.
  void stop() noexcept;
  /// Limits the group to `fibers` at a time; go() waits for room. The default is no limit. Throws
  /// std::invalid_argument for 0.
  void set_limit(std::size_t fibers);
  /// Returns a token that is signalled when the group is stopped, for code that computes for long
  /// without waiting.
  [[nodiscard]] std::stop_token stop_token() const;
  /// Returns what each fiber of the group does now, ordered by id, as Scheduler::dump() tells it.
  /// Thread-safe. Throws std::logic_error in a forked child of the scheduler's process.
  [[nodiscard]] std::vector<FiberReport> fibers() const;

 private:
  void launch(UniqueFunction<void()>&& body, GoOptions&& options);

  std::shared_ptr<SchedulerCore> scheduler_;
  std::shared_ptr<GroupCore> core_;
};

}  // namespace leat
