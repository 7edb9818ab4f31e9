// A worker's part in every park and every wake-up. Inlined there; context_jump.h gives the reason.
// For the .cpp files of csp alone.
#pragma once

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/sanitizers.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/fiber/context_jump.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/sched/worker.h"

namespace leat {

LEAT_INLINE void Worker::wake_here(Fiber& fiber) noexcept {
  const TsanIgnoreScope for_worker_state;
  if (__builtin_expect(fiber.home_.get() != nullptr || skips_run_next_.get(), 0) ||
      !run_next_.put(fiber)) {
    wake_here_slow(fiber);
    return;
  }
  if (alone_) return;
  light_fence();  // pairs with the heavy one of a worker that goes to sleep
  core_.wake_monitor();
}

// The next fiber comes from the first of these that has one:
//  1. resume_first_: a fiber that was taken before, and had to get a stack;
//  2. the run-next slot;
//  3. the handoff slot, if no other worker has taken the fiber;
//  4. the pinned list, if its oldest fiber stands there longer than the ring's oldest;
//  5. the ring;
//  6. the pinned list.
// Before 2, fibers of the pinned inbox join the pinned list. After tuning::kLongestStreak fibers in
// a row from 2 and 3, the next one goes behind the fibers that wait in 4 to 6.
inline Fiber* Worker::pick_queued() noexcept {
  if (Fiber* const fiber = resume_first_.get()) {
    resume_first_.set(nullptr);
    return fiber;
  }
  if (has_pinned_inbox_.load(std::memory_order_relaxed)) core_.take_pinned_inbox(*this);
  Fiber* woken = run_next_.take(alone_);
  if (woken == nullptr) woken = handoff_.take(alone_);
  if (woken != nullptr) {
    constexpr int kLongStep = tuning::kLongestStreak / tuning::kLongestStreakOfLong;
    if (streak_.add(long_slices_.get() ? kLongStep : 1) < tuning::kLongestStreak) {
      return woken;
    }
    streak_.set(0);
    if (ring_.size() == 0 && pinned_.empty()) return woken;
    push_woken(*woken);
  }
  streak_.set(0);
  // A pinned fiber's turn has come when the fibers that stood in the ring before it are gone.
  if (const Fiber* const pinned = pinned_.oldest();
      pinned != nullptr && static_cast<std::int32_t>(ring_.taken() - pinned->behind_.get()) >= 0) {
    return pinned_.pop();
  }
  if (Fiber* const fiber = ring_.pop(alone_)) return fiber;
  return pinned_.pop();
}

// Null if the scheduler context has something to do first, or if no fiber is queued here.
LEAT_INLINE Fiber* Worker::pick_local() noexcept {
  if (until_sample_.add(-1) <= 0) sample_slices();
  if (until_look_outside_.add(-1) <= 0 || handoff_ran_elsewhere_.get()) return nullptr;
  Fiber* const fiber = pick_queued();
  if (fiber == nullptr) return nullptr;
  switches_.add(1);
  if (fiber->has_stack_.get() || bind_cached_stack(*fiber)) return fiber;
  resume_first_.set(fiber);
  return nullptr;
}

LEAT_INLINE void Worker::after_switch() noexcept {
  const TsanIgnoreScope for_worker_state;
  if (__builtin_expect(switch_reason_.get() != SwitchReason::kPark, 0)) {
    after_rare_switch();
    return;
  }
  const HeldLocks held{held_lock_.get(), held_drop_.get(), held_argument_.get()};
  Fiber* const previous = previous_.get();
  switch_reason_.set(SwitchReason::kNothing);
  // release: a worker that runs the fiber next needs the saved context. From here the fiber may be
  // woken without these locks, but it cannot leave its wait before it has taken them.
  leat::release(previous->parked_, true);
  if (held.one != nullptr || held.drop != nullptr) previous->check_not_ended();
  held.unlock_after_switch();
}

LEAT_INLINE void Worker::leave(Fiber& fiber, SwitchReason reason, const HeldLocks& held) noexcept {
  Context* to = &scheduler_context_;
  Context::ExceptionState* exceptions = nullptr;
  {
    const TsanIgnoreScope for_worker_state;
    Fiber* const next = pick_local();
    previous_.set(&fiber);
    switch_reason_.set(reason);
    held_lock_.set(held.one);
    held_drop_.set(held.drop);
    held_argument_.set(held.argument);
    running_.set(next);
    if (next != nullptr) {
      next->worker_.set(this);
      to = &next->context_;
    }
    exceptions = exceptions_.get();
  }
  if (reason == SwitchReason::kDone) {
    tsan_release(&fiber);
    fiber.context_.exit_to(*to, exceptions);
  }
  fiber.context_.switch_to(*to, exceptions);
  fiber.worker_.get()->after_switch();  // which may be another worker
  tsan_acquire(&fiber);
}

// The destructors of a fiber that unwinds are shielded: what they threw would end the program.
LEAT_INLINE void Fiber::begin_here(const Worker& worker, const Wait& wait) noexcept {
  parked_.store(false, std::memory_order_relaxed);
  Waiter::begin(wait, shields_ > 0 || worker.unwinds());
}

LEAT_INLINE void Fiber::park_here(Worker& worker, Deadline deadline,
                                  const HeldLocks& held) noexcept {
  // This fiber first publishes that it waits (begin), then reads whether it shall stop.
  // deliver_cancel() does the same in the opposite order: one of the two sees the other.
  since_.set(worker.coarse_now());
  light_fence();
  if (__builtin_expect(cancel_requested_.load(std::memory_order_relaxed), 0) &&
      claim_as_cancelled()) {
    held.unlock_after_switch();
    return;
  }
  if (__builtin_expect(deadline.is_never(), 1)) {
    worker.leave(*this, Worker::SwitchReason::kPark, held);
    return;
  }
  Timer timer;
  timer.at = deadline.at();
  timer.fiber = this;
  core_.add_timer(timer);
  worker.leave(*this, Worker::SwitchReason::kPark, held);
  core_.remove_timer(timer);
}

}  // namespace leat
