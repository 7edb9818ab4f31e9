// Fibers: run, go, sleep, yield, settle; and Scheduler, for a program with a main of its own.
//
// Example
//   int answer = leat::run([] {
//     leat::Channel<int> c(0, "answers");
//     leat::go([c] { c.send(42); });
//     return c.recv().value();
//   });
//
// Fibers are cheap: a stack of 64 KiB, and the kernel commits only the pages that are touched. They
// are not preempted. If the operations of a fiber never have to wait, the fiber gives way to
// others, as if it called yield(), after some 2,000 of them (send, select, lock, acquire, wait, a
// sleep that is over); on a channel of larger capacity, after some two capacities. The try_*
// functions, selects with otherwise(), and go() do not count. A fiber may move to another worker,
// which is another OS thread, at every operation that may park. So the thread's state does not
// survive such an operation: errno, thread-locals, CUDA's current device, OpenMP. Code that needs
// this state sets GoOptions::pinned.
//
// Thread and fiber safety: run() and Scheduler's members are called on any thread, go() and dump()
// on a fiber, the other functions on both.
//
// Ownership and lifetime: run() cancels and joins all of its fibers before it returns, and a
// Scheduler does so in its destructor.
//
// Cancellation is structured. A fiber is cancelled when its group is stopped: because a fiber of
// the group failed, because the group's owner left, or because run() ends. An operation of a
// cancelled fiber throws Cancelled where it would have to wait or give way, and so does the next
// such operation. An operation that a peer has completed returns normally. Do not catch Cancelled:
// destructors clean up. While they do, their own waits are shielded (error.h).
//
// Errors: an exception that leaves a fiber of go() stops the root group, and run() or
// Scheduler::join() rethrows it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "leat/csp/base/unique_function.h"
#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/csp/wait/identity.h"

namespace leat {

/// Options of a scheduler.
struct SchedulerOptions {
  /// The number of workers: OS threads that run fibers. 0: as many as the CPUs that this process
  /// may use (affinity mask, cgroup quota). At most 4096.
  int workers = 0;
  /// The clock; null is real time. It must outlive the scheduler; no other one uses it meanwhile.
  VirtualClock* clock = nullptr;
  /// The size in bytes of a fiber's stack, unless GoOptions::stack_size says otherwise.
  std::size_t stack_size = std::size_t{64} << 10;
  /// The number of blocking() calls that run at a time, each on a thread of its own; 1 to 4096.
  int io_threads = 64;
  /// While the scheduler lives, SIGQUIT (Ctrl-\) prints dump() to stderr, and the process goes on.
  bool dump_on_sigquit = false;
  /// Decides which of several ready cases a select takes. 0: another seed for each scheduler, from
  /// the operating system; with a virtual clock always the same.
  ///
  /// With one worker and a virtual clock, a seed other than 0 also decides which of the fibers that
  /// can run comes next. Then equal seeds give equal runs: a loop over seeds finds an order in
  /// which a program fails, and the same seed repeats that order.
  std::uint64_t seed = 0;
  /// How long all fibers wait, with nothing in sight to wake one, before run() throws Deadlock: a
  /// plain thread may be about to use one of their channels for the first time. With a virtual
  /// clock it throws at once. At least 0.
  Duration deadlock_after = std::chrono::seconds(1);
};

/// Options of one fiber.
struct GoOptions {
  /// The fiber's name in reports.
  std::string name = {};
  /// Keeps the fiber on one worker for life: for code that keeps state in the thread (OpenMP,
  /// cuBLAS handles, thread-locals).
  bool pinned = false;
  /// The size of the stack in bytes; 0 is SchedulerOptions::stack_size. The kernel commits only the
  /// pages that are touched. The stack is guarded against overflow.
  std::size_t stack_size = 0;
};

/// Runs fibers on threads of its own. For a program that keeps its own main thread, such as a
/// trainer that Leat is plugged into. Otherwise run() is simpler.
///
/// Thread-safe, except construction and destruction. The destructor cancels and joins every fiber,
/// and must not run on one of them.
class Scheduler {
 public:
  /// Starts the workers. An idle scheduler makes no wake-ups. Throws std::invalid_argument for an
  /// option out of range, std::logic_error for a VirtualClock that is in use, leat::Error if a
  /// thread cannot be started.
  explicit Scheduler(const SchedulerOptions& options = {});
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Launches `body` as a fiber of the root group. An exception that leaves it stops the root
  /// group, and join() rethrows it. Any thread may call go(). Throws leat::Error if there is no
  /// memory for a stack.
  template <class F>
  void go(F&& body, GoOptions options = {}) {
    launch(UniqueFunction<void()>(std::forward<F>(body)), std::move(options));
  }
  /// Waits until the root group has no fiber, then rethrows the first exception that left one. Each
  /// exception is rethrown once: afterwards the group is as new, and fibers can be launched. Called
  /// on a plain thread or on a fiber of another scheduler; on a fiber of this one, throws
  /// std::logic_error.
  void join();

