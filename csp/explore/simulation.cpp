#include "leat/csp/explore/simulation.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "leat/csp/base/assert.h"
#include "leat/csp/base/random.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/context_jump.h"
#include "leat/csp/fiber/safepoint.h"

namespace leat {
namespace {

// Not 0: real time is not 0 either.
constexpr std::int64_t kStartOfTime = 1'000'000'000;

std::string describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (const Cancelled&) {
    return "Cancelled";
  } catch (...) {
    return "an exception of unknown type";
  }
}

[[noreturn]] void on_terminate() noexcept {
  if (Simulation* const simulation = Simulation::current()) {
    const std::exception_ptr error = std::current_exception();
    simulation->fail("std::terminate" + (error != nullptr ? ": " + describe(error) : ""));
  }
  std::abort();
}

}  // namespace

// ---- histories

void Simulation::learn(Thread& thread, std::uint64_t what) noexcept {
  const auto term = [&] { return mix(thread.history + static_cast<std::uint64_t>(thread.index)); };
  state_ -= term();
  thread.history = mix(thread.history + what * kRandomStep + 1);
  state_ += term();
}

void Simulation::accessed(const void* object, bool changed) noexcept {
  std::uint64_t& version = versions_.at(object);
  learn(self(), version);
  if (!changed) return;
  state_ -= version;
  version = mix(self().history ^ kRandomStep);
  state_ += version;
  ++changes_;
  idle_pauses_ = 0;
}

// ---- which thread runs

bool Simulation::can_run(const Thread& thread) const noexcept {
  switch (thread.state) {
    case State::kReady: return true;
    case State::kLocked: return thread.lock->load(std::memory_order_relaxed) == 0;
    case State::kPaused: return thread.paused_at != changes_;
    case State::kJoining:
      return threads_[static_cast<std::size_t>(thread.joins)].state == State::kDone;
    case State::kWatching: {
      const State other = threads_[static_cast<std::size_t>(thread.joins)].state;
      return other == State::kAsleep || other == State::kDone;
    }
    case State::kAsleep:
    case State::kDone: return false;
  }
  return false;
}

Simulation::Thread& Simulation::after_self(std::size_t offset) noexcept {
  return threads_[(static_cast<std::size_t>(running_) + offset) % count_];
}

// Whether any thread sleeps until a deadline, and the earliest one.
bool Simulation::next_deadline(std::int64_t& earliest) const noexcept {
  earliest = kNever;
  for (std::size_t i = 0; i < count_; ++i) {
    if (threads_[i].state == State::kAsleep) earliest = std::min(earliest, threads_[i].deadline);
  }
  return earliest != kNever;
}

void Simulation::pass_time(std::int64_t until) noexcept {
  now_ = std::max(now_, until);
  state_ -= clock_version_;
  clock_version_ = mix(clock_version_ + static_cast<std::uint64_t>(now_));
  state_ += clock_version_;
  ++changes_;
  idle_pauses_ = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    Thread& thread = threads_[i];
    if (thread.state != State::kAsleep || thread.deadline > now_) continue;
    thread.state = State::kReady;
    learn(thread, clock_version_);
  }
}

// Chooses the thread that runs next, which may be the running one.
Simulation::Thread& Simulation::pick() noexcept {
  std::size_t count = 0;
  // Part of the state: the threads that can run, and those that may be woken by their deadline.
  std::uint64_t candidates = 0;
  for (std::size_t offset = 0; offset < count_; ++offset) {
    const Thread& thread = after_self(offset);
    if (!can_run(thread)) continue;
    candidates_[count++] = thread.index;
    candidates |= std::uint64_t{1} << static_cast<unsigned>(thread.index);
  }
  if (count == 0) return pick_idle();
  const std::size_t awake = count;
  const std::size_t free = candidates_[0] == running_ ? 1 : count;
  for (std::size_t offset = 1; offset < count_; ++offset) {
    const Thread& thread = after_self(offset);
    if (thread.state != State::kAsleep || thread.deadline == kNever) continue;
    candidates_[count++] = thread.index;
    candidates |= std::uint64_t{1} << static_cast<unsigned>(32 + thread.index);
  }
  if (count == 1) return threads_[static_cast<std::size_t>(candidates_[0])];
  const std::size_t choice =
      decide({.count = count,
              .free = free,
              .awake = awake,
              .threads = {candidates_.data(), count},
              .state = mix(state_ + mix(candidates) + static_cast<std::uint64_t>(running_))});
  Thread& chosen = threads_[static_cast<std::size_t>(candidates_[choice])];
  if (chosen.state == State::kAsleep) pass_time(chosen.deadline);
  return chosen;
}

