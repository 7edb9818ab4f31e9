// How a worker takes fibers from the queues of others: as a thief that has nothing to run, and as
// the monitor that finds a stalled worker.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "leat/csp/base/cycles.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/sched/worker.h"

namespace leat {

Fiber* Worker::steal() noexcept {
  const std::size_t count = core_.workers_.size();
  for (std::size_t i = 1; i < count; ++i) {
    Worker& victim = *core_.workers_[(index_ + i) % count];
    if (Fiber* const fiber = victim.handoff_.take(false)) return fiber;
    if (!is_worth_stealing(victim)) continue;
    if (Fiber* const fiber = steal_from(victim)) return fiber;
  }
  return nullptr;
}

// Returns whether to steal from the victim's ring:
//
// Ring                                | is stolen from
// small, and its owner runs one fiber | once it has not changed for kStealAfterFew
// any                                 | once it has not changed for kStealAfterMany
// larger, and changing                | after kStealAfterMany, if its owner needs kStealPayoff more
//
// Moving the cache lines of the stolen fibers, and of the data that they share with the others,
// costs more than many short slices. So does each look, for the owner of the ring: its next push,
// pop and switch wait for a cache line each. So a spinner looks seldom, and more so at a ring that
// moves.
bool Worker::is_worth_stealing(Worker& victim) noexcept {
  const SchedulerCore::Thresholds& thresholds = core_.thresholds_;
  Seen::Ring& seen = seen_[victim.index_].ring;
  const Cycles now = cycles_now();
  if (now < seen.next_look) return false;
  seen.next_look = now + thresholds.look_at_still;
  const std::uint32_t size = victim.ring_.size();
  if (size == 0 || size > RunRing::kSize) {  // the latter: it changes between the two readings
    seen.since = 0;
    return false;
  }
  const bool small = size < tuning::kSmallQueue;
  Seen::Ring ring{.switches = victim.switches_.get(),
                  .taken = victim.ring_.taken(),
                  .since = now,
                  .next_look = seen.next_look};
  const auto not_yet = [&] {
    seen = ring;  // the times count from here
    return false;
  };
  if (seen.since == 0) return not_yet();  // it was empty
  ring.next_look = now + thresholds.look_at_moving;
  const Cycles passed = now - seen.since;
  const std::uint32_t ran = ring.taken - seen.taken;
  if (small && ran > 0) return not_yet();
  if (small && ring.switches == seen.switches) return passed >= thresholds.steal_after_few;
  if (passed < thresholds.steal_after_many) return false;
  if (ran == 0) return true;
  const Cycles needed = passed / ran * size;
  if (needed >= thresholds.steal_payoff) return true;
  return not_yet();
}

// Returns one of the fibers, and queues the others here.
Fiber* Worker::steal_from(Worker& victim) noexcept {
  std::array<Fiber*, RunRing::kSize / 2> taken;
  const std::uint32_t count = victim.ring_.steal_half(taken);
  if (count == 0) return nullptr;
  seen_[victim.index_].ring.since = 0;
  for (std::uint32_t i = 1; i < count; ++i) push_back(*taken[i]);
  return taken[0];
}

void Worker::remember_progress() noexcept {
  for (const auto& worker : core_.workers_) {
    seen_[worker->index_].switches = worker->switches_.get();
  }
}

bool Worker::sees_stalled_worker() noexcept {
  const bool one =
      std::any_of(core_.workers_.begin(), core_.workers_.end(), [&](const auto& other) {
        return other.get() != this && other->has_retakable() &&
               seen_[other->index_].switches == other->switches_.get();
      });
  if (!one) remember_progress();  // otherwise retake() compares with the earlier state
  return one;
}

Fiber* Worker::retake() noexcept {
  Fiber* retaken = nullptr;
  for (const auto& worker : core_.workers_) {
    Seen& seen = seen_[worker->index_];
    const std::uint64_t switches = worker->switches_.get();
    if (retaken == nullptr && worker.get() != this && seen.switches == switches) {
      retaken = steal_from(*worker);
      if (retaken == nullptr) retaken = worker->run_next_.take(false);
      if (retaken == nullptr) retaken = worker->handoff_.take(false);
      if (retaken != nullptr && retaken->home_.get() != nullptr) {
        core_.push_remote(*retaken);  // pinned there: to its worker's inbox
        retaken = nullptr;
      }
    }
    seen.switches = switches;
  }
  return retaken;
}

}  // namespace leat
