// A fiber: a closure with a stack of its own, run by the workers of one scheduler.
//
// Always true:
//  - state_ is changed by Fiber::ready and by the worker that runs the fiber, in the transitions
//    listed at FiberState, and nowhere else;
//  - a fiber is in a ready queue exactly while it is kReady, and is run by exactly one worker while
//    it is kRunning or kWoken;
//  - operation_ points to a live Operation or is null; it is read by others under lock_ alone;
//  - the closure is destroyed on the fiber itself, before anybody who joins it is woken.
//
// Lock order: GroupCore::lock_, Fiber::lock_, SchedulerCore::lock_.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "leat/csp/context.h"
#include "leat/csp/spin_lock.h"
#include "leat/csp/unique_function.h"
#include "leat/csp/waiter.h"

namespace leat {

class SchedulerCore;
class GroupCore;
struct Worker;

/// Options of one fiber.
struct GoOptions {
  /// For reports.
  std::string name = {};
  /// Stays on one OS thread for life: for code that keeps state in the thread (OpenMP, cuBLAS
  /// handles, thread-locals).
  bool pinned = false;
  /// Bytes; 0 is the scheduler's default. Committed lazily, guarded.
  std::size_t stack_size = 0;
};

enum class FiberState : std::uint8_t {
  kReady,    // in a ready queue                      -> kRunning (a worker takes it)
  kRunning,  // on a worker                           -> kParked, kReady (yield), kDone, kWoken
  kWoken,    // on a worker; ready() came before it had parked: its park returns at once -> kRunning
  kParked,   // waits, its context is saved           -> kReady (ready())
  kDone,     // its closure has returned
};

class Fiber final : public Waiter {
 public:
  /// The fiber that runs on the calling thread, or null. Not inlined: a compiler may keep a
  /// thread-local's address across a park, after which the fiber may be on another thread.
  [[nodiscard]] static Fiber* current() noexcept;

  Fiber(SchedulerCore& core, std::shared_ptr<GroupCore> group, UniqueFunction<void()> body,
        GoOptions options, StackSpan stack, std::uint64_t id);

  void park(Operation& operation, Deadline deadline) noexcept override;
  void ready() noexcept override;
  /// The first half of ready(): true if the caller, who may hold SchedulerCore::lock_, has to queue
  /// the fiber; false if the fiber had not parked yet and goes on by itself.
  [[nodiscard]] bool make_ready() noexcept;
  /// Goes to the end of the ready queue.
  void yield() noexcept;

  /// Asks the fiber to stop: its wait, now or the next one, ends with Operation::kCancelled.
  void cancel() noexcept;
  /// Ends the present wait as a cancellation would, though the fiber be shielded: for a deadlock,
  /// in which nothing else can end it. `step` says how hard: at 1 only waits for what other fibers
  /// do on purpose (channels, room in a group); from 2 on also for what these do by ending (joins,
  /// device events); from 3 on those of destructors too, which terminates the program.
  /// True if there was such a wait: the caller then owes ready().
  [[nodiscard]] bool break_wait(int step) noexcept;
  /// Between shield() and unshield() (they nest) cancellation is remembered, not delivered. Called
  /// by the fiber itself.
  void shield() noexcept;
  void unshield() noexcept;

  [[nodiscard]] SchedulerCore& core() const noexcept { return core_; }
  [[nodiscard]] const std::string& name() const noexcept { return options_.name; }
  /// A pseudo-random number of this fiber's own sequence. Called by the fiber itself.
  std::uint64_t random() noexcept;

  /// One line: name and what it waits for. Sets `stuck` to whether only a fiber of the same
  /// scheduler could wake it (see SchedulerCore::end_deadlock).
  [[nodiscard]] std::string describe(bool& stuck) noexcept LEAT_EXCLUDES(lock_);

 private:
  friend class SchedulerCore;
  friend class GroupCore;
  friend class ReadyQueue;

  /// Why the fiber last switched to its worker.
  enum class Left : std::uint8_t { kPark, kYield, kDone };

  static void entry(void* self);
  void leave(Left how) noexcept;
  static void set_current(Fiber* fiber) noexcept;

  SchedulerCore& core_;
  std::shared_ptr<GroupCore> group_;
  UniqueFunction<void()> body_;
  GoOptions options_;
  StackSpan stack_;
  Context context_;
  std::uint64_t id_;
  std::uint64_t random_;  // the counter of its sequence
  std::atomic<FiberState> state_{FiberState::kReady};
  std::atomic<Left> left_{Left::kPark};
  Worker* worker_ = nullptr;  // that runs it now, or ran it last; written by that worker
  Worker* home_ = nullptr;    // the only one that may run it, if pinned

  SpinLock lock_;
  Operation* operation_ LEAT_GUARDED_BY(lock_) = nullptr;
  bool cancel_requested_ LEAT_GUARDED_BY(lock_) = false;
  int shields_ LEAT_GUARDED_BY(lock_) = 0;

  Fiber* ready_next_ = nullptr;    // in a ready queue; SchedulerCore::lock_
  std::uint64_t ready_since_ = 0;  // SchedulerCore::progress_ when it was queued; lock_ as well
  Fiber* group_next_ = nullptr;    // in the group's list; GroupCore::lock_
  Fiber* group_previous_ = nullptr;
};

}  // namespace leat