  /// Returns a report: one line about the scheduler, and one about each fiber: its name, what it
  /// waits for and since when.
  [[nodiscard]] std::string dump() const;
  /// Returns the clock of the scheduler's fibers: SchedulerOptions::clock, or the machine's.
  [[nodiscard]] const Clock& clock() const noexcept;
  /// Returns the number of workers.
  [[nodiscard]] int workers() const noexcept;
  /// Returns the implementation, for other libraries of Leat.
  [[nodiscard]] const std::shared_ptr<SchedulerCore>& core() const noexcept { return core_; }

 private:
  void launch(UniqueFunction<void()>&& body, GoOptions&& options);

  std::shared_ptr<SchedulerCore> core_;
};

/// Runs `f` as the first fiber of a new scheduler, and returns what `f` returns. That fiber is
/// pinned to the calling thread, which is a worker meanwhile, and has a stack of 8 MiB.
///
/// When `f` returns or throws, every other fiber is cancelled and joined. Then run() rethrows the
/// first exception that left `f` or a fiber started with go(). Throws Deadlock if all fibers wait
/// and nothing can wake one (error.h says when), Cancelled if `f` throws it without having been
/// cancelled, std::logic_error on a fiber, and otherwise as Scheduler's constructor.
template <class F>
std::invoke_result_t<F&> run(F&& f, const SchedulerOptions& options = {});

/// Launches `body` as a fiber of the current scheduler's root group. An exception that leaves it
/// cancels the whole run, and run() rethrows it. To wait for fibers, use a TaskGroup. Throws
/// std::logic_error outside a fiber, leat::Error if there is no memory for a stack.
template <class F>
void go(F&& body, GoOptions options = {});

/// Lets the other fibers that can run go first. On a plain thread, yields the CPU. Not a
/// cancellation point.
void yield() noexcept;

/// Waits until everything that can happen at this instant of virtual time has happened: all timers
/// that are due have fired, and all other fibers of the caller's scheduler wait. For a fiber that
/// chooses among what becomes ready at one instant. Takes no virtual time.
///
/// Several callers return one at a time, in the order of their calls: each sees what the one before
/// it has caused, since it returns when all others wait again. A fiber that calls settle() in an
/// endless loop keeps virtual time from advancing. settle() does not wait for plain threads or
/// other schedulers.
///
/// In real time, and on a plain thread, as yield(). Throws Cancelled, in real time as well.
void settle();

/// Suspends the calling fiber, or blocks the calling plain thread, for `length`. Returns at once if
/// `length` is not positive. Throws Cancelled.
void sleep_for(Duration length);
/// As sleep_for(), until the caller's clock (leat::now()) shows `at`.
void sleep_until(TimePoint at);

/// Returns Scheduler::dump() of the calling fiber's scheduler. Throws std::logic_error on a plain
/// thread. See also SchedulerOptions::dump_on_sigquit.
[[nodiscard]] std::string dump();

/// A guard: while it lives, the calling fiber's scheduler reports no deadlock. For a wait that
/// something outside the scheduler ends, such as a plain thread or a driver. On a plain thread it
/// has no effect.
class OutsideWork {
 public:
  /// Begins the outside work of the calling fiber's scheduler.
  [[nodiscard]] OutsideWork() noexcept;
  /// Ends the outside work.
  ~OutsideWork();
  OutsideWork(const OutsideWork&) = delete;
  OutsideWork& operator=(const OutsideWork&) = delete;

