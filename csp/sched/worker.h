// One OS thread that runs fibers: its queues, the switches between its fibers, and how it finds
// work.
//
// Fibers switch to each other directly; the thread's own stack (the base) is switched to only when
// nothing is at hand, or when it is time to look beyond the worker. Everything that may wait for
// somebody else happens on the base, where no fiber of this worker is half way through a switch.
//
// Where a fiber goes that has been made ready here:
//  - the run-next slot: it runs when the present one parks, on this worker, whose caches hold what
//    it is about to touch; if one stands there, to the ring;
//  - the offer, instead, where this worker's slices are long: idle workers take it at once;
//  - the pinned list, if no other worker may run it.
// At most kLongestStreak in a row come from the first two: fibers that wake each other must not
// keep the others waiting.
//
// Where a seed decides (one worker, virtual time), all stand in the ring, at places that are drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/base/relaxed_atomic.h"
#include "leat/csp/fiber/context.h"
#include "leat/csp/fiber/fiber_pool.h"
#include "leat/csp/fiber/stack.h"
#include "leat/csp/sched/run_queue.h"
#include "leat/csp/wait/cpu_count.h"

namespace leat {

class SchedulerCore;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what thieves read has its own lines
class Worker {
 public:
  /// Why a fiber switches away.
  enum class SwitchReason : std::uint8_t { kNothing, kPark, kYield, kDone };

  /// That of the calling thread, or null. Not inlined, as Fiber::current().
  [[nodiscard]] static Worker* current() noexcept;
  /// For run(), and for an explorer, whose threads share one.
  static void set_current(Worker* worker) noexcept;

  Worker(SchedulerCore& core, std::size_t index);

  [[nodiscard]] SchedulerCore& core() const noexcept { return core_; }
  [[nodiscard]] Fiber* running() const noexcept { return running_.get(); }

  /// The thread's whole life: runs fibers until the scheduler has ended.
  void run() noexcept;

  // On this worker's thread:

  /// Queues a fiber that somebody has waked.
  void wake_here(Fiber& fiber) noexcept;
  /// Queues a fiber behind the others: a fresh one, or one that yields.
  void push_back(Fiber& fiber) noexcept;
  /// Likewise one that somebody has waked.
  void push_woken(Fiber& fiber) noexcept;
  /// `fiber` runs here and stops doing so: switches to the next one. Returns when it runs again,
  /// maybe on another worker; never, if it is done.
  void leave(Fiber& fiber, SwitchReason reason, const HeldLocks& held = {}) noexcept;
  /// Completes the switch by which the present context was reached.
  void after_switch() noexcept;
  /// `ended`, which runs here, has no more to do: makes a fresh fiber the owner of its stack and
  /// returns it; null if there is none at hand.
  Fiber* replace_ended(Fiber& ended) noexcept;
  /// Nothing else could run instead of the present fiber, nor is it time to look elsewhere.
  [[nodiscard]] bool may_go_on() noexcept;

  /// About now: when the slices were last sampled. For figures in reports; costs a load.
  [[nodiscard]] Cycles coarse_now() const noexcept { return sampled_at_.get(); }

  [[nodiscard]] FiberPool::Cache& fibers() noexcept { return fibers_; }
  /// A number that no other fiber of the scheduler has.
  std::uint64_t next_id() noexcept;

  /// How many fibers were launched and have ended here, apart those of the root group and others.
  /// Written by the owner.
  struct Counts {
    Atomic<std::uint64_t> launched{0};
    Atomic<std::uint64_t> ended{0};
  };
  Counts root_counts;
  Counts other_counts;

 private:
  friend class SchedulerCore;

  static constexpr int kLookOutsideEvery = 61;  // switches
  static constexpr int kSampleEvery = 7;        // switches; twice that where nothing changes
  static constexpr int kLongestStreak = 64;
  static constexpr int kLongestStreakOfLong = 16;   // where slices are long
  static constexpr std::uint32_t kSmallQueue = 16;  // fibers in a queue

