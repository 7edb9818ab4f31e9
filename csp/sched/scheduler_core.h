// Runs fibers on workers. The typed, user-facing side is csp/scheduler.h; what one worker does is
// csp/sched/worker.h.
//
// M fibers on N workers, each with queues of its own. What belongs to no worker is here: fibers
// made ready from outside, timers, who sleeps, and the end. Always true under lock_:
//  - idle_ counts the workers that sleep and that nobody has woken yet. A worker becomes idle under
//    lock_ with its own queues empty, and only it fills these: idle_ == workers, with nothing
//    injected, means that every fiber is parked. That is a fact, not a guess: only then does
//    virtual time advance, and only then is a deadlock sought;
//  - while something is injected, some worker is not idle and will look here before it sleeps.
//
// A worker that makes a fiber ready wakes an idle one to take it only if the fiber would otherwise
// stand behind another; the fiber in its run-next slot waits for it to switch. Should it not
// switch, one of the idle workers, the watcher, comes by every kMonitorPeriod and takes that fiber
// over, and calls another watcher if more wait and nobody watches. While no fiber has been switched
// for some time, nobody watches (monitor_wanted_): then the first fiber put into a run-next slot
// wakes a watcher. When all are idle nobody wakes up.
//
// Lock order: the census's, groups_lock_, a park's own lock (a channel's, GroupCore::lock_), lock_.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/atomic.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/base/os_thread.h"
#include "leat/csp/base/sigquit_dump.h"
#include "leat/csp/clock.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/fiber/fiber_pool.h"
#include "leat/csp/fiber/stack.h"
#include "leat/csp/sched/group_core.h"
#include "leat/csp/sched/io_pool.h"
#include "leat/csp/sched/run_queue.h"
#include "leat/csp/sched/timers.h"
#include "leat/csp/sched/worker.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

class Alarm;

class SchedulerCore : public std::enable_shared_from_this<SchedulerCore> {
 public:
  explicit SchedulerCore(const SchedulerOptions& options);
  ~SchedulerCore();
  SchedulerCore(const SchedulerCore&) = delete;
  SchedulerCore& operator=(const SchedulerCore&) = delete;

  /// Runs `main` as the first fiber, pinned to the calling thread, which is a worker meanwhile.
  /// Returns when every fiber has ended; rethrows the root group's first error.
  void run_main(UniqueFunction<void()> main);
  /// Starts all workers on threads of their own. Throws leat::Error where there are no threads.
  void start();
  /// Cancels and joins every fiber and every worker. Idempotent.
  void shut_down() noexcept;

  /// Launches a fiber into `group`. Throws std::bad_alloc, std::logic_error where the scheduler has
  /// ended. Where there is no memory for its stack, the group fails with leat::Error.
  void launch(GroupCore& group, UniqueFunction<void()>&& body, GoOptions&& options);
  /// Queues a fiber that was made ready by who is not one of its workers, or that is pinned to
  /// another worker than the caller's.
  void push_remote(Fiber& fiber) noexcept LEAT_EXCLUDES(lock_);

  /// Called by a fiber of this scheduler that parks next.
  void add_timer(Timer& timer) noexcept LEAT_EXCLUDES(lock_);
  void remove_timer(Timer& timer) noexcept LEAT_EXCLUDES(lock_);
  /// The scheduler owns a share of the alarm until it has rung for the last time or is stopped.
  void start_alarm(Alarm& alarm) LEAT_EXCLUDES(lock_);
  void stop_alarm(Alarm& alarm) noexcept LEAT_EXCLUDES(lock_);
  void begin_outside_work() noexcept LEAT_EXCLUDES(lock_);
  void end_outside_work() noexcept LEAT_EXCLUDES(lock_);

  void register_group(GroupCore& group) noexcept LEAT_EXCLUDES(groups_lock_);
  void unregister_group(GroupCore& group) noexcept LEAT_EXCLUDES(groups_lock_);
  /// How many fibers the root group has; at some moment since the call there were not more.
  [[nodiscard]] std::uint64_t root_count() const noexcept;
  void cancel_root_fibers() noexcept;

  /// One line about the scheduler, and one about each of its fibers. From anywhere; what runs goes
  /// on, but for fibers that leave a wait or end: they wait for the list.
  [[nodiscard]] std::string dump();

