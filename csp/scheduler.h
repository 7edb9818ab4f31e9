// Fibers: run, go, sleep, yield; and the scheduler for embedding Leat into a program of one's own.
//
// Example
//   int answer = leat::run([] {
//     leat::Channel<int> c(0, "answers");
//     leat::go([c] { c.send(42); });
//     return c.recv().value();
//   });
//
// Fibers are cheap (a stack of 64 KiB, committed as touched), not preempted, and move between the
// workers, which are OS threads: what hangs on the thread (errno, thread-locals, CUDA's current
// device, OpenMP) does not survive an operation that may park. GoOptions::pinned is the answer for
// code that needs it.
//
// Cancellation is structured. A fiber is cancelled when its group is stopped: because a fiber of
// the group failed, because the group's owner left, or because run() ends. It is delivered as the
// exception Cancelled, only where an operation would have to wait, and again at the next such
// place; an operation that a peer has completed returns normally. Let it pass: destructors do the
// rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "leat/csp/clock.h"
#include "leat/csp/error.h"
#include "leat/csp/wait/unique_function.h"

namespace leat {

class SchedulerCore;

/// Options of a scheduler.
struct SchedulerOptions {
  /// OS threads that run fibers. 0: as many as this process may use CPUs (affinity mask, cgroup
  /// quota). At most 4096.
  int workers = 0;
  /// Null: real time. Otherwise this clock, which must outlive the scheduler and serve no other.
  VirtualClock* clock = nullptr;
  /// Bytes of stack of a fiber that asks for nothing else.
  std::size_t stack_size = std::size_t{64} << 10;
  /// Calls of blocking() that run at a time, each on a thread of its own; 1 to 4096.
  int io_threads = 64;
  /// SIGQUIT (Ctrl-\) prints dump() to stderr, and does not end the process meanwhile.
  bool dump_on_sigquit = false;
  /// Decides select's choices among ready cases and, unless it is 0, with one worker and a virtual
  /// clock, which of the fibers that can run comes next. There equal seeds give equal runs: of a
  /// program that works with some orders and fails with others, a loop over seeds finds one that
  /// fails, and that seed brings it back.
  std::uint64_t seed = 0;
};

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

/// Runs fibers on threads of its own. For a program that keeps its own main thread (a trainer that
/// Leat is plugged into); otherwise run() is simpler.
///
/// Thread-safe, except construction and destruction. The destructor cancels and joins every fiber,
/// and must not run on one of them.
class Scheduler {
 public:
  /// Starts the workers. An idle scheduler makes no wake-ups. Throws std::invalid_argument for an
  /// impossible number of workers, std::logic_error for a VirtualClock that is in use, leat::Error
  /// where a thread cannot be started.
  explicit Scheduler(const SchedulerOptions& options = {});
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Launches a fiber into the root group. What escapes from it stops the root group; join()
  /// rethrows it. Callable from any thread. Throws leat::Error where there is no memory for a
  /// stack.
  template <class F>
  void go(F&& body, GoOptions options = {}) {
    launch(UniqueFunction<void()>(std::forward<F>(body)), std::move(options));
  }
  /// Waits until the root group has no fiber, then rethrows the first error that escaped from one.
  /// From a plain thread, or from a fiber of another scheduler.
  void join();

  /// One line about the scheduler and one about each fiber: name, what it waits for and since when.
  [[nodiscard]] std::string dump() const;
  /// The clock of its fibers: SchedulerOptions::clock, or the machine's.
  [[nodiscard]] const Clock& clock() const noexcept;
  /// OS threads that run fibers.
  [[nodiscard]] int workers() const noexcept;
  /// The scheduler's inside, for other libraries of Leat.
  [[nodiscard]] const std::shared_ptr<SchedulerCore>& core() const noexcept { return core_; }

 private:
  void launch(UniqueFunction<void()>&& body, GoOptions&& options);

  std::shared_ptr<SchedulerCore> core_;
};

/// Runs `f` as the first fiber of a new scheduler, pinned to the calling thread with a stack of
/// 8 MiB, and returns what it returns. The calling thread is one of the workers meanwhile.
///
/// When `f` returns or throws, every other fiber is cancelled and joined. Rethrows the first
/// exception that left `f` or a fiber started with go(); throws Deadlock when all fibers wait and
/// nothing can wake them (error.h says when that is certain); Cancelled if `f` throws it though
/// nobody asked it to stop. Throws std::logic_error inside another run.
template <class F>
std::invoke_result_t<F&> run(F&& f, const SchedulerOptions& options = {});

/// Launches `body` as a fiber of the current scheduler's root group. An exception that leaves it
/// cancels the whole run, and run() rethrows it. Throws std::logic_error outside a fiber,
/// leat::Error where there is no memory for a stack. Use a TaskGroup to wait for fibers.
template <class F>
void go(F&& body, GoOptions options = {});

/// Lets the other ready fibers run first. On a plain thread: yields the CPU. No cancellation point.
void yield() noexcept;

/// Suspends the calling fiber for `length`; blocks the calling thread, if it is no fiber. Returns
/// at once if `length` is not positive. Throws Cancelled.
void sleep_for(Duration length);
/// As sleep_for, until the scheduler's clock shows `at`.
void sleep_until(TimePoint at);

/// Scheduler::dump() of the calling fiber's scheduler. Throws std::logic_error on a plain thread.
/// See also SchedulerOptions::dump_on_sigquit.
[[nodiscard]] std::string dump();

/// While one lives, the scheduler does not report a deadlock: something that it cannot see (a plain
/// thread, a driver) will wake its fibers. Made on a fiber, of that fiber's scheduler; on a plain
/// thread it has no effect.
class OutsideWork {
 public:
  /// Begins the outside work.
  OutsideWork() noexcept;
  ~OutsideWork();
  OutsideWork(const OutsideWork&) = delete;
  OutsideWork& operator=(const OutsideWork&) = delete;

 private:
  std::shared_ptr<SchedulerCore> core_;
};

/// While one lives, cancellation of the calling fiber is remembered but not delivered: for clean-up
/// that has to wait. Gives way in a deadlock, which nothing else could end (see Deadlock). Nests.
/// No effect on a plain thread. Must be destroyed by the fiber that made it.
class Shield {
 public:
  /// Begins to shield the calling fiber.
  Shield() noexcept;
  ~Shield();
  Shield(const Shield&) = delete;
  Shield& operator=(const Shield&) = delete;
};

/// The scheduler of the calling fiber. Throws std::logic_error, naming `caller`, on a plain thread.
[[nodiscard]] SchedulerCore& current_scheduler(const char* caller);
/// Shared ownership of it. Throws likewise.
[[nodiscard]] std::shared_ptr<SchedulerCore> share_current_scheduler(const char* caller);
/// True on a fiber.
[[nodiscard]] bool on_fiber() noexcept;

/// run(), once the type of the result is taken care of.
void run_main(UniqueFunction<void()> main, const SchedulerOptions& options);
/// go(), once the type of the body is taken care of.
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
    if (!returned) throw Cancelled{};  // f threw it, though nobody had asked it to stop
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
    if (!result.has_value()) throw Cancelled{};  // likewise
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
