// One run of a program on simulated threads, for exploring builds. See csp/explore.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "leat/csp/base/unique_function.h"
#include "leat/csp/explore/versions.h"
#include "leat/csp/fiber/context.h"
#include "leat/csp/fiber/stack.h"
#include "leat/csp/sched/worker.h"

namespace leat {

/// A point at which a run can go on in several ways (alternatives).
struct ChoicePoint {
  /// The number of alternatives. The first one is that the running thread goes on.
  std::size_t count;
  /// The first `free` alternatives are no preemptions.
  std::size_t free;
  /// The threads of the first `awake` alternatives can run. Those of the others sleep, and would be
  /// woken by their deadline.
  std::size_t awake;
  /// The thread that each alternative runs; empty if the choice is between values.
  std::span<const int> threads;
  /// A hash of the program's state: from equal states, equal choices lead to equal runs.
  std::uint64_t state;
};

/// Decides which alternative a run takes at each choice point.
class Strategy {
 public:
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;
  /// Returns the alternative to take: a number below point.count.
  virtual std::size_t choose(const ChoicePoint& point) = 0;
};

/// Pairs of a choice's index and the alternative taken there. The indices grow; at a choice that is
/// not listed, alternative 0 was taken.
using Decisions = std::vector<std::pair<std::uint64_t, std::size_t>>;

/// The simulated machine: its threads, its clock, and the switches between threads.
///
/// Each thread has a history: a hash of everything that it has read so far, where a value is
/// identified by the history of the thread that wrote it. The histories of all threads, and what
/// they have written, make up the state: two orders of independent steps lead to equal states.
class Simulation {
 public:
  explicit Simulation(std::uint64_t max_steps) : max_steps_(max_steps) {}
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation();

  /// Runs `program` on the first thread, until all threads have ended or one has failed. Returns
  /// how it failed, or an empty string. An exception that leaves `program` is a failure.
  std::string run(UniqueFunction<void()> program, Strategy& strategy);
  /// Returns the decisions of the last run.
  [[nodiscard]] const Decisions& decisions() const noexcept { return decisions_; }
  /// Returns the state at its end; equal for two runs if they read and wrote the same.
  [[nodiscard]] std::uint64_t state() const noexcept { return state_; }
  [[nodiscard]] std::uint64_t choices() const noexcept { return choices_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  /// The simulation that runs the caller. Null outside of one, and in the simulation's own code.
  [[nodiscard]] static Simulation* current() noexcept { return current_simulation; }

  /// Makes `simulation` the one that runs the caller, and returns the one before.
  static Simulation* exchange_current(Simulation* simulation) noexcept {
    return std::exchange(current_simulation, simulation);
  }

  // Called by the running thread: the functions of csp/base/hooks.h.
  void sched_point() noexcept { go_on(); }
  void accessed(const void* object, bool changed) noexcept;
  void before_lock(const std::atomic<std::uint32_t>& word) noexcept;
  void pause() noexcept;
  void spin() noexcept;
  std::size_t choose(std::size_t count) noexcept;
  std::int64_t now() noexcept;
  std::uint64_t cycles() noexcept;
  void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::int64_t deadline) noexcept;
  void wake(const void* word, bool all) noexcept;
  int start(UniqueFunction<void()> body);
  void join(int thread) noexcept { wait_for(thread, State::kJoining); }
  void wait_until_asleep(int thread) noexcept { wait_for(thread, State::kWatching); }
  [[noreturn]] void fail(std::string what) noexcept;

 private:
  static constexpr std::int64_t kNever = INT64_MAX;
  static constexpr std::size_t kMostThreads = 32;
  // The simulated length of one turn of a spinning loop.
  static constexpr std::uint64_t kCyclesPerSpin = 2000;
  // Where all threads that can run spin, time passes after this many pauses.
  static constexpr int kPausesBeforeTime = 100;

  enum class State : std::uint8_t { kReady, kLocked, kPaused, kAsleep, kJoining, kWatching, kDone };
  struct Thread {
    Simulation* simulation = nullptr;
    int index = 0;
    Context context;
    StackSpan stack;
    UniqueFunction<void()> body;
    State state = State::kDone;
    const std::atomic<std::uint32_t>* lock = nullptr;  // kLocked: until it is 0
    std::uint64_t paused_at = 0;                       // kPaused: until changes_ differs
    const void* asleep_on = nullptr;                   // kAsleep: until woken, or deadline
    std::int64_t deadline = kNever;
    int joins = 0;  // kJoining: until this thread is done; kWatching: or asleep
    std::uint64_t history = 0;
    std::uint64_t spins = 0;
    Worker* worker = nullptr;  // the thread-local Worker::current(), while it does not run
  };

  static void entry(void* thread);
  [[nodiscard]] Thread& self() noexcept { return threads_[static_cast<std::size_t>(running_)]; }
  [[nodiscard]] Thread& after_self(std::size_t offset) noexcept;
  [[nodiscard]] bool can_run(const Thread& thread) const noexcept;
  void go_on() noexcept;
  void wait_for(int thread, State how) noexcept;
  Thread& pick() noexcept;
  Thread& pick_idle() noexcept;
  std::size_t decide(const ChoicePoint& point) noexcept;
  void switch_to(Thread& next) noexcept;
  void learn(Thread& thread, std::uint64_t what) noexcept;
  void pass_time(std::int64_t until) noexcept;
  [[nodiscard]] bool next_deadline(std::int64_t& earliest) const noexcept;
  [[nodiscard]] std::string describe_hang() const;

  static inline Simulation* current_simulation = nullptr;

  const std::uint64_t max_steps_;
  Strategy* strategy_ = nullptr;
  StackPool stacks_{std::size_t{256} << 10};
  std::array<Thread, kMostThreads> threads_;
  std::size_t count_ = 0;
  int running_ = 0;
  Context main_;
  Context::ExceptionState* exceptions_ = nullptr;
  std::string failure_;

  std::array<int, kMostThreads> candidates_{};
  Decisions decisions_;
  std::uint64_t choices_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t changes_ = 0;  // to any object, by any thread
  int idle_pauses_ = 0;        // since the last change
  std::int64_t now_ = 0;
  std::uint64_t clock_version_ = 0;
  std::uint64_t state_ = 0;
  Versions versions_;
};

}  // namespace leat
