// A fiber: a closure with a stack of its own, run by the workers of one scheduler.
//
// The objects are made once and used again (FiberPool), so a thread that holds a Safepoint may look
// at any of them. Always true:
//  - a fiber that can run stands in exactly one queue, or is run by exactly one worker;
//  - it has a stack from the moment a worker first takes it until its closure has returned;
//  - its closure is destroyed on the fiber itself, before a fiber that joins it is woken;
//  - no fiber leaves a wait, and none ends, while a Safepoint lives.
//
// Members that only the fiber's present worker touches are RelaxedAtomic, because to
// ThreadSanitizer the fibers of one worker are separate threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/base/unique_function.h"
#include "leat/csp/fiber/context.h"
#include "leat/csp/fiber/safepoint.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

class SchedulerCore;
class GroupCore;
class Worker;

/// The steps that end a deadlock (SchedulerCore::end_deadlock). Each step ends the waits of the
/// earlier steps, and more.
enum class DeadlockStep : std::uint8_t {
  kCancel,      // every fiber is asked to stop; shielded waits go on
  kBreakWaits,  // shields give way in waits for an action of another fiber: channels, locks...
  kBreakJoins,  // and in waits for the end of something: joins, device events
  kBreakDestructors,  // and in destructors, where the exception terminates the program
};

class alignas(64) Fiber final : public Waiter {
 public:
  /// Returns the fiber that runs on the calling thread, or null. Not inlined: a compiler may keep a
  /// thread-local's address across a park, after which the fiber may run on another thread.
  [[nodiscard]] static Fiber* current() noexcept;

  explicit Fiber(SchedulerCore& core) noexcept : core_(core) {}

  // As a Waiter:
  void begin(const Wait& wait) noexcept;
  /// begin(), inlined: worker_switch.h. `worker` is the one that the fiber runs on.
  void begin_here(const Worker& worker, const Wait& wait) noexcept;
  void park(Deadline deadline, const HeldLocks& held) noexcept override;
  /// park(), inlined: worker_switch.h. `worker` is the one that the fiber runs on.
  void park_here(Worker& worker, Deadline deadline, const HeldLocks& held) noexcept;
  void end() noexcept {
    Waiter::end();
    Safepoint::poll();
  }
  void ready() noexcept override;
  /// As ready(), for a caller that claimed the operation without holding one of its locks: the
  /// fiber's context may not be saved yet. Not to be called with SchedulerCore::lock_ held, nor
  /// while another fiber waits for the caller's context to be saved.
  void ready_once_parked() noexcept;

  /// Goes behind the other fibers that can run. Called by the fiber itself.
  void yield() noexcept;
  /// Called by the fiber itself, without a lock, before an operation that may wait. A fiber that
  /// has not waited for many operations gives way. Throws Cancelled if it was asked to stop
  /// meanwhile.
  void count_operation();
  /// The rarer part of count_operation().
  void give_way();

  // Cancelling a fiber ends its present or next wait with kCancelled. A caller runs
  // request_cancel(), a heavy_fence() and deliver_cancel(), so that one fence serves many fibers. A
  // fiber that has not run yet needs only request_cancel().

  /// Returns whether a wait of this fiber would end at once because the fiber was cancelled. Called
  /// by the fiber itself. Never while an exception unwinds the fiber: a second one, which leaves a
  /// destructor, would end the program.
  [[nodiscard]] bool shall_stop() const noexcept {
    return cancel_requested_.load(std::memory_order_relaxed) && shields_ == 0 &&
           std::uncaught_exceptions() == 0;
  }
  void request_cancel() noexcept { cancel_requested_.store(true, std::memory_order_relaxed); }
  /// Returns whether that has ended a wait: the caller then owes ready_once_parked(), which it
  /// calls without a lock.
  [[nodiscard]] bool deliver_cancel() noexcept;

  /// Ends the present wait as a cancellation would, even if the fiber is shielded, if `step` is
  /// hard enough for that kind of wait. For a deadlock, where nothing else can end it. True if it
  /// did: the caller then owes ready_once_parked(). While a Safepoint lives.
  [[nodiscard]] bool break_wait(DeadlockStep step) noexcept;
  /// Between shield() and unshield() (they nest) cancellation is remembered, not delivered. Called
  /// by the fiber itself.
  void shield() noexcept { ++shields_; }
  void unshield() noexcept { --shields_; }

  [[nodiscard]] SchedulerCore& core() const noexcept { return core_; }
  [[nodiscard]] GroupCore* group() const noexcept { return group_; }
  /// Returns the name given at the launch; empty if there is none.
  [[nodiscard]] std::string_view name() const noexcept {
    return name_ != nullptr ? std::string_view(*name_) : std::string_view();
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const StackSpan& stack() const noexcept { return context_.stack(); }
  /// A pseudo-random number of this fiber's own sequence. Called by the fiber itself.
  std::uint64_t random() noexcept;

  /// Returns the fiber's id, and its name if it has one.
  [[nodiscard]] std::string label() const;
  /// Returns what the fiber waits for. Called while no fiber runs and this one waits.
  [[nodiscard]] const Wait& wait() const noexcept { return wait_; }
  /// Returns about when its present wait began. Called while no fiber runs and this one waits.
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
  /// Decides the present wait as cancelled. False if it is decided already, or shielded.
  bool claim_as_cancelled() noexcept {
    int undecided = kUndecided;  // another value while the fiber is shielded
    // acquire: as claim().
    return decision_.compare_exchange_strong(undecided, kCancelled, std::memory_order_acquire,
                                             std::memory_order_relaxed);
  }

  // A park and a wake-up touch the first two cache lines only.
  SchedulerCore& core_;
  RelaxedAtomic<Cycles> since_{0};  // when its present wait began, about

  RelaxedAtomic<Worker*> worker_{nullptr};  // the worker that runs it now, or ran it last
  RelaxedAtomic<Worker*> home_{nullptr};    // the only worker that may run it; null: not pinned
  RelaxedAtomic<Fiber*> next_{nullptr};     // in a FiberList, or in the pool
  RelaxedAtomic<std::uint32_t> behind_{0};  // RunRing::pushed() when it joined the pinned list
  int shields_ = 0;                         // used by the fiber itself, once it runs
  Atomic<bool> parked_{false};              // its context has been saved since begin()
  Atomic<bool> cancel_requested_{false};
  Atomic<bool> live_{false};  // launched, and not ended
  RelaxedAtomic<bool> has_stack_{false};
  RelaxedAtomic<bool> has_own_stack_size_{false};
  Context context_;

  // The rest belongs to the fiber itself, once it runs.
  GroupCore* group_ = nullptr;
  std::uint64_t id_ = 0;
  std::uint64_t random_ = 0;  // the counter of its sequence
  UniqueFunction<void()> body_;
  std::unique_ptr<const std::string> name_;  // null: none

  Fiber* group_next_ = nullptr;  // in the group's list; GroupCore::lock_
  Fiber* group_previous_ = nullptr;
};

}  // namespace leat
