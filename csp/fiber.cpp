#include "leat/csp/fiber.h"

#include <exception>
#include <utility>

#include "leat/csp/assert.h"
#include "leat/csp/channel_core.h"
#include "leat/csp/error.h"
#include "leat/csp/group_core.h"
#include "leat/csp/random.h"
#include "leat/csp/scheduler_core.h"

namespace leat {
namespace {

thread_local Fiber* t_current = nullptr;

}  // namespace

// Both: not checked for races, because the variable is the thread's, and a worker and the fiber
// that it runs are one thread, though two to TSan.
__attribute__((noinline, no_sanitize("thread"))) Fiber* Fiber::current() noexcept {
  asm volatile("");  // keeps the call from being treated as pure and merged across a switch
  return t_current;
}

__attribute__((noinline, no_sanitize("thread"))) void Fiber::set_current(Fiber* fiber) noexcept {
  asm volatile("");
  t_current = fiber;
}

Fiber::Fiber(SchedulerCore& core, std::shared_ptr<GroupCore> group, UniqueFunction<void()> body,
             GoOptions options, StackSpan stack, std::uint64_t id)
    : core_(core),
      group_(std::move(group)),
      body_(std::move(body)),
      options_(std::move(options)),
      stack_(stack),
      context_(stack, &Fiber::entry, this),
      id_(id),
      random_(mix(mix(core.seed()) + id)) {}

void Fiber::entry(void* self) {
  auto* const fiber = static_cast<Fiber*>(self);
  // acquire: pairs with the release by which the worker made it kRunning.
  static_cast<void>(fiber->state_.load(std::memory_order_acquire));
  try {
    fiber->body_();
  } catch (const Cancelled&) {
    // It was asked to stop, and has.
  } catch (...) {
    fiber->group_->fail(std::current_exception());
  }
  fiber->body_ = {};
  fiber->leave(Left::kDone);
}

// The worker acts on `how` once the context is saved (SchedulerCore::resume).
void Fiber::leave(Left how) noexcept {
  Context& worker = worker_->base;
  // release: the worker, which is another thread to the memory model, reads what this fiber wrote.
  left_.store(how, std::memory_order_release);
  if (how == Left::kDone) context_.exit_to(worker);
  context_.switch_to(worker);
  // acquire: everything that happened before ready() is visible to this fiber from here.
  static_cast<void>(state_.load(std::memory_order_acquire));
}

void Fiber::park(Operation& operation, Deadline deadline) noexcept {
  {
    const SpinLockGuard guard(lock_);
    // Here and in cancel() under the same lock: a cancellation is either seen by this line or sees
    // operation_, so none is missed.
    if (cancel_requested_ && shields_ == 0 && operation.claim(Operation::kCancelled)) return;
    operation_ = &operation;
  }
  Timer timer;
  if (!deadline.is_never()) {
    timer.at = deadline.at();
    timer.operation = &operation;
    core_.add_timer(timer);
  }
  // Where ready() was faster there is no need to switch away and back.
  FiberState woken = FiberState::kWoken;
  if (!state_.compare_exchange_strong(woken, FiberState::kRunning, std::memory_order_acquire)) {
    leave(Left::kPark);
  }
  if (!deadline.is_never()) core_.remove_timer(timer);
  const SpinLockGuard guard(lock_);
  operation_ = nullptr;
}

void Fiber::ready() noexcept {
  // A caller from outside may see the scheduler end as soon as this fiber runs.
  const Fiber* const caller = current();
  const std::shared_ptr<SchedulerCore> hold =
      caller != nullptr && &caller->core_ == &core_ ? nullptr : core_.shared_from_this();
  SchedulerCore& core = core_;
  if (make_ready()) core.enqueue(*this);
}

bool Fiber::make_ready() noexcept {
  FiberState state = state_.load(std::memory_order_relaxed);
  for (;;) {
    if (state == FiberState::kRunning) {
      // release: publishes what the claimer wrote to the acquire in park().
      if (state_.compare_exchange_weak(state, FiberState::kWoken, std::memory_order_release,
                                       std::memory_order_relaxed)) {
        return false;  // from here *this may be gone
      }
    } else {
      LEAT_ASSERT(state == FiberState::kParked, "ready() on a fiber that does not wait");
      // acquire: the saved context and what the worker wrote when it parked the fiber.
      if (state_.compare_exchange_weak(state, FiberState::kReady, std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
  }
}

void Fiber::yield() noexcept { leave(Left::kYield); }

void Fiber::cancel() noexcept {
  bool claimed = false;
  {
    const SpinLockGuard guard(lock_);
    cancel_requested_ = true;
    claimed = operation_ != nullptr && shields_ == 0 && operation_->claim(Operation::kCancelled);
  }
  if (claimed) ready();  // it cannot have left its park: the claim was ours
}

bool Fiber::break_wait(int step) noexcept {
  const SpinLockGuard guard(lock_);
  if (operation_ == nullptr) return false;
  const ParkReason reason = operation_->reason();
  const bool by_ending = reason == ParkReason::kJoin || reason == ParkReason::kAwait;
  if (step < (reason == ParkReason::kEnd ? 3 : by_ending ? 2 : 1)) return false;
  return operation_->claim(Operation::kCancelled);
}

void Fiber::shield() noexcept {
  const SpinLockGuard guard(lock_);
  ++shields_;
}

void Fiber::unshield() noexcept {
  const SpinLockGuard guard(lock_);
  --shields_;
}

std::uint64_t Fiber::random() noexcept { return mix(random_ += kRandomStep); }

std::string Fiber::describe(bool& stuck) noexcept {
  const SpinLockGuard guard(lock_);
  std::string line = "fiber " + std::to_string(id_);
  if (!options_.name.empty()) line += " \"" + options_.name + "\"";
  stuck = state_.load(std::memory_order_acquire) == FiberState::kParked && operation_ != nullptr &&
          operation_->outcome() == Operation::kUndecided;
  if (!stuck) return line + " can run";
  line += " waits for ";
  line += to_string(operation_->reason());
  if (operation_->touchers() != nullptr && operation_->touchers()->from_outside()) stuck = false;
  const char* separator = " on ";
  for (const Case& one : operation_->cases()) {
    line += separator;
    line += one.channel == nullptr ? "the nil channel" : one.channel->describe();
    separator = ", ";
    if (one.channel != nullptr && one.channel->touchers().from_outside()) stuck = false;
  }
  return line;
}

}  // namespace leat
