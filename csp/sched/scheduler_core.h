// Runs fibers on workers: M fibers on N OS threads. csp/scheduler.h is the interface for users;
// csp/sched/worker.h is one worker.
//
// Each worker has queues of its own. This class holds what belongs to no single worker: fibers that
// were made ready from outside, timers, which workers sleep, and the end.
//
// Always true under lock_:
//  - idle_ counts the workers that sleep and that no other thread has woken yet. A worker becomes
//    idle under lock_ with its own queues empty, and only the worker itself fills these. So when
//    all workers are idle and the global queue is empty, every fiber is parked. Only then does
//    virtual time advance, and only then does a worker look for a deadlock;
//  - while the global queue holds fibers, some worker is not idle and will look here before it
//    sleeps.
//
// The monitor: a fiber in a worker's run-next slot waits for that worker to switch, and no other
// worker is woken for it. In case the worker never switches, one idle worker, the monitor, looks at
// the busy ones every tuning::kMonitorPeriod and takes such fibers over. If more of them wait, it
// wakes the next monitor. While no fiber is switched for some time there is no monitor
// (monitor_wanted_); then the first fiber that is put into a run-next slot wakes one. When all
// workers are idle, none of them wakes up.
//
// The order of the locks, and what each guards: csp/README.md, "Locks".
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
#include "leat/csp/base/futex.h"
#include "leat/csp/base/home_process.h"
#include "leat/csp/base/on_sigquit.h"
#include "leat/csp/base/os_thread.h"
#include "leat/csp/base/spin_lock.h"
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
#include "leat/csp/wait/queue.h"

namespace leat {

class Alarm;
class Poller;
struct FiberReport;

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

  /// Launches a fiber into `group`. Throws std::bad_alloc, or std::logic_error if the scheduler has
  /// ended. If there is no memory for the fiber's stack, the group fails with leat::Error.
  void launch(GroupCore& group, UniqueFunction<void()>&& body, GoOptions&& options);
  /// Queues a fiber from outside its worker: one that a thread other than a worker of this
  /// scheduler made ready, or one that is pinned to another worker than the caller's.
  void push_remote(Fiber& fiber) noexcept LEAT_EXCLUDES(lock_);

  /// Called by a fiber of this scheduler just before it parks.
  void add_timer(Timer& timer) noexcept LEAT_EXCLUDES(lock_);
  void remove_timer(Timer& timer) noexcept LEAT_EXCLUDES(lock_);
  /// Called by a fiber of this scheduler. The alarm's owner stops it before it drops it.
  void start_alarm(Alarm& alarm) noexcept LEAT_EXCLUDES(lock_);
  /// Removes the alarm's timer. Idempotent. Called by any thread.
  void stop_alarm(Alarm& alarm) noexcept LEAT_EXCLUDES(lock_);
  /// leat::settle(), called by a fiber of this scheduler. Its clock is virtual.
  void settle() LEAT_EXCLUDES(lock_);
  void begin_outside_work() noexcept LEAT_EXCLUDES(lock_);
  void end_outside_work() noexcept LEAT_EXCLUDES(lock_);

  void register_group(GroupCore& group) noexcept LEAT_EXCLUDES(groups_lock_);
  void unregister_group(GroupCore& group) noexcept LEAT_EXCLUDES(groups_lock_);
  /// The number of fibers in the root group. At some instant during the call there were no more.
  [[nodiscard]] std::uint64_t root_count() const noexcept;
  void cancel_root_fibers() noexcept;

  /// Returns one line about the scheduler, and one about each of its fibers. May be called from any
  /// thread. Fibers continue to run meanwhile. A fiber that leaves a wait or ends waits until the
  /// list is made.
  [[nodiscard]] std::string dump();
  /// Returns what each fiber of `group` does, by id. Otherwise as dump().
  [[nodiscard]] std::vector<FiberReport> fibers_of(const GroupCore& group);

