#include "leat/csp/sched/worker.h"

#include <exception>
#include <utility>

#include "leat/csp/base/assert.h"
#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/base/random.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/fiber/stack_overflow.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/sched/worker_switch.h"
#include "leat/csp/wait/callers.h"

namespace leat {
namespace {

thread_local Worker* t_worker = nullptr;

}  // namespace

thread_local constinit const SchedulerCore* t_scheduler = nullptr;

// Not checked for races: a worker and its fibers are one thread, and share its thread-local.
__attribute__((noinline, no_sanitize("thread"))) Worker* Worker::current() noexcept {
  asm volatile("");  // keeps the call from being treated as pure and merged across a switch
  return t_worker;
}

Worker::Worker(SchedulerCore& core, std::size_t index)
    : core_(core),
      index_(index),
      alone_(core.worker_count() == 1),
      replays_(alone_ && core.clock().is_virtual()),
      shuffles_(replays_ && core.seed() != 0),
      skips_run_next_(shuffles_),
      random_(mix(core.seed())),
      stacks_(core.stacks_),
      seen_(static_cast<std::size_t>(core.worker_count())) {}

void Worker::set_current(Worker* worker) noexcept {
  t_worker = worker;
  t_scheduler = worker != nullptr ? &worker->core_ : nullptr;
}

void Worker::run() noexcept {
  const SignalStack::Use for_overflows(signal_stack_, running_);
  const TsanIgnoreScope for_worker_state;
  set_current(this);
  exceptions_.set(Context::exceptions_of_thread());
  sampled_at_.set(cycles_now());
  scheduler_context_.adopt_current_thread();
  while (Fiber* const fiber = find()) resume(*fiber);
  set_current(nullptr);
}

// ---- where a fiber is queued

// For wake_here(), if the run-next slot is full or the fiber does not belong there.
void Worker::wake_here_slow(Fiber& fiber) noexcept {
  if (shuffles_) {
    push_at_random(fiber);
    return;
  }
  Worker* const home = fiber.home_.get();
  if (home != nullptr && home != this) {
    core_.push_remote(fiber);
    return;
  }
  if (long_slices_.get() && home == nullptr && !alone_) {
    const bool ran_elsewhere = fiber.worker_.get() != this;
    if (!handoff_.put(fiber)) {
      push_back(fiber);
      return;
    }
    handoff_ran_elsewhere_.set(ran_elsewhere);
    light_fence();  // pairs with the heavy one of a worker that goes to sleep
    core_.wake_for_work();
    return;
  }
  if (!run_next_.put(fiber)) {
    push_woken(fiber);
    return;
  }
  if (alone_) return;
  light_fence();  // likewise
  core_.wake_monitor();
}

void Worker::push_back(Fiber& fiber) noexcept {
  const TsanIgnoreScope for_worker_state;
  if (shuffles_) {
    push_at_random(fiber);
    return;
  }
  if (fiber.home_.get() != nullptr) {
    fiber.behind_.set(ring_.pushed());
    pinned_.push(fiber);
    return;
  }
  while (!ring_.push(fiber)) core_.spill(*this);
  if (alone_) return;
  light_fence();  // likewise
  core_.wake_for_work();
}

// Swaps the new fiber with the one at a random position. No other worker steals here, so a pinned
// fiber may stand in the ring.
void Worker::push_at_random(Fiber& fiber) noexcept {
  while (!ring_.push(fiber)) core_.spill(*this);
  const std::uint64_t drawn = mix(random_.add(kRandomStep));
  ring_.exchange_last(static_cast<std::uint32_t>(((drawn >> 32U) * ring_.size()) >> 32U));
}

// If slices are short, the fiber's turn comes soon, and waking another worker for it would cost
// more. The monitor ensures that the turn comes.
void Worker::push_woken(Fiber& fiber) noexcept {
  if (fiber.home_.get() != nullptr || ring_.size() >= tuning::kSmallQueue) {
    push_back(fiber);
    return;
  }
  static_cast<void>(ring_.push(fiber));  // it is not full
  if (alone_) return;
  light_fence();  // likewise
  core_.wake_monitor();
}

bool Worker::may_go_on() noexcept {
  const TsanIgnoreScope for_worker_state;
  return until_look_outside_.add(-1) > 0 && run_next_.empty() && handoff_.empty() &&
         ring_.size() == 0 && pinned_.empty() && resume_first_.get() == nullptr &&
         !has_pinned_inbox_.load(std::memory_order_relaxed);
}

bool Worker::ends_slice(std::uint32_t operations) noexcept {
  const TsanIgnoreScope for_worker_state;
  if (const std::uint64_t now = switches_.get(); now != slice_.get()) {
    slice_.set(now);
    operations_.set(0);
  }
  if (operations_.add(operations) < tuning::kOperationsOfASlice) return false;
  operations_.set(0);
  return true;
}

void Worker::sample_slices() noexcept {
  const Cycles now = cycles_now();
  const int every = sampled_every_.get();
  const bool long_ones = !replays_ && now - sampled_at_.get() >
                                          static_cast<Cycles>(every) * core_.thresholds_.long_slice;
  sampled_at_.set(now);
  long_slices_.set(long_ones);
  skips_run_next_.set(long_ones || shuffles_);
  // If slices are long, reading the time costs little in comparison, and coarse_now() is exact.
  constexpr int kEvery = tuning::kSampleEvery;
  sampled_every_.set(long_ones ? 1 : every < kEvery ? kEvery : 2 * kEvery);
  until_sample_.set(sampled_every_.get());
  if (long_ones) until_look_outside_.set(0);  // a timer cannot wait for many long slices
}

// ---- switches

void Worker::after_rare_switch() noexcept {
  Fiber* const previous = previous_.get();
  const SwitchReason reason = switch_reason_.get();
  switch_reason_.set(SwitchReason::kNothing);
  if (reason == SwitchReason::kYield) push_back(*previous);
  if (reason == SwitchReason::kDone) {
    tsan_acquire(previous);
    recycle(*previous);
  }
}

Fiber* Worker::replace_ended(Fiber& ended) noexcept {
  // ThreadSanitizer would take the two fibers for one thread, and miss their races.
  if (kTsan || ended.has_own_stack_size_.get()) return nullptr;
  if (until_sample_.add(-1) <= 0) sample_slices();
  if (until_look_outside_.get() <= 1) return nullptr;
  until_look_outside_.add(-1);
  Fiber* const next = pick_queued();
  if (next == nullptr) return nullptr;
  switches_.add(1);
  if (next->has_stack_.get()) {
    resume_first_.set(next);
    return nullptr;
  }
  next->context_.take_over_from(ended.context_);
  next->has_stack_.set(true);
  next->worker_.set(this);
  running_.set(next);
  ended.has_stack_.set(false);
  recycle(ended);
  return next;
}

void Worker::recycle(Fiber& ended) noexcept {
  if (ended.has_stack_.get()) {
    const StackSpan stack = ended.context_.stack();
    ended.context_.discard();
    ended.has_stack_.set(false);
    stacks_.put(stack);
  }
  fibers_.put(core_.fibers_, ended);
}

bool Worker::bind_cached_stack(Fiber& fiber) noexcept {
  StackSpan stack;
  if (!stacks_.take(stack)) return false;
  fiber.bind(stack);
  return true;
}

// On the scheduler context, because it may make a system call. Without a stack the fiber ends
// before it has begun.
bool Worker::bind_stack(Fiber& fiber) noexcept {
  if (bind_cached_stack(fiber)) return true;
  stacks_.refill();
  if (bind_cached_stack(fiber)) return true;
  try {
    fiber.bind(core_.stacks_.allocate(0));
    return true;
  } catch (...) {
    tsan_acquire(&fiber);
    fiber.group_->fail(std::current_exception());
    fiber.body_ = {};
    core_.finish(fiber, *this);
    recycle(fiber);
    return false;
  }
}

void Worker::resume(Fiber& fiber) noexcept {
  switches_.add(1);
  if (!fiber.has_stack_.get() && !bind_stack(fiber)) return;
  fiber.worker_.set(this);
  running_.set(&fiber);
  scheduler_context_.switch_to(fiber.context_, exceptions_.get());
  after_switch();
}

// ---- finding work; on the scheduler context

Fiber* Worker::find() noexcept {
  bool may_spin = true;
  for (;;) {
    bool timekeeper_wanted = false;
    if (until_look_outside_.get() <= 0) {
      until_look_outside_.set(long_slices_.get() ? 1 : tuning::kLookOutsideEvery);
      timekeeper_wanted = core_.look_outside(*this);
    }
    wait_for_taker();
    if (Fiber* const fiber = pick_queued()) {
      found_work();
      if (timekeeper_wanted) core_.wake_timekeeper();
      return fiber;
    }
    Fiber* found = look_around();
    if (found == nullptr && may_spin) found = spin();
    if (found != nullptr) {
      found_work();
      if (timekeeper_wanted) core_.wake_timekeeper();
      return found;
    }
    const Cycles slept_at = cycles_now();
    const SchedulerCore::Woken woken = core_.sleep(*this);
    // The time asleep was no slice.
    sampled_at_.set(cycles_now());
    slept_shortly_.set(sampled_at_.get() - slept_at < core_.thresholds_.short_sleep);
    switch (woken) {
      case SchedulerCore::Woken::kEnded: return nullptr;
      case SchedulerCore::Woken::kForWork: may_spin = true; break;
      case SchedulerCore::Woken::kToRetake:
        may_spin = false;
        if (Fiber* const fiber = retake()) {
          // From here on, a worker that puts a fiber into its run-next slot either sees
          // monitor_wanted_ or is seen by found_work().
          if (core_.monitor_wanted_.load(std::memory_order_seq_cst)) heavy_fence();
          found_work();
          core_.wake_timekeeper();  // this worker may have been the timekeeper as well
          return fiber;
        }
        break;
    }
    until_sample_.set(tuning::kSampleEvery);
    sampled_every_.set(tuning::kSampleEvery);
    until_look_outside_.set(0);  // this worker may have been the timekeeper
  }
}

// A fiber with long slices works on much memory, most of it in the cache of the worker that ran it
// last. If that worker is looking for work, it takes the fiber within the time that this one waits.
void Worker::wait_for_taker() noexcept {
  if (!handoff_ran_elsewhere_.get()) return;
  handoff_ran_elsewhere_.set(false);
  if (!core_.a_worker_spins()) return;
  const Cycles end = cycles_now() + core_.thresholds_.handoff_grace;
  while (!handoff_.empty() && cycles_now() < end) cpu_relax();
}

// Other fibers may be left, here and on other workers. The last spinner wakes another spinner for
// those that are to run at once. A worker that was the monitor wakes a new monitor for those that
// wait behind a fiber that may never switch.
void Worker::found_work() noexcept {
  if (spinning_) {
    spinning_ = false;
    if (core_.spinning_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
        core_.queued_elsewhere(*this)) {
      core_.wake_for_work();
    }
  }
  // No heavy fence here: it would slow down every wake-up. What was queued before monitor_wanted_
  // was set has left its writer's store buffer long before a wake-up completes.
  if (alone_ || !core_.monitor_wanted_.load(std::memory_order_seq_cst)) return;
  if (has_retakable() || core_.woken_elsewhere(*this)) core_.wake_spinner();
}

Fiber* Worker::look_around() noexcept {
  if (Fiber* const fiber = core_.take_global(*this)) return fiber;
  return alone_ ? nullptr : steal();
}

Fiber* Worker::spin() noexcept {
  // Spinning would keep the waker from its CPU. A worker that is counted as a spinner was sent to
  // look: there is work.
  if (shares_cpu_ && !spinning_) return nullptr;
  // If this is the only worker, new work can only come from other threads.
  if (alone_ ? !slept_shortly_.get() : !core_.may_spin(*this)) return nullptr;
  do {
    remember_progress();
    const Cycles end = cycles_now() + core_.thresholds_.spin;
    do {
      for (int i = 0; i < 8; ++i) cpu_relax();
      if (has_pinned_inbox_.load(std::memory_order_relaxed)) return pick_queued();
      if (Fiber* const fiber = look_around()) return fiber;
    } while (cycles_now() < end);
    if (Fiber* const fiber = retake()) return fiber;
    // With such fibers sleep() would return at once, after a fence that interrupts the others.
  } while (core_.queued_elsewhere(*this));
  return nullptr;
}

std::uint64_t Worker::next_id() noexcept {
  if (ids_left_.get() == 0) {
    next_id_.set(core_.reserve_ids(tuning::kIdBlock));
    ids_left_.set(tuning::kIdBlock);
  }
  ids_left_.add(-1ULL);
  return next_id_.add(1) - 1;
}

}  // namespace leat
