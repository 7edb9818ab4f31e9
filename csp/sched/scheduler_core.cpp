#include "leat/csp/sched/scheduler_core.h"

#include <cstdio>
#include <stdexcept>
#include <utility>

#include "leat/csp/base/assert.h"
#include "leat/csp/base/cpu_count.h"
#include "leat/csp/base/kept_exception.h"
#include "leat/csp/base/random.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/csp/base/start_thread.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/safepoint.h"
#include "leat/csp/fiber/stack_overflow.h"

namespace leat {

namespace {

// More than any machine has CPUs. A larger number is a mistake.
constexpr int kMostWorkers = 4096;

int checked_workers(int workers) {
  if (workers < 0 || workers > kMostWorkers) {
    throw std::invalid_argument("leat: a scheduler has 1 to " + std::to_string(kMostWorkers) +
                                " workers (0: one for each CPU), not " + std::to_string(workers));
  }
  return workers == 0 ? usable_cpus() : workers;
}

Duration checked_deadlock_after(Duration length) {
  if (length >= Duration::zero()) return length;
  throw std::invalid_argument("leat: a scheduler's deadlock_after is at least 0, not " +
                              std::to_string(length.count()) + " ns");
}

int checked_io_threads(int threads) {
  if (threads >= 1 && threads <= kMostWorkers) return threads;
  throw std::invalid_argument("leat: a scheduler has 1 to " + std::to_string(kMostWorkers) +
                              " io_threads, not " + std::to_string(threads));
}

}  // namespace

SchedulerCore::Thresholds::Thresholds(bool spins) noexcept
    : long_slice(cycles_in(tuning::kLongSlice)),
      handoff_grace(cycles_in(tuning::kHandoffGrace)),
      steal_after_few(cycles_in(tuning::kStealAfterFew)),
      steal_after_many(cycles_in(tuning::kStealAfterMany)),
      steal_payoff(cycles_in(tuning::kStealPayoff)),
      look_at_still(spins ? cycles_in(tuning::kLookAtStill) : 0),
      look_at_moving(spins ? cycles_in(tuning::kLookAtMoving) : 0),
      spin(spins ? cycles_in(tuning::kSpin) : 0),
      short_sleep(spins ? cycles_in(tuning::kShortSleep) : 0) {}

SchedulerCore::SchedulerCore(const SchedulerOptions& options)
    : options_(options),
      clock_(options.clock != nullptr ? static_cast<const Clock*>(options.clock)
                                      : &SteadyClock::instance()),
      worker_count_(checked_workers(options.workers)),
      deadlock_after_(checked_deadlock_after(options.deadlock_after)),
      seed_(options.seed != 0 || clock_->is_virtual() ? options.seed : random_seed()),
      // Spinning is useless in virtual time, and if the other thread needs this CPU.
      thresholds_(!clock_->is_virtual() && usable_cpus() > 1),
      root_(std::make_shared<GroupCore>(*this)),
      stacks_(options.stack_size),
      fibers_(*this),
      io_pool_(checked_io_threads(options.io_threads)),
      running_workers_(worker_count_) {
  prepare_heavy_fence();
  for (int i = 0; i < worker_count_; ++i) {
    workers_.push_back(std::make_unique<Worker>(*this, workers_.size()));
  }
  register_group(*root_);
  if (options.clock != nullptr) {
    options.clock->attach();  // last, because a later exception would leave the clock in use
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
    launch(*root_,
           [this, main = std::move(main)]() mutable {
             try {
               main();
             } catch (const Cancelled&) {
               // A fiber failed, or there was a deadlock: the root group has the error.
             } catch (...) {
               // Stored before the other fibers are stopped, whose errors would come first
               // otherwise.
               root_->fail(kept_exception());
             }
             stop_everything();
           },
           {.name = "main", .pinned = true, .stack_size = kMainStackSize});
  } catch (...) {
    shut_down();
    throw;
  }
  // The closure is in its fiber: the analyzer does not follow UniqueFunction's relocation.
  workers_[0]->run();  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks)
  join_workers();
  // The error is moved out of the core: a plain thread that still holds the core would otherwise
  // free the exception while the caller reads it.
  if (const std::exception_ptr error = root_->take_first_error()) std::rethrow_exception(error);
}