  /// What this worker, as a thief or watcher, has seen of another.
  struct Seen {
    std::uint64_t switches = 0;
    struct Ring {
      std::uint64_t switches = 0;
      std::uint32_t taken = 0;
      Cycles since = 0;  // 0: it was empty
    } ring;
  };

  // On a fiber's stack, or on the base:
  Fiber* pick_local() noexcept;
  Fiber* pick_queued() noexcept;
  void wake_here_slow(Fiber& fiber) noexcept;
  void after_rare_switch() noexcept;
  bool bind_cached_stack(Fiber& fiber) noexcept;
  void sample_slices() noexcept;
  void push_at_random(Fiber& fiber) noexcept;

  // On the base only:
  Fiber* find() noexcept;
  Fiber* look_around() noexcept;
  Fiber* spin() noexcept;
  Fiber* steal() noexcept;
  [[nodiscard]] bool is_worth_stealing(Worker& victim, std::uint32_t size) noexcept;
  Fiber* steal_from(Worker& victim) noexcept;
  void remember_progress() noexcept;
  [[nodiscard]] bool sees_stalled_worker() noexcept;
  /// Fibers stand here that retake() would take.
  [[nodiscard]] bool holds_woken() const noexcept {
    return !run_next_.empty() || ring_.size() > 0 || !handoff_.empty();
  }
  Fiber* retake() noexcept;
  void found_work() noexcept;
  void wait_for_taker() noexcept;
  bool bind_stack(Fiber& fiber) noexcept;
  void resume(Fiber& fiber) noexcept;
  void recycle(Fiber& ended) noexcept;

  SchedulerCore& core_;
  const std::size_t index_;
  const bool alone_;     // the scheduler's only worker
  const bool replays_;   // likewise, in virtual time: real time decides nothing
  const bool shuffles_;  // likewise, and a seed decides who runs next

  RelaxedAtomic<Fiber*> running_{nullptr};
  RelaxedAtomic<Fiber*> resume_first_{
      nullptr};  // taken from a queue, but needs the base to get a stack
  RelaxedAtomic<int> until_look_outside_{1};
  RelaxedAtomic<int> until_sample_{1};
  RelaxedAtomic<int> sampled_every_{1};
  RelaxedAtomic<int> streak_{0};
  RelaxedAtomic<bool> long_slices_{false};
  RelaxedAtomic<bool> skips_run_next_{false};         // who is woken here has another place
  RelaxedAtomic<bool> handoff_ran_elsewhere_{false};  // the offer ran on another worker before
  RelaxedAtomic<std::uint64_t> random_{0};
  RelaxedAtomic<Cycles> sampled_at_{0};
  RelaxedAtomic<bool> slept_shortly_{
      false};  // the last time: it is worth looking out before the next
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

  Context scheduler_context_;
  RelaxedAtomic<Context::ExceptionState*> exceptions_{nullptr};  // of the thread

  FiberSlot run_next_;
  FiberSlot handoff_;
  RunRing ring_;
  // Grows with every fiber that this worker takes: whoever sees it stand still knows that one fiber
  // has run since.
  RelaxedAtomic<std::uint64_t, Atomic> switches_{0};

  std::vector<Seen> seen_;  // of each worker

  // SchedulerCore::lock_ protects these.
  FiberList pinned_inbox_;   // pinned here, made ready by others
  bool idle_ = false;        // counted in SchedulerCore::idle_
  bool spinning_ = false;    // counted in SchedulerCore::spinning_; the worker's own while not idle
  bool keeps_time_ = false;  // sleeps until a timer is due
  int woken_from_ = kNoCpu;  // the CPU of who woke it last
  bool shares_cpu_ = false;  // that was its own; the worker's own while not idle
  Atomic<bool> has_pinned_inbox_{false};
  Atomic<std::uint32_t> wake_word_{0};  // changed to wake it; it sleeps on a value it read
};

}  // namespace leat