// Called when no thread can run, except threads that spin. There is no choice: either a spinning
// thread runs, which changes nothing, or time passes.
Simulation::Thread& Simulation::pick_idle() noexcept {
  std::int64_t earliest = kNever;
  const bool a_thread_sleeps = next_deadline(earliest);
  if (!a_thread_sleeps || idle_pauses_ < kPausesBeforeTime) {
    for (std::size_t offset = 1; offset <= count_; ++offset) {
      Thread& thread = after_self(offset);
      if (thread.state != State::kPaused) continue;
      ++idle_pauses_;
      return thread;
    }
  }
  if (!a_thread_sleeps) fail(describe_hang());
  pass_time(earliest);
  return pick();
}

std::size_t Simulation::decide(const ChoicePoint& point) noexcept {
  Simulation* const simulation = std::exchange(current_simulation, nullptr);
  const std::size_t choice = strategy_->choose(point);
  current_simulation = simulation;
  if (choice >= point.count) fail("the schedule is not one of this program");
  if (choice != 0) decisions_.emplace_back(choices_, choice);
  ++choices_;
  return choice;
}

void Simulation::go_on() noexcept {
  if (++steps_ > max_steps_) {
    fail("no end after " + std::to_string(max_steps_) + " steps: a livelock, or max_steps is low");
  }
  switch_to(pick());
  learn(self(), 0);  // a step of its own, so that two choices in a row differ from one
}

void Simulation::switch_to(Thread& next) noexcept {
  Thread& left = self();
  if (&next == &left) return;
  left.worker = Worker::current();
  left.context.adopt_current_thread();  // it may be on a fiber's stack, not always the same one
  running_ = next.index;
  left.context.switch_to(next.context, exceptions_);
  Worker::set_current(left.worker);
}

// ---- what threads do

void Simulation::before_lock(const std::atomic<std::uint32_t>& word) noexcept {
  Thread& thread = self();
  thread.lock = &word;
  thread.state = State::kLocked;
  go_on();
  thread.state = State::kReady;
  accessed(&word, true);
}

void Simulation::pause() noexcept {
  Thread& thread = self();
  thread.paused_at = changes_;
  thread.state = State::kPaused;
  go_on();
  thread.state = State::kReady;
}

void Simulation::spin() noexcept {
  ++self().spins;
  learn(self(), 0);
}

std::size_t Simulation::choose(std::size_t count) noexcept {
  const std::size_t choice = decide({.count = count,
                                     .free = count,
                                     .awake = count,
                                     .threads = {},
                                     .state = mix(state_ + ~static_cast<std::uint64_t>(running_))});
  learn(self(), choice);
  return choice;
}

std::int64_t Simulation::now() noexcept {
  learn(self(), clock_version_);
  return now_;
}

std::uint64_t Simulation::cycles() noexcept {
  return static_cast<std::uint64_t>(now()) + self().spins * kCyclesPerSpin;
}

void Simulation::sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                          std::int64_t deadline) noexcept {
  go_on();
  accessed(&word, false);
  if (word.load(std::memory_order_relaxed) != expected || deadline <= now_) return;
  Thread& thread = self();
  thread.asleep_on = &word;
  thread.deadline = deadline;
  thread.state = State::kAsleep;
  go_on();
}

void Simulation::wake(const void* word, bool all) noexcept {
  go_on();
  accessed(word, true);
  for (std::size_t i = 0; i < count_; ++i) {
    Thread& thread = threads_[i];
    if (thread.state != State::kAsleep || thread.asleep_on != word) continue;
    thread.state = State::kReady;
    learn(thread, self().history);
    if (!all) return;
  }
}

// ---- start and end of threads