void SchedulerCore::start() { start_from(0); }

void SchedulerCore::start_from(std::size_t first) {
  prepare_stack_overflow_report();
  try {
    if (options_.dump_on_sigquit) {
      on_sigquit_.emplace([this] { std::fputs(dump().c_str(), stderr); });
    }
    threads_.reserve(workers_.size() - first);  // so that no thread is started and then not kept
    for (std::size_t i = first; i < workers_.size(); ++i) {
      const std::string what = "worker " + std::to_string(i + 1) + " of " +
                               std::to_string(workers_.size()) + " of a scheduler";
      threads_.push_back(start_thread<OsThread>(what, [this, i] { workers_[i]->run(); }));
    }
  } catch (...) {
    {
      const SpinLockGuard guard(lock_);
      running_workers_ =
          static_cast<int>(threads_.size());  // the caller's worker will not run either
    }
    shut_down();
    throw;
  }
}

void SchedulerCore::shut_down() noexcept {
  stop_everything();
  join_workers();
}

void SchedulerCore::join_workers() noexcept {
  for (OsThread& thread : threads_) thread.join();
  threads_.clear();
  on_sigquit_.reset();
  io_pool_.end();
  poller_.reset();  // the last to go joins its thread
  // Not in the destructor: a TaskGroup, or a plain thread that has just woken a fiber, may hold the
  // core for longer, and the clock must be free for the next scheduler.
  if (std::exchange(clock_attached_, false)) options_.clock->detach();
}

// From here every fiber is cancelled, also those that unwinding fibers launch. The workers end when
// the last fiber is done.
void SchedulerCore::stop_everything() noexcept {
  {
    const SpinLockGuard guard(lock_);
    shutting_down_.store(true, std::memory_order_relaxed);
    wake_all();
  }
  // Groups are stopped without a lock, because that runs the users' stop callbacks.
  std::shared_ptr<GroupCore> chain;
  {
    const SpinLockGuard guard(groups_lock_);
    for (GroupCore* group = groups_; group != nullptr; group = group->next) {
      // In another thread's chain, the group is stopped there.
      if (std::exchange(group->chained_to_stop, true)) continue;
      group->next_to_stop = std::exchange(chain, group->shared_from_this());
    }
  }
  while (const std::shared_ptr<GroupCore> group = std::move(chain)) {
    chain = std::move(group->next_to_stop);
    group->stop();
  }
}

std::shared_ptr<Poller> SchedulerCore::kept_poller() noexcept {
  const SpinLockGuard guard(lock_);
  return poller_;
}

