#include "leat/csp/fiber/fiber.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/base/random.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/safepoint.h"
#include "leat/csp/sched/group_core.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/sched/worker.h"
#include "leat/csp/sched/worker_switch.h"

namespace leat {
namespace {

DeadlockStep step_that_breaks(ParkReason reason) noexcept {
  if (reason == ParkReason::kEnd) return DeadlockStep::kBreakDestructors;
  const bool for_an_end = reason == ParkReason::kJoin || reason == ParkReason::kAwait;
  return for_an_end ? DeadlockStep::kBreakJoins : DeadlockStep::kBreakWaits;
}

// For pthread_exit() and pthread_cancel(), which unwind the fiber and would then end its worker.
// The C library would end the program too, with a message that names nothing.
[[noreturn]] void refuse_end_of_thread(const Fiber& fiber) noexcept {
  std::fprintf(stderr,
               "leat: pthread_exit() or pthread_cancel() ends the thread of %s, on which other "
               "fibers run: let the fiber return, or stop its group\n",
               fiber.label().c_str());
  std::abort();
}

}  // namespace

Fiber* Fiber::current() noexcept {
  const Worker* const worker = Worker::current();
  return worker != nullptr ? worker->running() : nullptr;
}

void Fiber::entry(void* self) {
  auto* fiber = static_cast<Fiber*>(self);
  tsan_acquire(fiber);
  fiber->worker_.get()->after_switch();
  for (;;) {
    fiber->run_body();
    Worker& worker = *fiber->worker_.get();
    fiber->core_.finish(*fiber, worker);
    // The next fiber runs on the stack of the ended one. That needs no switch, and the stack is in
    // the cache.
    Fiber* const next = worker.replace_ended(*fiber);
    if (next == nullptr) worker.leave(*fiber, Worker::SwitchReason::kDone);  // never returns
    fiber = next;
  }
}

void Fiber::bind(StackSpan stack) noexcept {
  context_.prepare(stack, &Fiber::entry, this);
  has_stack_.set(true);
}

// Not inlined into entry(): no value that depends on the thread may be kept across the body.
__attribute__((noinline)) void Fiber::run_body() noexcept {
  try {
    body_();
  } catch (const Cancelled&) {
    // The fiber was asked to stop, and has stopped.
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    if (error == nullptr) refuse_end_of_thread(*this);
    group_->fail(error);
  }
  body_ = {};
}

void Fiber::begin(const Wait& wait) noexcept { begin_here(*worker_.get(), wait); }

void Fiber::park(Deadline deadline, const HeldLocks& held) noexcept {
  park_here(*worker_.get(), deadline, held);
}

void Fiber::ready() noexcept {
  check_ready();
  tsan_release(this);
  Worker* const worker = Worker::current();
  if (__builtin_expect(worker != nullptr && &worker->core() == &core_, 1)) {
    worker->wake_here(*this);
  } else {
    ready_from_outside();
  }
}

void Fiber::ready_from_outside() noexcept {
  // If the caller is outside the scheduler, the scheduler may end as soon as this fiber runs.
  const std::shared_ptr<SchedulerCore> hold = core_.shared_from_this();
  hold->push_remote(*this);
}

void Fiber::ready_once_parked() noexcept {
  wait_until_parked();
  ready();
}

void Fiber::wait_until_parked() const noexcept {
  // The fiber's worker is between begin() and the end of the switch: some nanoseconds, unless the
  // thread has lost its CPU. acquire: pairs with after_switch(), which has saved the context.
  for (int spins = 0; !parked_.load(std::memory_order_acquire); ++spins) {
    if (spins < tuning::kPollsBeforeYield) {
      cpu_relax();
    } else {
      yield_cpu();
    }
  }
}

void Fiber::yield() noexcept {
  Worker& worker = *worker_.get();
  if (worker.may_go_on()) return;
  tsan_release(this);
  worker.leave(*this, Worker::SwitchReason::kYield);
}

void Fiber::count_operation() {
  if (__builtin_expect(worker_.get()->ends_slice(1), 0)) give_way();
}

void Fiber::give_way() {
  if (!shall_stop()) yield();
  if (shall_stop()) throw Cancelled{};
}

bool Fiber::deliver_cancel() noexcept { return claim_as_cancelled(); }

bool Fiber::break_wait(DeadlockStep step) noexcept {
  if (!undecided()) return false;
  const DeadlockStep breaks =
      context_.unwinds() ? DeadlockStep::kBreakDestructors : step_that_breaks(wait_.reason);
  return step >= breaks && claim(kCancelled);
}

std::uint64_t Fiber::random() noexcept { return mix(random_ += kRandomStep); }

std::string Fiber::label() const {
  std::string label = "fiber " + std::to_string(id_);
  if (name_ != nullptr) label += " \"" + *name_ + "\"";
  return label;
}

}  // namespace leat
