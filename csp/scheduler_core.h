// Runs fibers on workers. The typed, user-facing side is csp/scheduler.h.
//
// M fibers on N workers. A worker takes the fiber that has waited longest, of the ready queue and
// of its own queue of pinned fibers, switches to it, and acts on why it came back. One lock
// protects the queues, the timers and the workers' idleness, so that "everything is parked" is a
// fact and not a guess.
//
// Always true under lock_:
//  - a fiber that is kReady is in ready_ or in its home's pinned queue;
//  - while ready_ is not empty, some worker is not idle and will look at it before it sleeps;
//  - idle_ counts the workers that sleep and that nobody has woken yet. idle_ == workers means that
//    every fiber is parked: only then does virtual time advance, and only then is a deadlock
//    sought.
//
// Lock order: groups_lock_, GroupCore::lock_, Fiber::lock_, lock_.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/csp/context.h"
#include "leat/csp/fiber.h"
#include "leat/csp/group_core.h"
#include "leat/csp/spin_lock.h"
#include "leat/csp/stack.h"
#include "leat/csp/timers.h"

namespace leat {

/// Options of a scheduler.
struct SchedulerOptions {
  /// OS threads that run fibers. 0: as many as this process may use CPUs (affinity mask, cgroup
  /// quota). At most 4096.
  int workers = 0;
  /// Null: real time. Otherwise this clock, which must outlive the scheduler and serve no other.
  VirtualClock* clock = nullptr;
  /// Bytes of stack of a fiber that asks for nothing else.
  std::size_t stack_size = std::size_t{64} << 10;
  /// For select's choices among ready cases: with one worker and a virtual clock, equal seeds give
  /// equal runs.
  std::uint64_t seed = 0;
};

/// FIFO of ready fibers, linked through the fibers.
class ReadyQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void push(Fiber& fiber) noexcept;
  Fiber* pop() noexcept;
  /// Takes the fiber that has waited longest in either queue.
  static Fiber* pop_oldest(ReadyQueue& a, ReadyQueue& b) noexcept;

 private:
  Fiber* first_ = nullptr;
  Fiber* last_ = nullptr;
};

class SchedulerCore;

/// One OS thread that runs fibers.
struct Worker {
  SchedulerCore* core = nullptr;
  Context base;             // the thread's own stack; made on that thread
  ReadyQueue pinned;        // fibers that only this worker may run; SchedulerCore::lock_
  bool idle = false;        // counted in idle_; SchedulerCore::lock_
  bool keeps_time = false;  // sleeps until a timer is due; SchedulerCore::lock_
  std::atomic<std::uint32_t> wake_word{0};  // changed to wake it; it sleeps on a value it read
};

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

  /// Launches a fiber into `group`. Throws leat::Error where there is no memory for its stack,
  /// std::logic_error where the scheduler has ended.
  void launch(const std::shared_ptr<GroupCore>& group, UniqueFunction<void()> body,
              GoOptions options);
  /// The fiber is kReady: queues it and sees to it that a worker runs it.
  void enqueue(Fiber& fiber) noexcept LEAT_EXCLUDES(lock_);

  /// Called by a fiber of this scheduler that parks next.
  void add_timer(Timer& timer) noexcept LEAT_EXCLUDES(lock_);
  void remove_timer(Timer& timer) noexcept LEAT_EXCLUDES(lock_);
  void begin_outside_work() noexcept LEAT_EXCLUDES(lock_);
  void end_outside_work() noexcept LEAT_EXCLUDES(lock_);

  void register_group(GroupCore& group) noexcept LEAT_EXCLUDES(groups_lock_);
  void unregister_group(GroupCore& group) noexcept LEAT_EXCLUDES(groups_lock_);

  [[nodiscard]] const std::shared_ptr<GroupCore>& root() const noexcept { return root_; }
  [[nodiscard]] const Clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] std::uint64_t seed() const noexcept { return options_.seed; }
  [[nodiscard]] int worker_count() const noexcept { return static_cast<int>(workers_.size()); }

 private:
  static constexpr std::size_t kMainStackSize = std::size_t{8} << 20;

  [[nodiscard]] Fiber* make_fiber(const std::shared_ptr<GroupCore>& group,
                                  UniqueFunction<void()> body, GoOptions options, bool& stopping)
      LEAT_EXCLUDES(lock_);
  void start_from(std::size_t first);
  void join_workers() noexcept;
  void work(Worker& worker) noexcept;
  Fiber* next(Worker& worker) noexcept LEAT_EXCLUDES(lock_);
  void resume(Worker& worker, Fiber& fiber) noexcept;
  void finish(Fiber* fiber) noexcept;
  void stop_everything() noexcept;

  // With lock_ held:
  Worker* wake_one() noexcept LEAT_REQUIRES(lock_);
  void wake_all() noexcept LEAT_REQUIRES(lock_);
  void mark_busy(Worker& worker) noexcept LEAT_REQUIRES(lock_);
  Worker* push(Fiber& fiber) noexcept LEAT_REQUIRES(lock_);
  void fire_due_timers() noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] bool needs_timekeeper() const noexcept LEAT_REQUIRES(lock_);

  /// Every fiber is parked and nothing is pending: if only fibers of this scheduler could wake each
  /// other, sees to it that run() ends and throws Deadlock. True if it was so.
  ///
  /// All are cancelled. If that moves nobody, they are shielded, and what they wait for will never
  /// come: step by step the shields give way (Fiber::break_wait). It ends, because in the last step
  /// every fiber moves on, by an exception.
  bool end_deadlock() noexcept LEAT_EXCLUDES(lock_);
  /// Lists the fibers; empty if there are none or one could still be woken.
  [[nodiscard]] std::string list_stuck() LEAT_EXCLUDES(groups_lock_);

  const SchedulerOptions options_;
  const Clock* clock_;
  std::shared_ptr<GroupCore> root_;
  StackPool stacks_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
  bool throws_deadlock_ = false;  // run_main, as opposed to an embedded scheduler
  bool clock_attached_ = false;   // from construction until the workers have been joined
  std::atomic<std::uint64_t> next_fiber_id_{1};

  SpinLock groups_lock_;
  GroupCore* groups_ LEAT_GUARDED_BY(groups_lock_) = nullptr;

  SpinLock lock_;
  ReadyQueue ready_ LEAT_GUARDED_BY(lock_);
  TimerHeap timers_ LEAT_GUARDED_BY(lock_);
  int idle_ LEAT_GUARDED_BY(lock_) = 0;
  // The earliest time until which an idle worker sleeps (the timekeeper), or max().
  TimePoint timekeeper_until_ LEAT_GUARDED_BY(lock_) = TimePoint::max();
  std::size_t live_ LEAT_GUARDED_BY(lock_) = 0;  // fibers that are not done
  std::size_t outside_work_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t progress_ LEAT_GUARDED_BY(lock_) = 0;  // counts enqueued fibers
  std::uint64_t deadlock_sought_at_ LEAT_GUARDED_BY(lock_) = static_cast<std::uint64_t>(-1);
  int deadlock_steps_ LEAT_GUARDED_BY(lock_) = 0;  // without anybody moving on: end_deadlock()
  bool shields_gave_way_ LEAT_GUARDED_BY(lock_) = false;
  std::size_t next_home_ LEAT_GUARDED_BY(lock_) = 0;
  bool shutting_down_ LEAT_GUARDED_BY(lock_) = false;
};

}  // namespace leat