  [[nodiscard]] IoPool& io_pool() noexcept { return io_pool_; }
  /// Returns the poller of keep_poller(); null before. Fibers of this scheduler call both.
  [[nodiscard]] std::shared_ptr<Poller> kept_poller() noexcept LEAT_EXCLUDES(lock_);
  /// Keeps the poller of descriptors (csp/io/poller.h) until the workers have ended.
  void keep_poller(std::shared_ptr<Poller> poller) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] const std::shared_ptr<GroupCore>& root() const noexcept { return root_; }
  [[nodiscard]] const Clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  [[nodiscard]] int worker_count() const noexcept { return worker_count_; }
  /// Returns the process that has its threads.
  [[nodiscard]] const HomeProcess& home() const noexcept { return home_; }

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

  // Called by workers. idle.cpp

  /// Why sleep() returns.
  enum class Woken : std::uint8_t {
    kEnded,     // the scheduler has ended
    kForWork,   // there may be something to run
    kToRetake,  // the monitor saw a stalled worker
  };
  /// Sleeps until there may be something to do. On the worker's scheduler context, with its queues
  /// empty.
  Woken sleep(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// Queues one fiber of the global queue, and the fibers whose timers are due. True if an idle
  /// worker has to keep the time while this one is busy.
  bool look_outside(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// Takes the worker's share of the global queue: returns one fiber, queues the others.
  Fiber* take_global(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// Queues the fibers that other threads made ready and that are pinned to `worker`.
  void take_pinned_inbox(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// Moves half of the worker's ring, which is full, to the global queue.
  void spill(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// Returns whether the worker shall spin before it sleeps; it is then counted in spinning_.
  [[nodiscard]] bool may_spin(Worker& worker) noexcept;
  /// Wakes an idle worker for a fiber that was just queued. A worker that spins finds the fiber, so
  /// then no worker is woken.
  void wake_for_work() noexcept {
    if (idle_.load(std::memory_order_relaxed) == 0) return;
    // A spinner that has found other work decrements spinning_, and then looks at all queues once
    // more. Both sides use a read-modify-write: a spinner that decrements after this addition sees
    // everything that was queued before it. (With two workers only a spinner itself comes here
    // while the other one is idle.)
    if (spinning_.load(std::memory_order_relaxed) > 0 &&
        spinning_.fetch_add(0, std::memory_order_seq_cst) > 0) {
      return;
    }
    wake_spinner();
  }
  /// Wakes an idle worker as the monitor if there is none. Called after a fiber was put where only
  /// its own worker looks.
  void wake_monitor() noexcept {
    if (__builtin_expect(monitor_wanted_.load(std::memory_order_seq_cst), 0)) wake_spinner();
  }
  void wake_spinner() noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] bool a_worker_spins() const noexcept {
    return spinning_.load(std::memory_order_relaxed) > 0;
  }
  void wake_timekeeper() noexcept LEAT_EXCLUDES(lock_);
  /// Returns whether another worker, or the global queue, holds fibers that should be run at once.
  [[nodiscard]] bool queued_elsewhere(const Worker& worker) const noexcept;
  /// Returns whether another worker holds fibers that the monitor would retake.
  [[nodiscard]] bool woken_elsewhere(const Worker& worker) const noexcept;

  /// Times of csp/base/tuning.h in cycles of this machine. Without `spins`, spinning, short
  /// sleeps and the pauses between looks have length 0.
  struct Thresholds {
    explicit Thresholds(bool spins) noexcept;
    Cycles long_slice;
    Cycles handoff_grace;
    Cycles steal_after_few;
    Cycles steal_after_many;
    Cycles steal_payoff;
    Cycles look_at_still;
    Cycles look_at_moving;
    Cycles spin;
    Cycles short_sleep;
  };

  /// A timer that is due: its fiber, or its alarm.
  struct DueTimer {
    Fiber* fiber = nullptr;
    Alarm* alarm = nullptr;  // counted among its users, until Alarm::ring() ends
    TimePoint at;
  };

  // Steps of sleep().
  enum class Decision : std::uint8_t {
    kFireTimers,       // a timer is due
    kLookAgain,        // there is something to run
    kEnd,              // the scheduler has ended
    kSleep,            // every worker is idle
    kSleepWhileStuck,  // likewise, and nothing can wake a fiber: until next_stuck_look_
    kSleepIfNoWork     // other workers run: one may have queued a fiber before it saw this one idle
  };
  /// Makes the worker idle, or says why not. May drop lock_ in between (release_settled,
  /// end_deadlock).
  Decision decide(Worker& worker) noexcept LEAT_REQUIRES(lock_);
  /// As decide(), if every worker is idle, so that every fiber is parked.
  Decision decide_when_all_idle(Worker& worker) noexcept LEAT_REQUIRES(lock_);
  /// Whether a fiber was queued, or this worker was woken, before the others could see that it is
  /// idle. Then it is busy again. Drops lock_ in between.
  bool missed_work(Worker& worker) noexcept LEAT_REQUIRES(lock_);
  /// Sleeps until the worker is woken or its time has come, `latest` at the latest. Drops lock_
  /// while it sleeps.
  Woken sleep_until_woken(Worker& worker, TimePoint latest) noexcept LEAT_REQUIRES(lock_);

  /// A worker that was marked busy, or none. Made before the guard of lock_, it is destroyed after
  /// it, and then wakes the worker.
  struct WokenWorker {
    ~WokenWorker() {
      if (worker != nullptr) futex_wake(&worker->wake_word_);
    }
    Worker* worker = nullptr;
  };
  /// Chooses an idle worker and marks it busy, for a WokenWorker. Null if none is idle.
  Worker* wake_one() noexcept LEAT_REQUIRES(lock_);
  /// Marks every idle worker busy, and wakes it.
  void wake_all() noexcept LEAT_REQUIRES(lock_);
  void mark_idle(Worker& worker) noexcept LEAT_REQUIRES(lock_);
  void mark_busy(Worker& worker) noexcept LEAT_REQUIRES(lock_);
  void update_monitor_wanted() noexcept LEAT_REQUIRES(lock_);
  /// Called by the monitor: stops monitoring if no fiber was switched for some time.
  void review_monitor() noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool has_due_timers() const noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool pop_due(TimePoint now, DueTimer& due) noexcept LEAT_REQUIRES(lock_);
  void unlist(Alarm& alarm) noexcept LEAT_REQUIRES(lock_);
  /// Returns whether a timer could wake a fiber while no fiber runs.
  [[nodiscard]] bool timers_may_wake() const noexcept LEAT_REQUIRES(lock_);
  void fire_due_timers(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  /// Queues a fiber whose wait the caller, on `worker`'s scheduler context, has claimed: here, or
  /// on the worker that the fiber is pinned to.
  void queue_claimed(Worker& worker, Fiber& fiber) noexcept LEAT_EXCLUDES(lock_);
  /// Called when every fiber is parked: queues the fiber that called settle() first, and makes the
  /// worker busy. False if there is none. Drops lock_ in between.
  bool release_settled(Worker& worker) noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool needs_timekeeper() const noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool may_have_due_timers() const noexcept;
  void note_earliest() noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] std::uint64_t live_count() const noexcept;
  [[nodiscard]] std::uint64_t progress() const noexcept LEAT_REQUIRES(lock_);

  // Looking at all fibers, and ending a deadlock. deadlock.cpp

  /// Called when every fiber is parked and nothing is pending. If only fibers of this scheduler
  /// could wake each other, makes run() end and throw Deadlock, and returns true. Drops lock_ in
  /// between.
  ///
  /// First all fibers are cancelled. If none of them moves on, they are shielded and will never be
  /// woken: then the shields give way, one DeadlockStep after the other. In the last step every
  /// fiber moves on by an exception, so this ends.
  bool end_deadlock() noexcept LEAT_REQUIRES(lock_);
  /// Returns whether a deadlock is to be looked for, now that every worker is idle.
  [[nodiscard]] bool seeks_deadlock() const noexcept LEAT_REQUIRES(lock_);
  /// The step that comes next, which is harder than the last one if no fiber has moved on since.
  DeadlockStep next_deadlock_step() noexcept LEAT_REQUIRES(lock_);
  /// Returns whether only fibers of this scheduler could wake each other. While no fiber runs.
  [[nodiscard]] bool all_stuck() noexcept LEAT_REQUIRES(lock_);
  /// All fibers, or an empty list if one of them could still be woken. While no fiber runs.
  [[nodiscard]] std::vector<const Fiber*> stuck_fibers() LEAT_REQUIRES(lock_);
  /// Returns whether fibers that are all stuck are a deadlock already: in virtual time, or if they
  /// have been seen stuck for deadlock_after_. If not, sets next_stuck_look_. A look counts for two
  /// pauses between looks at most: while the process is stopped (SIGSTOP, a debugger, a suspended
  /// machine), the threads that could wake a fiber are stopped, too.
  [[nodiscard]] bool deadlock_is_certain() noexcept LEAT_REQUIRES(lock_);

  const HomeProcess home_;
  const SchedulerOptions options_;
  const Clock* clock_;
  const int worker_count_;
  const Duration deadlock_after_;
  const std::uint64_t seed_;
  const Thresholds thresholds_;
  std::shared_ptr<GroupCore> root_;
  StackPool stacks_;  // outlives the workers: their caches give stacks back to it
  FiberPool fibers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<OsThread> threads_;
  std::optional<OnSigquit> on_sigquit_;
  IoPool io_pool_;
  std::shared_ptr<Poller> poller_;  // written under lock_, until the workers have ended
  bool throws_deadlock_ = false;    // set by run_main(); an embedded scheduler reports no deadlock
  bool clock_attached_ = false;     // from construction until the workers have been joined
  Atomic<std::uint64_t> next_fiber_id_{1};
  Atomic<std::size_t> next_home_{0};
  Atomic<bool> shutting_down_{false};  // set under lock_

  SpinLock groups_lock_;
  GroupCore* groups_ LEAT_GUARDED_BY(groups_lock_) = nullptr;

  // Read by workers at every switch, written when a worker goes to sleep or wakes up.
  alignas(64) Atomic<int> idle_{0};  // written under lock_
  Atomic<int> spinning_{0};
  Atomic<bool> monitor_wanted_{false};            // there are idle workers and none is the monitor
  Atomic<std::size_t> global_count_{0};           // written under lock_
  Atomic<TimePoint> earliest_{TimePoint::max()};  // of timers_; written under lock_

  alignas(64) SpinLock lock_;
  FiberList global_queue_ LEAT_GUARDED_BY(lock_);
  TimerHeap timers_ LEAT_GUARDED_BY(lock_);
  Alarm* alarms_ LEAT_GUARDED_BY(lock_) = nullptr;    // alarms whose timers are in timers_
  std::size_t deadlines_ LEAT_GUARDED_BY(lock_) = 0;  // timers of fibers
  WaitQueue settling_ LEAT_GUARDED_BY(lock_);         // fibers in settle()
  // The earliest time until which an idle worker sleeps (the timekeeper), or max().
  TimePoint timekeeper_until_ LEAT_GUARDED_BY(lock_) = TimePoint::max();
  Worker* monitor_ LEAT_GUARDED_BY(lock_) = nullptr;
  // The monitor's looks in a row without a switch anywhere.
  int quiet_looks_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t progress_at_last_look_ LEAT_GUARDED_BY(lock_) = 0;
  int running_workers_ LEAT_GUARDED_BY(lock_);  // fewer if not all could be started
  std::size_t outside_work_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t outside_progress_ LEAT_GUARDED_BY(lock_) = 0;  // counts events other than switches
  std::uint64_t deadlock_sought_at_ LEAT_GUARDED_BY(lock_) = static_cast<std::uint64_t>(-1);
  // The fibers were last found stuck: progress() then, the time, how long they have been seen so,
  // and when to look again.
  std::uint64_t stuck_at_ LEAT_GUARDED_BY(lock_) = static_cast<std::uint64_t>(-1);
  TimePoint stuck_seen_at_ LEAT_GUARDED_BY(lock_);
  Duration stuck_for_ LEAT_GUARDED_BY(lock_) = Duration::zero();
  TimePoint next_stuck_look_ LEAT_GUARDED_BY(lock_) = TimePoint::max();
  // A fiber that could be woken when all_stuck() last looked.
  const Fiber* not_stuck_ LEAT_GUARDED_BY(lock_) = nullptr;
  DeadlockStep deadlock_step_ LEAT_GUARDED_BY(lock_) = DeadlockStep::kCancel;
  // progress() at the last step.
  std::uint64_t deadlock_step_at_ LEAT_GUARDED_BY(lock_) = static_cast<std::uint64_t>(-1);
  bool reported_broken_shields_ LEAT_GUARDED_BY(lock_) = false;
  bool ended_ LEAT_GUARDED_BY(lock_) = false;
  Worker::Counts outside_root_counts_;  // fibers launched by threads that are no workers; lock_
  Worker::Counts outside_other_counts_;
};

}  // namespace leat
