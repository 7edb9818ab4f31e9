// One OS thread that runs fibers: its queues, its switches between fibers, how it finds work.
//
// Fibers switch to each other directly. The worker switches to its own thread's stack, the
// scheduler context, only when no fiber is at hand or when it is time to look beyond the worker.
// Everything that may wait for another thread happens there, because no fiber of this worker is
// then in the middle of a switch.
//
// A fiber that is woken on this worker goes to one of these:
//
// Place         | which fibers                 | run by
// run-next slot | the usual place              | this worker, when the present fiber parks; its
//               |                              | caches hold the data that the fiber will touch
// ring          | if the run-next slot is full | this worker, or a thief
// handoff slot  | if slices are long here      | an idle worker, at once
// pinned list   | pinned fibers                | this worker
//
// At most tuning::kLongestStreak fibers in a row come from the two slots, so that fibers that wake
// each other do not starve the others.
//
// If a seed decides the order (one worker, virtual time), the ring has all fibers, at random
// places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/cpu_count.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/fiber/context.h"
#include "leat/csp/fiber/fiber_pool.h"
#include "leat/csp/fiber/stack.h"
#include "leat/csp/fiber/stack_overflow.h"
#include "leat/csp/sched/run_queue.h"

namespace leat {

class SchedulerCore;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what thieves read has its own lines
class Worker {
 public:
  /// Why a fiber switches away.
  enum class SwitchReason : std::uint8_t { kNothing, kPark, kYield, kDone };

  /// The calling thread's worker, or null. Not inlined, for the same reason as Fiber::current().
  [[nodiscard]] static Worker* current() noexcept;
  /// For run(), and for the explorer, whose simulated threads share one OS thread.
  static void set_current(Worker* worker) noexcept;

  Worker(SchedulerCore& core, std::size_t index);

  [[nodiscard]] SchedulerCore& core() const noexcept { return core_; }
  [[nodiscard]] Fiber* running() const noexcept { return running_.get(); }

  /// The thread's whole life: runs fibers until the scheduler has ended.
  void run() noexcept;

  // On this worker's thread:

  /// Queues a woken fiber: in the run-next slot, if that is free.
  void wake_here(Fiber& fiber) noexcept;
  /// Queues a fiber behind the others: a new one, or one that yields.
  void push_back(Fiber& fiber) noexcept;
  /// Queues a woken fiber behind the others.
  void push_woken(Fiber& fiber) noexcept;
  /// Switches from `fiber`, which runs here, to the next one. Returns when `fiber` runs again,
  /// maybe on another worker; never, if it is done.
  void leave(Fiber& fiber, SwitchReason reason, const HeldLocks& held = {}) noexcept;
  /// Completes the switch by which the present context was reached.
  void after_switch() noexcept;
  /// Called on the stack of `ended`, whose closure has returned. Makes a new fiber the owner of
  /// that stack and returns it; null if none is at hand.
  Fiber* replace_ended(Fiber& ended) noexcept;
  /// Returns whether the present fiber may go on: no other one can run, and it is not time to look
  /// elsewhere.
  [[nodiscard]] bool may_go_on() noexcept;

  /// Returns whether an exception unwinds the present fiber. Costs a load. Hidden from the race
  /// detector, which takes fibers that share the thread's record for several threads.
  [[nodiscard]] __attribute__((no_sanitize("thread"))) bool unwinds() const noexcept {
    return exceptions_.get()->uncaught > 0;
  }

  /// Counts operations of the present fiber. True once in tuning::kOperationsOfASlice, if no other
  /// fiber has run here meanwhile: then the present one has to give way.
  [[nodiscard]] bool ends_slice(std::uint32_t operations) noexcept;

  /// Returns the time when slices were last sampled. Costs a load; for figures in reports.
  [[nodiscard]] Cycles coarse_now() const noexcept { return sampled_at_.get(); }

  [[nodiscard]] FiberPool::Cache& fibers() noexcept { return fibers_; }
  /// An id that no other fiber of the scheduler has.
  std::uint64_t next_id() noexcept;

  /// How many fibers were launched here, and how many have ended here. The root group is counted
  /// apart from all others. Written by the owner.
  struct Counts {
    Atomic<std::uint64_t> launched{0};
    Atomic<std::uint64_t> ended{0};
  };
  Counts root_counts;
  Counts other_counts;

 private:
  friend class SchedulerCore;

  /// The state of another worker when this worker last looked at it.
  struct Seen {
    std::uint64_t switches = 0;  // noted by the monitor
    struct Ring {                // noted by a thief
      std::uint64_t switches = 0;
      std::uint32_t taken = 0;
      Cycles since = 0;  // 0: the ring was empty
      Cycles next_look = 0;
    } ring;
  };

