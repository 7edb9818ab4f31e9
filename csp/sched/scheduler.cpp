#include "leat/csp/scheduler.h"

#include <new>
#include <stdexcept>
#include <string>

#include "leat/csp/base/futex.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/wait/identity.h"
#include "leat/csp/wait/park.h"

namespace leat {

Scheduler::Scheduler(const SchedulerOptions& options)
    : core_(std::make_shared<SchedulerCore>(options)) {
  core_->start();
}

Scheduler::~Scheduler() {
  if (core_->home().is_here()) {
    core_->shut_down();
  } else {
    // Leaked, with the threads that are gone.
    static_cast<void>(new (std::nothrow) std::shared_ptr<SchedulerCore>(std::move(core_)));
  }
}

void Scheduler::launch(UniqueFunction<void()>&& body, GoOptions&& options) {
  core_->launch(*core_->root(), std::move(body), std::move(options));
}

std::string Scheduler::dump() const { return core_->dump(); }

const Clock& Scheduler::clock() const noexcept { return core_->clock(); }

int Scheduler::workers() const noexcept { return core_->worker_count(); }

void Scheduler::join() {
  const Fiber* const caller = Fiber::current();
  if (caller != nullptr && &caller->core() == core_.get()) {
    throw std::logic_error("leat: Scheduler::join on one of its own fibers would wait for itself");
  }
  core_->home().require("a Scheduler");
  core_->root()->join();
  if (const std::exception_ptr error = core_->root()->restart()) std::rethrow_exception(error);
}

void run_main(UniqueFunction<void()> main, const SchedulerOptions& options) {
  if (on_fiber()) {
    throw std::logic_error(
        "leat: run inside run; use go or a TaskGroup, or a Scheduler of its own");
  }
  std::make_shared<SchedulerCore>(options)->run_main(std::move(main));
}

void launch_fiber(UniqueFunction<void()>&& body, GoOptions&& options) {
  SchedulerCore& core = current_scheduler("go");
  core.launch(*core.root(), std::move(body), std::move(options));
}

SchedulerCore& current_scheduler(const char* caller) {
  if (Fiber* const fiber = Fiber::current()) return fiber->core();
  throw std::logic_error(std::string("leat: ") + caller +
                         " outside a scheduler; call it from inside run, or on a Scheduler");
}

std::shared_ptr<SchedulerCore> share_current_scheduler(const char* caller) {
  return current_scheduler(caller).shared_from_this();
}

const Fiber* calling_fiber() noexcept { return Fiber::current(); }

const Clock& clock_of(const SchedulerCore& scheduler) noexcept { return scheduler.clock(); }

int workers_of(const SchedulerCore& scheduler) noexcept { return scheduler.worker_count(); }

bool on_fiber() noexcept { return Fiber::current() != nullptr; }

void yield() noexcept {
  let_threads_run();
  if (Fiber* const fiber = Fiber::current()) {
    fiber->yield();
  } else {
    yield_cpu();
  }
}

TimePoint now() noexcept {
  const Fiber* const fiber = Fiber::current();
  return fiber != nullptr ? fiber->core().clock().now() : SteadyClock::instance().now();
}

void sleep_until(TimePoint at) {
  const Deadline deadline(at);
  if (deadline.at() <= now()) {
    count_operation(Deadline::never());  // a loop that is behind its schedule gives way, too
    return;
  }
  const int outcome = park_current(
      {.reason = ParkReason::kSleep}, deadline, [](Waiter&) { return HeldLocks{}; }, [](int) {});
  if (outcome == Waiter::kCancelled) throw Cancelled{};
}

void sleep_for(Duration length) { sleep_until(Deadline::after(now(), length).at()); }

std::string dump() { return current_scheduler("dump").dump(); }

OutsideWork::OutsideWork() noexcept {
  if (const Fiber* const fiber = Fiber::current()) {
    core_ = fiber->core().shared_from_this();
    core_->begin_outside_work();
  }
}

OutsideWork::~OutsideWork() {
  if (core_ != nullptr) core_->end_outside_work();
}

Shield::Shield() noexcept {
  if (Fiber* const fiber = Fiber::current()) fiber->shield();
}

Shield::~Shield() {
  if (Fiber* const fiber = Fiber::current()) fiber->unshield();
}

}  // namespace leat
