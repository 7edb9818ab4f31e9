// A fiber: a closure with a stack of its own, run by the workers of one scheduler.
//
// The objects are made once and used again (FiberPool): while a census is taken (SchedulerCore),
// any of them may be looked at. Always true:
//  - a fiber that can run stands in exactly one queue, or is run by exactly one worker;
//  - it has a stack from the moment a worker first takes it until its closure has returned;
//  - its closure is destroyed on the fiber itself, before anybody who joins it is woken;
//  - no fiber leaves a wait, and none ends, while a census is taken.
//
// What only matters to the worker that has the fiber in hand is RelaxedAtomic: to ThreadSanitizer
// the worker's fibers are threads of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/fiber/context.h"
#include "leat/csp/fiber/safepoint.h"
#include "leat/csp/wait/unique_function.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

class SchedulerCore;
class GroupCore;
class Worker;

class alignas(64) Fiber final : public Waiter {
 public:
  /// The fiber that runs on the calling thread, or null. Not inlined: a compiler may keep a
  /// thread-local's address across a park, after which the fiber may be on another thread.
  [[nodiscard]] static Fiber* current() noexcept;

  explicit Fiber(SchedulerCore& core) noexcept : Waiter(true), core_(core) {}

  // As a Waiter:
  void begin(const Wait& wait) noexcept {
    parked_.store(false, std::memory_order_relaxed);
    Waiter::begin(wait, shields_ > 0);
  }
  void park(Deadline deadline, const HeldLocks& held) noexcept override;
  /// park(), inlined: worker_switch.h. `worker` is the one that the fiber runs on.
  void park_here(Worker& worker, Deadline deadline, const HeldLocks& held) noexcept;
  void end() noexcept {
    Waiter::end();
    Safepoint::poll();
  }
  void ready() noexcept override;
  /// ready(), inlined: worker_switch.h. `worker` is the caller's, null on a plain thread.
  void ready_from(Worker* worker) noexcept;
  /// ready(), for who claimed the operation without holding one of its locks: the fiber may not
  /// have been switched away from yet. Not called with SchedulerCore's lock held, nor while another
  /// fiber waits for the caller to be switched away from.
  void ready_once_parked() noexcept;

  /// Goes behind the other fibers that can run.
  void yield() noexcept;

  // Asking a fiber to stop: its wait, now or the next one, ends with kCancelled. In two steps with
  // a heavy_fence() in between, so that one fence does for many fibers. A fiber that has not run
  // yet needs only the first.
  /// A wait of this fiber's would end so at once. Called by the fiber itself.
  [[nodiscard]] bool shall_stop() const noexcept {
    return cancel_requested_.load(std::memory_order_relaxed) && shields_ == 0;
  }
  void request_cancel() noexcept { cancel_requested_.store(true, std::memory_order_relaxed); }
  void deliver_cancel() noexcept;

  /// Ends the present wait as a cancellation would, though the fiber be shielded: for a deadlock,
  /// in which nothing else can end it. `step` says how hard: at 1 only waits for what other fibers
  /// do on purpose (channels, room in a group); from 2 on also for what these do by ending (joins,
  /// device events); from 3 on those of destructors too, which terminates the program.
  /// True if there was such a wait: the caller then owes ready_once_parked(). In a census.
  [[nodiscard]] bool break_wait(int step) noexcept;
  /// Between shield() and unshield() (they nest) cancellation is remembered, not delivered. Called
  /// by the fiber itself.
  void shield() noexcept { ++shields_; }
  void unshield() noexcept { --shields_; }

  [[nodiscard]] SchedulerCore& core() const noexcept { return core_; }
  [[nodiscard]] GroupCore* group() const noexcept { return group_; }
  /// As given at its launch; empty if it has none.
  [[nodiscard]] std::string_view name() const noexcept {
    return name_ != nullptr ? std::string_view(*name_) : std::string_view();
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const StackSpan& stack() const noexcept { return context_.stack(); }
  /// A pseudo-random number of this fiber's own sequence. Called by the fiber itself.
  std::uint64_t random() noexcept;

  /// Its id, and its name if it has one.
  [[nodiscard]] std::string label() const;
  /// What it waits for. Where no fiber runs, and this one waits.
  [[nodiscard]] const Wait& wait() const noexcept { return wait_; }
  /// About when its present wait began. Likewise.
  [[nodiscard]] Cycles waits_since() const noexcept { return since_.get(); }

 private:
  friend class FiberList;
  friend class FiberPool;
  friend class GroupCore;
  friend class SchedulerCore;
  friend class Worker;

  static void entry(void* self);
  void bind(StackSpan stack) noexcept;
  void run_body() noexcept;
  void wait_until_parked() const noexcept;
  void ready_from_outside() noexcept;

  // A park and a wake-up touch the first two cache lines only.
  SchedulerCore& core_;
  RelaxedAtomic<Cycles> since_{0};  // about when its present wait began

  RelaxedAtomic<Worker*> worker_{nullptr};  // that runs it now, or ran it last
  RelaxedAtomic<Worker*> home_{nullptr};    // the only one that may run it, if pinned
  RelaxedAtomic<Fiber*> next_{nullptr};     // in a FiberList, or in the pool
  RelaxedAtomic<std::uint32_t> behind_{0};  // RunRing::pushed() when it joined the pinned list
  int shields_ = 0;                         // its own, once it runs
  Atomic<bool> parked_{false};              // since begin(): its context has been saved
  Atomic<bool> cancel_requested_{false};
  Atomic<bool> live_{false};  // launched, and not ended
  RelaxedAtomic<bool> has_stack_{false};
  RelaxedAtomic<bool> has_own_stack_size_{false};
  Context context_;

  // From here its own, once it runs.
  GroupCore* group_ = nullptr;
  std::uint64_t id_ = 0;
  std::uint64_t random_ = 0;  // the counter of its sequence
  UniqueFunction<void()> body_;
  std::unique_ptr<const std::string> name_;  // null: none

  Fiber* group_next_ = nullptr;  // in the group's list; GroupCore::lock_
  Fiber* group_previous_ = nullptr;
};

}  // namespace leat