  // On a fiber's stack, or on the scheduler context:
  Fiber* pick_local() noexcept;
  Fiber* pick_queued() noexcept;
  void wake_here_slow(Fiber& fiber) noexcept;
  void after_rare_switch() noexcept;
  bool bind_cached_stack(Fiber& fiber) noexcept;
  void sample_slices() noexcept;
  void push_at_random(Fiber& fiber) noexcept;

  // On the scheduler context only:
  /// The next fiber to run. Sleeps until there is one; null if the scheduler has ended.
  Fiber* find() noexcept;
  /// A fiber from the global queue or from another worker.
  Fiber* look_around() noexcept;
  Fiber* spin() noexcept;
  void found_work() noexcept;
  void wait_for_taker() noexcept;
  bool bind_stack(Fiber& fiber) noexcept;
  void resume(Fiber& fiber) noexcept;
  void recycle(Fiber& ended) noexcept;

  // Taking fibers from other workers. steal.cpp
  Fiber* steal() noexcept;
  [[nodiscard]] bool is_worth_stealing(Worker& victim) noexcept;
  Fiber* steal_from(Worker& victim) noexcept;
  void remember_progress() noexcept;
  /// Returns whether one fiber has kept another worker busy since the last look, with others
  /// waiting behind it.
  [[nodiscard]] bool sees_stalled_worker() noexcept;
  /// Takes a fiber that waits behind one that has kept its worker busy since the last look.
  Fiber* retake() noexcept;
  /// Returns whether this worker has fibers that retake() would take.
  [[nodiscard]] bool has_retakable() const noexcept {
    return !run_next_.empty() || ring_.size() > 0 || !handoff_.empty();
  }

  SchedulerCore& core_;
  const std::size_t index_;
  const bool alone_;     // the scheduler's only worker
  const bool replays_;   // the only worker, in virtual time: real time decides nothing
  const bool shuffles_;  // as replays_, and a seed decides which fiber runs next

  RelaxedAtomic<Fiber*> running_{nullptr};
  RelaxedAtomic<Fiber*> resume_first_{nullptr};  // taken from a queue; has to get a stack first
  RelaxedAtomic<int> until_look_outside_{1};
  RelaxedAtomic<int> until_sample_{1};
  RelaxedAtomic<int> sampled_every_{1};
  RelaxedAtomic<int> streak_{0};
  RelaxedAtomic<bool> long_slices_{false};
  RelaxedAtomic<bool> skips_run_next_{false};         // woken fibers do not use the run-next slot
  RelaxedAtomic<bool> handoff_ran_elsewhere_{false};  // its fiber last ran on another worker
  RelaxedAtomic<std::uint64_t> random_{0};
  RelaxedAtomic<std::uint64_t> slice_{0};  // switches_ when operations_ was last counted
  RelaxedAtomic<std::uint32_t> operations_{0};
  RelaxedAtomic<Cycles> sampled_at_{0};
  // The last sleep was short: it is worth looking out before the next one.
  RelaxedAtomic<bool> slept_shortly_{false};
  FiberList pinned_;
  FiberPool::Cache fibers_;
  StackPool::Cache stacks_;
  RelaxedAtomic<std::uint64_t> next_id_{0};
  RelaxedAtomic<std::uint64_t> ids_left_{0};

  // The switch in progress.
  RelaxedAtomic<Fiber*> previous_{nullptr};
  RelaxedAtomic<SwitchReason> switch_reason_{SwitchReason::kNothing};
  RelaxedAtomic<SpinLock*> held_lock_{nullptr};
  RelaxedAtomic<void (*)(void*) noexcept> held_drop_{nullptr};
  RelaxedAtomic<void*> held_argument_{nullptr};

  Context scheduler_context_;  // on the thread's own stack
  // The thread's record of exceptions.
  RelaxedAtomic<Context::ExceptionState*> exceptions_{nullptr};

  FiberSlot run_next_;
  alignas(64) FiberSlot handoff_;  // spinners look at it all the time
  RunRing ring_;
  // Grows with every fiber that this worker takes. While it does not change, one fiber runs.
  RelaxedAtomic<std::uint64_t, Atomic> switches_{0};

  std::vector<Seen> seen_;  // by index of the worker

  // SchedulerCore::lock_ protects these.
  FiberList pinned_inbox_;   // pinned here, made ready by other threads
  bool idle_ = false;        // counted in SchedulerCore::idle_
  bool spinning_ = false;    // counted in SchedulerCore::spinning_; the worker's own while not idle
  bool keeps_time_ = false;  // sleeps until a timer is due
  int woken_from_ = kNoCpu;  // the CPU of the thread that woke it last
  bool shares_cpu_ = false;  // with that thread; the worker's own while not idle
  Atomic<bool> has_pinned_inbox_{false};
  Atomic<std::uint32_t> wake_word_{0};  // changed to wake it; it sleeps on a value it read

  SignalStack signal_stack_;
};

}  // namespace leat
