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

#include "leat/csp/fiber/context.h"
#include "leat/csp/fiber/stack.h"
#include "leat/csp/sched/worker.h"
#include "leat/csp/wait/unique_function.h"

namespace leat {

/// A place where a run can go on in several ways.
struct ChoicePoint {
  /// How many ways. The first is: go on.
  std::size_t count;
  /// The first so many cost no preemption.
  std::size_t free;
  /// The first so many can run; the others sleep, and are woken by their deadline.
  std::size_t awake;
  /// Which thread each of them runs; empty if it is a value that is chosen.
  std::span<const int> threads;
  /// Equal states have equal futures.
  std::uint64_t state;
};

/// Chooses.
class Strategy {
 public:
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;
  /// A number below point.count.
  virtual std::size_t choose(const ChoicePoint& point) = 0;
};

/// Which alternative was taken at which choice; those that are not listed are 0. The indices grow.
using Decisions = std::vector<std::pair<std::uint64_t, std::size_t>>;

/// What every address was last changed by: a hash table that is emptied at once.
class Versions {
 public:
  Versions() : slots_(kFirstSize) {}
  std::uint64_t& at(const void* object);
  void clear() noexcept;

 private:
  static constexpr std::size_t kFirstSize = 4096;
  struct Slot {
    const void* object = nullptr;
    std::uint64_t epoch = 0;
    std::uint64_t version = 0;
  };
  void grow();

  std::vector<Slot> slots_;
  std::uint64_t epoch_ = 1;
  std::size_t used_ = 0;
};

/// The simulated machine: its threads, its clock, and who runs.
///
/// Each thread has a history: a hash of all that it has read so far, where what is read is known by
/// the history of who has written it. The threads' histories and what they have written make up the
/// state: two orders of independent steps lead to equal ones.
class Simulation {
 public:
  explicit Simulation(std::uint64_t max_steps) : max_steps_(max_steps) {}
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation();

  /// Runs `program` on the first thread, until all threads have ended or one has failed: how;
  /// empty: it has not. What `program` throws is a failure.
  std::string run(UniqueFunction<void()> program, Strategy& strategy);
  /// Of the last run.
  [[nodiscard]] const Decisions& decisions() const noexcept { return decisions_; }
  /// At its end; equal if the same was read and written.
  [[nodiscard]] std::uint64_t state() const noexcept { return state_; }
  [[nodiscard]] std::uint64_t choices() const noexcept { return choices_; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  /// The one that is running; null if none is, or if it is at work itself.
  [[nodiscard]] static Simulation* current() noexcept { return current_simulation; }

  // By the running thread; csp/explore/hooks.h.
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
  void join(int thread) noexcept;
  void wait_until_asleep(int thread) noexcept;
  [[noreturn]] void fail(std::string what) noexcept;

 private:
  static constexpr std::int64_t kNever = INT64_MAX;
  static constexpr std::size_t kMostThreads = 32;
  // One turn of a spinning loop takes so long.
  static constexpr std::uint64_t kCyclesPerSpin = 2000;
  // Everybody spins: after so many pauses it is time that must pass.
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
    std::uint64_t paused_at = 0;                       // kPaused: until changes_ is another
    const void* asleep_on = nullptr;                   // kAsleep: until woken, or deadline
    std::int64_t deadline = kNever;
    int joins = 0;  // kJoining: until that one is done; kWatching: or asleep
    std::uint64_t history = 0;
    std::uint64_t spins = 0;
    Worker* worker = nullptr;  // what the thread-locals say, while it does not run
  };

  static void entry(void* thread);
  [[nodiscard]] Thread& self() noexcept { return threads_[static_cast<std::size_t>(running_)]; }
  [[nodiscard]] Thread& after_self(std::size_t offset) noexcept;
  [[nodiscard]] bool can_run(const Thread& thread) const noexcept;
  void go_on() noexcept;
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
  std::uint64_t changes_ = 0;  // by anybody of anything
  int idle_pauses_ = 0;        // since the last change
  std::int64_t now_ = 0;
  std::uint64_t clock_version_ = 0;
  std::uint64_t state_ = 0;
  Versions versions_;
};

}  // namespace leat