 private:
  std::shared_ptr<SchedulerCore> core_;
};

/// A guard: while it lives, cancellation of the calling fiber is remembered but not delivered. For
/// clean-up that has to wait. In a deadlock the shield gives way, because nothing else could end it
/// (see Deadlock). Shields nest. The same fiber makes and destroys one. On a plain thread it has no
/// effect.
class Shield {
 public:
  /// Begins to shield the calling fiber.
  [[nodiscard]] Shield() noexcept;
  /// Ends the shield. A cancellation that came meanwhile is delivered at the next wait.
  ~Shield();
  Shield(const Shield&) = delete;
  Shield& operator=(const Shield&) = delete;
};

/// A guard for a wait that fibers of `scheduler` will end. If the caller is a fiber of another
/// scheduler, that one cannot see them: it reports no deadlock while the guard lives. No effect on
/// a fiber of `scheduler` itself and on a plain thread. Made and destroyed on the same fiber.
class ExpectWakeFrom {
 public:
  /// Begins to expect a wake-up by a fiber of `scheduler`.
  [[nodiscard]] explicit ExpectWakeFrom(const SchedulerCore& scheduler) {
    const SchedulerCore* const caller = calling_scheduler();
    if (caller != nullptr && caller != &scheduler) outside_.emplace();
  }

 private:
  std::optional<OutsideWork> outside_;
};

/// Returns the scheduler of the calling fiber. Throws std::logic_error, which names `caller`, on a
/// plain thread. For other libraries of Leat.
[[nodiscard]] SchedulerCore& current_scheduler(const char* caller);
/// Shared ownership of current_scheduler(). Throws as that function.
[[nodiscard]] std::shared_ptr<SchedulerCore> share_current_scheduler(const char* caller);
/// Returns whether the caller is a fiber.
[[nodiscard]] bool on_fiber() noexcept;

/// run() without the type of the result.
void run_main(UniqueFunction<void()> main, const SchedulerOptions& options);
/// go() without the type of the body.
void launch_fiber(UniqueFunction<void()>&& body, GoOptions&& options);

template <class F>
std::invoke_result_t<F&> run(F&& f, const SchedulerOptions& options) {
  using Result = std::invoke_result_t<F&>;
  if constexpr (std::is_void_v<Result>) {
    bool returned = false;
    run_main(
        [&f, &returned] {
          f();
          returned = true;
        },
        options);
    if (!returned) throw Cancelled{};  // f threw it without having been cancelled
  } else {
    using Kept =
        std::conditional_t<std::is_reference_v<Result>, std::add_pointer_t<Result>, Result>;
    std::optional<Kept> result;
    run_main(
        [&f, &result] {
          if constexpr (std::is_reference_v<Result>) {
            Result reference = f();
            result.emplace(&reference);
          } else {
            result.emplace(f());
          }
        },
        options);
    if (!result.has_value()) throw Cancelled{};  // as above
    if constexpr (std::is_reference_v<Result>) {
      return static_cast<Result>(**result);
    } else {
      return *std::move(result);
    }
  }
}

template <class F>
void go(F&& body, GoOptions options) {
  launch_fiber(UniqueFunction<void()>(std::forward<F>(body)), std::move(options));
}

}  // namespace leat
