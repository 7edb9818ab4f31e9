#include "leat/csp/scheduler_core.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "leat/csp/assert.h"
#include "leat/csp/cpu_count.h"
#include "leat/csp/error.h"
#include "leat/csp/futex.h"

namespace leat {

namespace {

// Beyond any machine; more is a mistake.
constexpr int kMostWorkers = 4096;

}  // namespace

void ReadyQueue::push(Fiber& fiber) noexcept {
  fiber.ready_next_ = nullptr;
  (last_ != nullptr ? last_->ready_next_ : first_) = &fiber;
  last_ = &fiber;
}

Fiber* ReadyQueue::pop() noexcept {
  Fiber* const fiber = first_;
  if (fiber == nullptr) return nullptr;
  first_ = fiber->ready_next_;
  if (first_ == nullptr) last_ = nullptr;
  return fiber;
}

// Neither queue goes first as a whole: a pinned fiber that yields (run's first one is pinned) would
// keep its worker from all others.
Fiber* ReadyQueue::pop_oldest(ReadyQueue& a, ReadyQueue& b) noexcept {
  if (a.empty()) return b.pop();
  if (b.empty()) return a.pop();
  return a.first_->ready_since_ < b.first_->ready_since_ ? a.pop() : b.pop();
}

SchedulerCore::SchedulerCore(const SchedulerOptions& options)
    : options_(options),
      clock_(options.clock != nullptr ? static_cast<const Clock*>(options.clock)
                                      : &SteadyClock::instance()),
      root_(std::make_shared<GroupCore>(*this)),
      stacks_(options.stack_size) {
  if (options.workers < 0 || options.workers > kMostWorkers) {
    throw std::invalid_argument("leat: a scheduler has 1 to " + std::to_string(kMostWorkers) +
                                " workers (0: one for each CPU), not " +
                                std::to_string(options.workers));
  }
  const int count = options.workers == 0 ? usable_cpus() : options.workers;
  for (int i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->core = this;
  }
  register_group(*root_);
  if (options.clock != nullptr) {
    options.clock->attach();  // last: what throws after it would leave the clock in use
    clock_attached_ = true;
  }
}

SchedulerCore::~SchedulerCore() {
  LEAT_ASSERT(threads_.empty(), "the workers were joined before the scheduler's core went");
  unregister_group(*root_);
}

void SchedulerCore::run_main(UniqueFunction<void()> main) {
  throws_deadlock_ = true;
  start_from(1);
  try {
    launch(root_,
           [this, main = std::move(main)]() mutable {
             try {
               main();
             } catch (const Cancelled&) {
               // Some fiber failed, or all were stuck: the root group knows the error.
             } catch (...) {
               // Before the others are stopped: what they throw while unwinding comes second.
               root_->fail(std::current_exception());
             }
             stop_everything();
           },
           {.name = "main", .pinned = true, .stack_size = kMainStackSize});
  } catch (...) {
    shut_down();
    throw;
  }
  work(*workers_[0]);
  join_workers();
  // Taken, because a plain thread that still holds the core would free it under the caller's feet.
  if (const std::exception_ptr error = root_->take_first_error()) std::rethrow_exception(error);
}

void SchedulerCore::start() { start_from(0); }

void SchedulerCore::start_from(std::size_t first) {
  try {
    for (std::size_t i = first; i < workers_.size(); ++i) {
      threads_.emplace_back([this, i] { work(*workers_[i]); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = first + threads_.size();
    shut_down();
    throw Error("leat: cannot start worker " + std::to_string(started + 1) + " of " +
                std::to_string(workers_.size()) + ": " + error.what() + "; ask for fewer workers");
  }
}

void SchedulerCore::shut_down() noexcept {
  stop_everything();
  join_workers();
}

void SchedulerCore::join_workers() noexcept {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  // Here and not in the destructor: a TaskGroup, or a plain thread that has just woken a fiber, may
  // hold the core for longer, and the clock is free for the next scheduler.
  if (std::exchange(clock_attached_, false)) options_.clock->detach();
}

// From here every fiber is cancelled, also those launched by the ones that unwind, and the workers
// leave when the last one is done.
void SchedulerCore::stop_everything() noexcept {
  {
    const SpinLockGuard guard(lock_);
    shutting_down_ = true;
    wake_all();
  }
  // Stopping runs the users' stop callbacks: not under a lock.
  std::vector<std::shared_ptr<GroupCore>> groups;
  {
    const SpinLockGuard guard(groups_lock_);
    for (GroupCore* group = groups_; group != nullptr; group = group->next) {
      groups.push_back(group->shared_from_this());
    }
  }
  for (const auto& group : groups) group->stop();
}

void SchedulerCore::register_group(GroupCore& group) noexcept {
  const SpinLockGuard guard(groups_lock_);
  group.previous = nullptr;
  group.next = groups_;
  if (groups_ != nullptr) groups_->previous = &group;
  groups_ = &group;
}

void SchedulerCore::unregister_group(GroupCore& group) noexcept {
  const SpinLockGuard guard(groups_lock_);
  (group.previous != nullptr ? group.previous->next : groups_) = group.next;
  if (group.next != nullptr) group.next->previous = group.previous;
}

void SchedulerCore::launch(const std::shared_ptr<GroupCore>& group, UniqueFunction<void()> body,
                           GoOptions options) {
  group->reserve();
  bool stopping = false;
  Fiber* fiber = nullptr;
  try {
    fiber = make_fiber(group, std::move(body), std::move(options), stopping);
  } catch (...) {
    group->unreserve();
    throw;
  }
  group->add(*fiber);
  if (stopping) fiber->cancel();
  enqueue(*fiber);
}

// Owned by the group until finish(). Sets `stopping` to whether it has to be cancelled.
Fiber* SchedulerCore::make_fiber(const std::shared_ptr<GroupCore>& group,
                                 UniqueFunction<void()> body, GoOptions options, bool& stopping) {
  const bool pinned = options.pinned;
  // Outside the try block: gcc 12.2 takes a variable that a throwing call was to assign for
  // assigned in the handler (gcc.gnu.org/PR109434).
  const StackSpan stack = stacks_.allocate(options.stack_size);
  std::unique_ptr<Fiber> fiber;
  try {
    fiber = std::make_unique<Fiber>(*this, group, std::move(body), std::move(options), stack,
                                    next_fiber_id_.fetch_add(1, std::memory_order_relaxed));
    const SpinLockGuard guard(lock_);
    if (shutting_down_ && live_ == 0) {
      throw std::logic_error("leat: go on a scheduler that has ended");
    }
    timers_.reserve(live_ + 1);  // so that adding a timer, which may not throw, does not allocate
    ++live_;
    stopping = shutting_down_;
    if (pinned) fiber->home_ = workers_[next_home_++ % workers_.size()].get();
  } catch (...) {
    fiber.reset();
    stacks_.release(stack);
    throw;
  }
  return fiber.release();
}

void SchedulerCore::enqueue(Fiber& fiber) noexcept {
  Worker* woken = nullptr;
  {
    const SpinLockGuard guard(lock_);
    woken = push(fiber);
  }
  if (woken != nullptr) futex_wake(&woken->wake_word);
}

// Queues the fiber and picks the idle worker, if any, that shall look at the queue.
Worker* SchedulerCore::push(Fiber& fiber) noexcept {
  fiber.ready_since_ = ++progress_;
  if (fiber.home_ != nullptr) {
    fiber.home_->pinned.push(fiber);
    if (!fiber.home_->idle) return nullptr;
    mark_busy(*fiber.home_);
    return fiber.home_;
  }
  ready_.push(fiber);
  return wake_one();
}

// A worker counts as busy from the moment somebody decides to wake it: otherwise "all idle" would
// be seen between the decision and its first look at the queue.
void SchedulerCore::mark_busy(Worker& worker) noexcept {
  worker.idle = false;
  --idle_;
  // relaxed: under lock_, as is the sleeper's read
  worker.wake_word.fetch_add(1, std::memory_order_relaxed);
}

Worker* SchedulerCore::wake_one() noexcept {
  if (idle_ == 0) return nullptr;
  Worker* chosen = nullptr;
  for (const auto& worker : workers_) {
    if (!worker->idle) continue;
    chosen = worker.get();
    if (!worker->keeps_time) break;  // the timekeeper last: it would have to be replaced
  }
  LEAT_ASSERT(chosen != nullptr, "idle_ counts the workers that are idle");
  mark_busy(*chosen);
  return chosen;
}

void SchedulerCore::wake_all() noexcept {
  for (const auto& worker : workers_) {
    if (!worker->idle) continue;
    mark_busy(*worker);
    futex_wake(&worker->wake_word);
  }
}

// Nobody is woken to keep the time: the fiber is about to park, and its worker either sleeps until
// then itself, or finds something to run and calls another (next()).
void SchedulerCore::add_timer(Timer& timer) noexcept {
  const SpinLockGuard guard(lock_);
  timers_.add(timer);
}

void SchedulerCore::remove_timer(Timer& timer) noexcept {
  const SpinLockGuard guard(lock_);
  timers_.remove(timer);
}

void SchedulerCore::begin_outside_work() noexcept {
  const SpinLockGuard guard(lock_);
  ++outside_work_;
}

void SchedulerCore::end_outside_work() noexcept {
  Worker* woken = nullptr;
  {
    const SpinLockGuard guard(lock_);
    --outside_work_;
    ++progress_;                                 // whoever was waited for may be gone:
    if (outside_work_ == 0) woken = wake_one();  // somebody looks whether all is stuck
  }
  if (woken != nullptr) futex_wake(&woken->wake_word);
}

// Claims every timer that is due and queues its fiber. Claiming under lock_ is what allows
// remove_timer to be the end of the timer's life.
void SchedulerCore::fire_due_timers() noexcept {
  if (timers_.empty()) return;
  const TimePoint now = clock_->now();
  while (!timers_.empty() && timers_.earliest() <= now) {
    Operation& operation = *timers_.pop().operation;
    if (!operation.claim(Operation::kTimedOut)) continue;
    // Only fibers have timers. The fiber may not have parked yet: make_ready says what to do.
    auto& fiber = static_cast<Fiber&>(operation.waiter());
    if (fiber.make_ready()) {
      if (Worker* const woken = push(fiber)) futex_wake(&woken->wake_word);
    }
  }
}

// Somebody idle should sleep until the earliest timer, and whoever does now would wake too late.
// Under virtual time nobody sleeps until a deadline.
bool SchedulerCore::needs_timekeeper() const noexcept {
  return !clock_->is_virtual() && !timers_.empty() && timers_.earliest() < timekeeper_until_;
}

void SchedulerCore::work(Worker& worker) noexcept {
  worker.base.adopt_current_thread();
  while (Fiber* const fiber = next(worker)) resume(worker, *fiber);
}

Fiber* SchedulerCore::next(Worker& worker) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  for (;;) {
    fire_due_timers();
    if (Fiber* const fiber = ReadyQueue::pop_oldest(worker.pinned, ready_)) {
      // While this worker is busy somebody else has to watch the clock.
      Worker* const timekeeper = needs_timekeeper() ? wake_one() : nullptr;
      lock_.unlock();
      if (timekeeper != nullptr) futex_wake(&timekeeper->wake_word);
      return fiber;
    }
    if (shutting_down_ && live_ == 0) {
      wake_all();
      lock_.unlock();
      return nullptr;
    }

    worker.idle = true;
    ++idle_;
    if (idle_ == worker_count()) {  // every fiber is parked
      if (clock_->is_virtual() && !timers_.empty()) {
        options_.clock->advance_to(timers_.earliest());
        mark_busy(worker);
        continue;
      }
      if (throws_deadlock_ && timers_.empty() && outside_work_ == 0 &&
          deadlock_sought_at_ != progress_) {
        const std::uint64_t progress = progress_;
        mark_busy(worker);
        lock_.unlock();
        const bool deadlock = end_deadlock();
        lock_.lock();
        // Where all were stuck and nobody has moved on since, the next step follows at once.
        if (progress != progress_) deadlock_steps_ = 0;
        if (!deadlock) deadlock_sought_at_ = progress;
        continue;
      }
    }
    worker.keeps_time = needs_timekeeper();
    if (worker.keeps_time) timekeeper_until_ = timers_.earliest();
    const Deadline until = worker.keeps_time ? Deadline(timekeeper_until_) : Deadline::never();
    const std::uint32_t word = worker.wake_word.load(std::memory_order_relaxed);
    lock_.unlock();
    futex_wait(worker.wake_word, word, until);
    lock_.lock();
    if (worker.keeps_time && timekeeper_until_ == until.at()) timekeeper_until_ = TimePoint::max();
    worker.keeps_time = false;
    if (worker.idle) {  // nobody woke it: its time came, or a spurious return
      worker.idle = false;
      --idle_;
    }
  }
}

void SchedulerCore::resume(Worker& worker, Fiber& fiber) noexcept {
  fiber.worker_ = &worker;
  for (;;) {
    // release: pairs with the fiber's acquire when it continues, and hands on to it what this
    // worker acquired from the ready queue: the writes of whoever made it ready.
    fiber.state_.store(FiberState::kRunning, std::memory_order_release);
    Fiber::set_current(&fiber);
    worker.base.switch_to(fiber.context_);
    Fiber::set_current(nullptr);
    switch (fiber.left_.load(std::memory_order_acquire)) {
      case Fiber::Left::kDone:
        fiber.state_.store(FiberState::kDone, std::memory_order_relaxed);
        finish(&fiber);
        return;
      case Fiber::Left::kYield:
        fiber.state_.store(FiberState::kReady, std::memory_order_relaxed);
        enqueue(fiber);
        return;
      case Fiber::Left::kPark: {
        FiberState running = FiberState::kRunning;
        // release: whoever makes it ready and runs it elsewhere needs the saved context.
        if (fiber.state_.compare_exchange_strong(running, FiberState::kParked,
                                                 std::memory_order_acq_rel)) {
          return;  // from here another worker may run it
        }
        LEAT_ASSERT(running == FiberState::kWoken, "a parking fiber is running or woken");
        break;  // ready() came first: run it on
      }
    }
  }
}

void SchedulerCore::finish(Fiber* fiber) noexcept {
  const std::shared_ptr<GroupCore> group = fiber->group_;
  const StackSpan stack = fiber->stack_;
  group->remove(*fiber);
  delete fiber;
  stacks_.release(stack);
  group->unreserve();  // wakes the joiners
  const SpinLockGuard guard(lock_);
  --live_;
  if (shutting_down_ && live_ == 0) wake_all();
}

std::string SchedulerCore::list_stuck() {
  std::string fibers;
  bool all_stuck = true;
  const SpinLockGuard guard(groups_lock_);
  for (GroupCore* group = groups_; group != nullptr; group = group->next) {
    group->for_each([&](Fiber& fiber) {
      bool stuck = false;
      fibers += "\n  " + fiber.describe(stuck);
      all_stuck = all_stuck && stuck;
    });
  }
  return all_stuck ? fibers : "";
}

bool SchedulerCore::end_deadlock() noexcept {
  const std::string fibers = list_stuck();
  if (fibers.empty()) return false;
  int step = 0;  // 0: cancel
  bool first = false;
  {
    const SpinLockGuard guard(lock_);
    step = shutting_down_ ? ++deadlock_steps_ : 0;
    first = step > 0 && !std::exchange(shields_gave_way_, true);
  }
  const std::string text = "all " + std::to_string(std::count(fibers.begin(), fibers.end(), '\n')) +
                           " fibers wait and nothing can wake them:" + fibers;
  root_->fail(std::make_exception_ptr(Deadlock("leat: deadlock: " + text)));
  if (step == 0) {
    stop_everything();
    return true;
  }
  if (first) {
    // A shield may stand in a destructor, from which no exception can leave: then the program ends
    // here, and this line is all that tells why.
    std::fprintf(stderr, "leat: deadlock, shielded from cancellation; the shields give way: %s\n",
                 text.c_str());
  }
  // First all waits are ended, then anybody runs: a fiber that runs would let others go on, whose
  // next waits are not part of the deadlock.
  std::vector<Fiber*> ended;
  {
    const SpinLockGuard guard(groups_lock_);
    for (GroupCore* group = groups_; group != nullptr; group = group->next) {
      group->for_each([&](Fiber& fiber) {
        if (fiber.break_wait(step)) ended.push_back(&fiber);
      });
    }
  }
  for (Fiber* const fiber : ended) fiber->ready();
  return true;
}

}  // namespace leat