void SchedulerCore::keep_poller(std::shared_ptr<Poller> poller) noexcept {
  const SpinLockGuard guard(lock_);
  poller_.swap(poller);  // with null, or with the same
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

// A fiber that is launched while everything is being stopped must be stopped too: either this
// function sees that, or the thread that stops sees the fiber. In a group that lists its fibers,
// the group's lock decides.
void SchedulerCore::launch(GroupCore& group, UniqueFunction<void()>&& body, GoOptions&& options) {
  if (!body) throw std::invalid_argument("leat: go: the function is empty");
  // A worker's thread is in no other process.
  if (calling_worker() == nullptr) home_.require("a scheduler");
  Fiber& fiber = make_fiber(group, std::move(body), std::move(options));
  try {
    group.add(fiber);  // may park, and continue on another worker
  } catch (...) {
    discard(fiber);
    throw;
  }
  Worker* const worker = calling_worker();
  if (!count_launch(group, worker)) {
    group.remove(fiber);
    discard(fiber);
    throw std::logic_error("leat: go on a scheduler that has ended");
  }
  // release: pairs with FiberPool::for_each_live.
  fiber.live_.store(true, std::memory_order_release);
  light_fence();  // pairs with the heavy ones in stop_everything() and GroupCore::stop()
  if (shutting_down_.load(std::memory_order_relaxed) || group.stopped()) fiber.request_cancel();
  tsan_release(&fiber);
  if (worker == nullptr || (fiber.home_.get() != nullptr && fiber.home_.get() != worker)) {
    push_remote(fiber);
  } else {
    worker->push_back(fiber);
  }
}

Worker* SchedulerCore::calling_worker() const noexcept {
  Worker* const worker = Worker::current();
  return worker != nullptr && &worker->core() == this ? worker : nullptr;
}

Fiber& SchedulerCore::make_fiber(GroupCore& group, UniqueFunction<void()>&& body,
                                 GoOptions&& options) {
  std::unique_ptr<const std::string> name;
  if (!options.name.empty()) name = std::make_unique<const std::string>(std::move(options.name));
  Worker* const worker = calling_worker();
  Fiber& fiber = worker != nullptr ? worker->fibers().take(fibers_) : fibers_.take();
  if (options.stack_size != 0) {  // stacks of the default size are bound when the fiber first runs
    try {
      fiber.bind(stacks_.allocate(options.stack_size));
    } catch (...) {
      fibers_.put(fiber);
      throw;
    }
  }
  fiber.group_ = &group;
  fiber.body_ = std::move(body);
  fiber.name_ = std::move(name);
  fiber.id_ = worker != nullptr ? worker->next_id() : reserve_ids(1);
  fiber.random_ = mix(mix(seed()) + fiber.id_);
  fiber.shields_ = 0;
  fiber.has_own_stack_size_.set(options.stack_size != 0);
  fiber.cancel_requested_.store(false, std::memory_order_relaxed);
  fiber.home_.set(
      options.pinned
          ? workers_[next_home_.fetch_add(1, std::memory_order_relaxed) % workers_.size()].get()
          : nullptr);
  return fiber;
}

// Gives back a fiber that was made and will not be launched.
void SchedulerCore::discard(Fiber& fiber) noexcept {
  fiber.body_ = {};
  if (fiber.has_stack_.get()) {
    stacks_.release(fiber.context_.stack());
    fiber.context_.discard();
    fiber.has_stack_.set(false);
  }
  fibers_.put(fiber);
}

// False if the scheduler has ended. `worker` is the caller's, or null.
bool SchedulerCore::count_launch(const GroupCore& group, Worker* worker) noexcept {
  const bool in_root = &group == root_.get();
  if (worker != nullptr) {
    auto& launched = (in_root ? worker->root_counts : worker->other_counts).launched;
    launched.store(launched.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return true;
  }
  const SpinLockGuard guard(lock_);
  if (ended_) return false;
  (in_root ? outside_root_counts_ : outside_other_counts_)
      .launched.fetch_add(1, std::memory_order_release);
  return true;
}

// Runs on the fiber itself, after its closure was destroyed. After this the fiber's memory may be
// used again.
void SchedulerCore::finish(Fiber& fiber, Worker& worker) noexcept {
  fiber.live_.store(false, std::memory_order_relaxed);
  Safepoint::poll();
  fiber.group_->remove(fiber);
  const bool in_root = fiber.group_ == root_.get();
  auto& ended = (in_root ? worker.root_counts : worker.other_counts).ended;
  ended.store(ended.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  if (!in_root) return;
  light_fence();  // pairs with the heavy one in GroupCore::join
  if (root_->was_joined()) {
    full_fence();  // of several fibers that end last, at least one sees that all others have ended
    if (root_count() == 0) root_->wake_joiners();
  }
}

// Ends are counted before launches, and both sums only grow. So the difference is never too small,
// and 0 means that at some instant between the two readings no fiber was left.
std::uint64_t SchedulerCore::root_count() const noexcept {
  std::uint64_t ended = 0;
  for (const auto& worker : workers_) {
    ended += worker->root_counts.ended.load(std::memory_order_acquire);
  }
  std::uint64_t launched = outside_root_counts_.launched.load(std::memory_order_acquire);
  for (const auto& worker : workers_) {
    launched += worker->root_counts.launched.load(std::memory_order_acquire);
  }
  return launched - ended;
}

// Exact only while no fiber runs.
std::uint64_t SchedulerCore::live_count() const noexcept {
  std::uint64_t live = outside_root_counts_.launched.load(std::memory_order_relaxed) +
                       outside_other_counts_.launched.load(std::memory_order_relaxed);
  for (const auto& worker : workers_) {
    for (const Worker::Counts* counts : {&worker->root_counts, &worker->other_counts}) {
      live += counts->launched.load(std::memory_order_relaxed);
      live -= counts->ended.load(std::memory_order_relaxed);
    }
  }
  return live;
}

}  // namespace leat