  [[nodiscard]] IoPool& io_pool() noexcept { return io_pool_; }
  [[nodiscard]] const std::shared_ptr<GroupCore>& root() const noexcept { return root_; }
  [[nodiscard]] const Clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return options_.seed; }
  [[nodiscard]] int worker_count() const noexcept { return worker_count_; }

 private:
  friend class Fiber;
  friend class Worker;

  static constexpr std::size_t kMainStackSize = std::size_t{8} << 20;

  void start_from(std::size_t first);
  void join_workers() noexcept;
  void finish(Fiber& fiber, Worker& worker) noexcept;
  void stop_everything() noexcept;
  [[nodiscard]] Worker* calling_worker() const noexcept;
  [[nodiscard]] Fiber& make_fiber(GroupCore& group, UniqueFunction<void()>&& body,
                                  GoOptions&& options);
  void discard(Fiber& fiber) noexcept;
  [[nodiscard]] bool count_launch(const GroupCore& group, Worker* worker) noexcept
      LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::uint64_t reserve_ids(std::uint64_t count) noexcept {
    return next_fiber_id_.fetch_add(count, std::memory_order_relaxed);
  }

  // What workers ask for. scheduler_idle.cpp

  enum class Woken : std::uint8_t { kEnded, kBySomebody, kToRetake };
  /// Sleeps until there may be something to do. On the worker's base, with its queues empty.
  Woken sleep(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// Queues one injected fiber, and those whose time has come. True if somebody has to watch the
  /// clock while this worker is busy.
  bool look_outside(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// Takes the worker's share of what is injected: returns one, queues the others.
  Fiber* take_global(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  void take_pinned_inbox(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// The worker's ring is full: half of it is injected.
  void spill(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// True if the worker shall spin before it sleeps; it is then counted in spinning_.
  [[nodiscard]] bool may_spin(Worker& worker) noexcept;
  void wake_for_work() noexcept {
    if (idle_.load(std::memory_order_relaxed) == 0) return;
    // A spinner that has found other work leaves spinning_, and then looks at all queues once more.
    // By an addition as this one: what was queued before this is seen by who leaves after it. (With
    // two workers only a spinner itself comes here while the other one is idle.)
    if (spinning_.load(std::memory_order_relaxed) > 0 &&
        spinning_.fetch_add(0, std::memory_order_seq_cst) > 0) {
      return;
    }
    wake_spinner();
  }
  void wake_monitor() noexcept {
    if (__builtin_expect(monitor_wanted_.load(std::memory_order_seq_cst), 0)) wake_spinner();
  }
  void wake_spinner() noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] bool somebody_spins() const noexcept {
    return spinning_.load(std::memory_order_relaxed) > 0;
  }
  void wake_timekeeper() noexcept LEAT_EXCLUDES(lock_);
  /// Somebody else has queued more than he will soon run.
  [[nodiscard]] bool queued_elsewhere(const Worker& worker) const noexcept;
  [[nodiscard]] bool woken_elsewhere(const Worker& worker) const noexcept;

  [[nodiscard]] Cycles long_slice() const noexcept { return long_slice_; }
  [[nodiscard]] Cycles handoff_grace() const noexcept { return handoff_grace_; }
  [[nodiscard]] Cycles spin_cycles() const noexcept { return spin_cycles_; }
  [[nodiscard]] Cycles short_sleep() const noexcept { return short_sleep_; }
  [[nodiscard]] Cycles steal_after_few() const noexcept { return steal_after_few_; }
  [[nodiscard]] Cycles steal_after_many() const noexcept { return steal_after_many_; }
  [[nodiscard]] Cycles steal_payoff() const noexcept { return steal_payoff_; }

  struct Due {
    Fiber* fiber = nullptr;
    std::shared_ptr<Alarm> alarm;
    TimePoint at;
  };

  // With lock_ held:
  Worker* wake_one() noexcept LEAT_REQUIRES(lock_);
  void wake_all() noexcept LEAT_REQUIRES(lock_);
  void mark_busy(Worker& worker) noexcept LEAT_REQUIRES(lock_);
  void update_monitor_wanted() noexcept LEAT_REQUIRES(lock_);
  void review_monitor() noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool has_due_timers() const noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool pop_due(TimePoint now, Due& due) noexcept LEAT_REQUIRES(lock_);
  std::shared_ptr<Alarm> unlink(Alarm& alarm) noexcept LEAT_REQUIRES(lock_);
  /// Whether a timer could wake somebody, though nobody runs.
  [[nodiscard]] bool timers_may_wake() const noexcept LEAT_REQUIRES(lock_);
  void fire_due_timers(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  void stop_alarms() noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] bool needs_timekeeper() const noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool may_have_due_timers() const noexcept;
  void note_earliest() noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] std::uint64_t live_count() const noexcept;
  [[nodiscard]] std::uint64_t progress() const noexcept LEAT_REQUIRES(lock_);

  // Seeing all fibers, and ending them. deadlock.cpp

  /// Every fiber is parked and nothing is pending: if only fibers of this scheduler could wake each
  /// other, sees to it that run() ends and throws Deadlock. True if it was so. Called and returns
  /// with lock_ held, drops it in between.
  ///
  /// All are cancelled. If that moves nobody, they are shielded, and what they wait for will never
  /// come: step by step the shields give way (Fiber::break_wait). It ends, because in the last step
  /// every fiber moves on, by an exception.
  bool end_deadlock() noexcept LEAT_REQUIRES(lock_);
  /// All fibers, or none if one of them could still be woken. No fiber runs.
  [[nodiscard]] std::vector<const Fiber*> stuck_fibers() LEAT_REQUIRES(lock_);

  const SchedulerOptions options_;
  const Clock* clock_;
  const int worker_count_;
  const Cycles long_slice_;
  const Cycles handoff_grace_;
  const Cycles spin_cycles_;
  const Cycles short_sleep_;
  const Cycles steal_after_few_;
  const Cycles steal_after_many_;
  const Cycles steal_payoff_;
  std::shared_ptr<GroupCore> root_;
  StackPool stacks_;  // outlives the workers, whose caches give theirs back
  FiberPool fibers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<OsThread> threads_;
  std::optional<SigquitDump> sigquit_dump_;
  IoPool io_pool_;
  bool throws_deadlock_ = false;  // run_main, as opposed to an embedded scheduler
  bool clock_attached_ = false;   // from construction until the workers have been joined
  Atomic<std::uint64_t> next_fiber_id_{1};
  Atomic<std::size_t> next_home_{0};
  Atomic<bool> shutting_down_{false};  // set under lock_

  SpinLock groups_lock_;
  GroupCore* groups_ LEAT_GUARDED_BY(groups_lock_) = nullptr;

  // Read by workers at every turn, written when somebody goes to sleep or wakes up.
  alignas(64) Atomic<int> idle_{0};  // written under lock_
  Atomic<int> spinning_{0};
  Atomic<bool> monitor_wanted_{false};   // there are idle workers and none of them is the watcher
  Atomic<std::size_t> global_count_{0};  // written under lock_
  Atomic<TimePoint> earliest_{TimePoint::max()};  // of timers_; written under lock_

  alignas(64) SpinLock lock_;
  FiberList global_queue_ LEAT_GUARDED_BY(lock_);
  TimerHeap timers_ LEAT_GUARDED_BY(lock_);
  Alarm* alarms_ LEAT_GUARDED_BY(lock_) = nullptr;    // those among timers_
  std::size_t deadlines_ LEAT_GUARDED_BY(lock_) = 0;  // the others
  // The earliest time until which an idle worker sleeps (the timekeeper), or max().
  TimePoint timekeeper_until_ LEAT_GUARDED_BY(lock_) = TimePoint::max();
  Worker* monitor_ LEAT_GUARDED_BY(lock_) = nullptr;
  int quiet_looks_ LEAT_GUARDED_BY(lock_) = 0;  // in a row, without a switch anywhere
  std::uint64_t progress_at_last_look_ LEAT_GUARDED_BY(lock_) = 0;
  int running_workers_ LEAT_GUARDED_BY(lock_);  // fewer where not all could be started
  std::size_t outside_work_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t outside_progress_ LEAT_GUARDED_BY(lock_) = 0;  // what progress() adds to switches
  std::uint64_t deadlock_sought_at_ LEAT_GUARDED_BY(lock_) = static_cast<std::uint64_t>(-1);
  const Fiber* not_stuck_ LEAT_GUARDED_BY(lock_) = nullptr;  // when last looked for: stuck_fibers()
  int deadlock_steps_ LEAT_GUARDED_BY(lock_) = 0;  // without anybody moving on: end_deadlock()
  std::uint64_t stepped_at_ LEAT_GUARDED_BY(lock_) = static_cast<std::uint64_t>(-1);
  bool reported_broken_shields_ LEAT_GUARDED_BY(lock_) = false;
  bool ended_ LEAT_GUARDED_BY(lock_) = false;
  Worker::Counts outside_root_counts_;  // launched by who is no worker; under lock_
  Worker::Counts outside_other_counts_;
};

}  // namespace leat