int Simulation::start(UniqueFunction<void()> body) {
  LEAT_ASSERT(count_ < kMostThreads, "an explored program has at most 32 threads");
  Simulation* const simulation = std::exchange(current_simulation, nullptr);
  Thread& thread = threads_[count_];
  if (thread.stack.low == nullptr) thread.stack = stacks_.allocate(0);
  thread.simulation = this;
  thread.index = static_cast<int>(count_);
  thread.context.prepare(thread.stack, &Simulation::entry, &thread);
  thread.body = std::move(body);
  thread.state = State::kReady;
  thread.history = 0;
  thread.spins = 0;
  thread.worker = nullptr;
  state_ += mix(static_cast<std::uint64_t>(thread.index));
  if (count_++ > 0) learn(thread, self().history);
  current_simulation = simulation;
  return thread.index;
}

void Simulation::entry(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  Simulation& simulation = *thread.simulation;
  Worker::set_current(nullptr);
  std::string failure;
  try {
    thread.body();
  } catch (...) {
    failure = describe(std::current_exception());
  }
  if (!failure.empty()) simulation.fail(std::move(failure));
  thread.body = {};
  std::string().swap(failure);
  simulation.go_on();
  thread.state = State::kDone;
  simulation.learn(thread, 0);
  ++simulation.changes_;
  const bool all_done =
      std::all_of(simulation.threads_.begin(),
                  simulation.threads_.begin() + static_cast<std::ptrdiff_t>(simulation.count_),
                  [](const Thread& one) { return one.state == State::kDone; });
  if (all_done) thread.context.exit_to(simulation.main_, simulation.exceptions_);
  Thread& next = simulation.pick();
  simulation.running_ = next.index;
  thread.context.exit_to(next.context, simulation.exceptions_);
}

void Simulation::wait_for(int index, State how) noexcept {
  Thread& thread = self();
  thread.joins = index;
  thread.state = how;
  go_on();
  thread.state = State::kReady;
  learn(thread, threads_[static_cast<std::size_t>(index)].history);
}

void Simulation::fail(std::string what) noexcept {
  failure_ = std::move(what);
  self().context.exit_to(main_, exceptions_);
}

std::string Simulation::run(UniqueFunction<void()> program, Strategy& strategy) {
  strategy_ = &strategy;
  for (std::size_t i = 0; i < count_; ++i) threads_[i].context.discard();
  count_ = 0;
  running_ = 0;
  decisions_.clear();
  choices_ = steps_ = changes_ = 0;
  idle_pauses_ = 0;
  now_ = kStartOfTime;
  clock_version_ = state_ = 0;
  versions_.clear();
  failure_.clear();

  start(std::move(program));
  exceptions_ = Context::exceptions_of_thread();
  main_.adopt_current_thread();
  const std::terminate_handler previous = std::set_terminate(&on_terminate);
  current_simulation = this;
  main_.switch_to(threads_[0].context, exceptions_);
  current_simulation = nullptr;
  std::set_terminate(previous);
  Worker::set_current(nullptr);
  if (!failure_.empty()) {
    // The run is abandoned: the program's closures, and the objects that they own, are leaked.
    for (std::size_t i = 0; i < count_; ++i)
      new UniqueFunction<void()>(std::move(threads_[i].body));
    Safepoint::forget();
  }
  return failure_;
}

Simulation::~Simulation() {
  for (const Thread& thread : threads_) {
    if (thread.stack.low != nullptr) stacks_.release(thread.stack);
  }
}

std::string Simulation::describe_hang() const {
  std::string text = "hang:";
  for (std::size_t i = 0; i < count_; ++i) {
    text += i == 0 ? " thread " : ", thread ";
    text += std::to_string(i);
    switch (threads_[i].state) {
      case State::kReady: text += " can run"; break;
      case State::kLocked: text += " waits for a lock"; break;
      case State::kPaused: text += " spins"; break;
      case State::kAsleep: text += " sleeps"; break;
      case State::kJoining: text += " joins thread " + std::to_string(threads_[i].joins); break;
      case State::kWatching:
        text += " waits for thread " + std::to_string(threads_[i].joins);
        break;
      case State::kDone: text += " has ended"; break;
    }
  }
  return text;
}

}  // namespace leat
