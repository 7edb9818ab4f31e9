// Looking at all fibers, and ending a deadlock.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "leat/csp/census.h"
#include "leat/csp/error.h"
#include "leat/csp/scheduler_core.h"

namespace leat {

void SchedulerCore::cancel_root_fibers() noexcept {
  const Census census;
  const auto for_each = [this](auto&& visit) {
    fibers_.for_each_live([&](Fiber& fiber) {
      if (fiber.group() == root_.get()) visit(fiber);
    });
  };
  for_each([](Fiber& fiber) { fiber.request_cancel(); });
  heavy_fence();
  for_each([](Fiber& fiber) { fiber.deliver_cancel(); });
}

std::string SchedulerCore::list_stuck() {
  std::string fibers;
  bool all_stuck = true;
  std::uint64_t count = 0;
  fibers_.for_each_live([&](const Fiber& fiber) {
    ++count;
    fibers += "\n  " + fiber.describe();
    all_stuck = all_stuck && fiber.is_stuck();
  });
  // One that somebody outside is about to launch is not live yet.
  return all_stuck && count == live_count() ? fibers : "";
}

std::string SchedulerCore::dump() {
  std::string lines;
  std::size_t count = 0;
  {
    const Census census;
    fibers_.for_each_live([&](const Fiber& fiber) {
      ++count;
      lines += "\n  " + fiber.describe();
    });
  }
  return "leat: " + std::to_string(count) + " fibers on " + std::to_string(worker_count_) +
         " workers" + (count > 0 ? ":" : "") + lines + "\n";
}

bool SchedulerCore::end_deadlock() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  // lock_ is held while they are listed: whoever is woken by somebody outside cannot run.
  const std::string fibers = list_stuck();
  if (fibers.empty()) return false;
  const std::uint64_t now = progress();
  const int step = shutting_down_.load(std::memory_order_relaxed)
                       ? (now == stepped_at_ ? deadlock_steps_ + 1 : 1)
                       : 0;  // 0: cancel
  deadlock_steps_ = step;
  stepped_at_ = now;
  const bool first = step > 0 && !std::exchange(shields_gave_way_, true);
  lock_.unlock();
  const std::string text = "all " + std::to_string(std::count(fibers.begin(), fibers.end(), '\n')) +
                           " fibers wait and nothing can wake them:" + fibers;
  root_->fail(std::make_exception_ptr(Deadlock("leat: deadlock: " + text)));
  if (step == 0) {
    stop_everything();
    lock_.lock();
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
  {
    const Census census;
    std::vector<Fiber*> ended;
    fibers_.for_each_live([&](Fiber& fiber) {
      if (fiber.break_wait(step)) ended.push_back(&fiber);
    });
    for (Fiber* const fiber : ended) fiber->ready_once_parked();
  }
  lock_.lock();
  return true;
}

}  // namespace leat
