// Looking at all fibers, and ending a deadlock.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "leat/csp/base/asymmetric_fence.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/channel/core.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/fiber/safepoint.h"
#include "leat/csp/sched/scheduler_core.h"
#include "leat/csp/task_group.h"

namespace leat {
namespace {

// Returns whether only a fiber of the same scheduler could wake `fiber`. Called while no fiber
// runs.
bool is_stuck(const Fiber& fiber) noexcept {
  if (!fiber.undecided(std::memory_order_acquire)) return false;
  const Wait& wait = fiber.wait();
  if (wait.object != nullptr && wait.object->callers != nullptr &&
      wait.object->callers->has_outsiders()) {
    return false;
  }
  return std::none_of(wait.cases.begin(), wait.cases.end(), [](const Case& one) {
    return one.channel != nullptr && one.channel->callers().has_outsiders();
  });
}

// Returns what the fiber waits for, and since when. Called while a Safepoint lives, or while no
// fiber runs.
std::string state_of(const Fiber& fiber) {
  // acquire: what begin() wrote.
  if (!fiber.undecided(std::memory_order_acquire)) return "runs, or can run";
  std::string line = "waits for ";
  line += to_string(fiber.wait().reason);
  const char* separator = " on ";
  for (const Case& one : fiber.wait().cases) {
    line += separator;
    line += one.channel == nullptr ? "the nil channel" : one.channel->describe();
    separator = ", ";
  }
  const Cycles now = cycles_now();
  const Cycles passed = now > fiber.waits_since() ? now - fiber.waits_since() : 0;
  const double milliseconds = static_cast<double>(passed) / cycles_per_nanosecond() / 1e6;
  if (milliseconds >= 1) {
    line += ", for " + std::to_string(static_cast<std::uint64_t>(milliseconds)) + " ms";
  }
  return line;
}

// Returns one line: the label, and the state. Called as state_of() is.
std::string describe(const Fiber& fiber) { return fiber.label() + " " + state_of(fiber); }

// Returns the beginning of the text of a deadlock: why no timer may be left, where virtual time is
// so late that sleeps beyond its end may have none (Deadline::after).
std::string near_the_end(const Clock& clock) {
  const Duration now = clock.now().time_since_epoch();
  if (!clock.is_virtual() || now < Duration::max() / 2) return {};
  return "virtual time ends at 2^63 ns (292 years) and has reached " + std::to_string(now.count()) +
         " ns: waits that would end later never do; ";
}

// The graph of fibers that wait for each other:
//
// Waits on                                | for
// a mutex                                 | its holder
// a group that is joined or full          | the group's fibers
// a channel, a semaphore, a notification  | not known
class WaitsFor {
 public:
  explicit WaitsFor(const std::vector<const Fiber*>& fibers) : fibers_(fibers) {
    for (std::size_t i = 0; i < fibers.size(); ++i) {
      with_id_[fibers[i]->id()].push_back(i);
      in_group_[fibers[i]->group()].push_back(i);
    }
  }

  /// A list in which each fiber waits for the next, and the last for the first; empty if there is
  /// no such cycle.
  [[nodiscard]] std::vector<const Fiber*> find_cycle() const {
    enum class State : std::uint8_t { kUnseen, kOnPath, kDone };
    struct Step {
      std::size_t fiber;
      std::size_t followed;  // how many of the fibers that it waits for were followed
    };
    std::vector<State> states(fibers_.size(), State::kUnseen);
    std::vector<Step> path;
    for (std::size_t start = 0; start < fibers_.size(); ++start) {
      if (states[start] != State::kUnseen) continue;
      states[start] = State::kOnPath;
      path.push_back({start, 0});
      while (!path.empty()) {
        const std::vector<std::size_t>& others = awaited_by(path.back().fiber);
        if (path.back().followed == others.size()) {
          states[path.back().fiber] = State::kDone;
          path.pop_back();
          continue;
        }
        const std::size_t next = others[path.back().followed++];
        if (states[next] == State::kUnseen) {
          states[next] = State::kOnPath;
          path.push_back({next, 0});
        } else if (states[next] == State::kOnPath) {
          std::vector<const Fiber*> cycle;
          for (const Step& step : path) {
            if (step.fiber == next) cycle.clear();
            cycle.push_back(fibers_[step.fiber]);
          }
          return cycle;
        }
      }
    }
    return {};
  }

 private:
  [[nodiscard]] const std::vector<std::size_t>& awaited_by(std::size_t fiber) const {
    static const std::vector<std::size_t> none;
    const WaitObject* const object = fibers_[fiber]->wait().object;
    if (object == nullptr) return none;
    if (object->holder != nullptr) {
      const auto found = with_id_.find(object->holder->load(std::memory_order_relaxed));
      if (found != with_id_.end()) return found->second;
    } else if (object->group != nullptr) {
      const auto found = in_group_.find(object->group);
      if (found != in_group_.end()) return found->second;
    }
    return none;
  }

  const std::vector<const Fiber*>& fibers_;
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> with_id_;
  std::unordered_map<const GroupCore*, std::vector<std::size_t>> in_group_;
};

std::string why(const Fiber& waiting, const std::string& other) {
  const ParkReason reason = waiting.wait().reason;
  if (reason == ParkReason::kJoin || reason == ParkReason::kEnd) return other + " to end";
  return std::string(to_string(reason)) +
         (reason == ParkReason::kLimit ? ", which is taken by " : ", which is held by ") + other;
}

std::string describe(const std::vector<const Fiber*>& stuck) {
  std::string text = stuck.size() == 1 ? "the only fiber waits and nothing can wake it:"
                                       : "all " + std::to_string(stuck.size()) +
                                             " fibers wait and nothing can wake them:";
  for (const Fiber* const fiber : stuck) text += "\n  " + describe(*fiber);
  const std::vector<const Fiber*> cycle = WaitsFor(stuck).find_cycle();
  if (cycle.empty()) return text;
  text += "\nin a cycle:";
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    text += "\n  " + cycle[i]->label() + " waits for " +
            why(*cycle[i], cycle[(i + 1) % cycle.size()]->label());
  }
  return text;
}

}  // namespace

void SchedulerCore::cancel_root_fibers() noexcept {
  // A launcher has either counted its fiber by now, or sees that the group is stopped.
  heavy_fence();
  Fiber* const caller = Fiber::current();
  const bool in_root = caller != nullptr && caller->group() == root_.get();
  if (root_count() == (in_root ? 1 : 0)) {  // no need to look at all fibers of the scheduler
    if (in_root) caller->request_cancel();
    return;
  }
  const auto for_each = [this](auto&& visit) {
    fibers_.for_each_live([&](Fiber& fiber) {
      if (fiber.group() == root_.get()) visit(fiber);
    });
  };
  FiberList cancelled;
  {
    const Safepoint safepoint;
    for_each([](Fiber& fiber) { fiber.request_cancel(); });
    heavy_fence();
    for_each([&](Fiber& fiber) {
      if (fiber.deliver_cancel()) cancelled.push(fiber);
    });
  }
  cancelled.make_ready();
}

bool SchedulerCore::all_stuck() noexcept {
  // A fiber that waits for something outside usually does so again, so it is checked first.
  const auto may_be_woken = [](const Fiber& fiber) {
    return fiber.live_.load(std::memory_order_acquire) && !is_stuck(fiber);
  };
  if (not_stuck_ != nullptr && may_be_woken(*not_stuck_)) return false;
  const Fiber* not_stuck = nullptr;
  std::uint64_t count = 0;
  fibers_.for_each_live([&](const Fiber& fiber) {
    ++count;
    if (not_stuck == nullptr && may_be_woken(fiber)) not_stuck = &fiber;
  });
  not_stuck_ = not_stuck;
  // A fiber that a thread outside is about to launch is counted, and not live yet.
  return not_stuck == nullptr && count == live_count();
}

std::vector<const Fiber*> SchedulerCore::stuck_fibers() {
  if (!all_stuck()) return {};
  std::vector<const Fiber*> fibers;
  fibers.reserve(live_count());
  fibers_.for_each_live([&](const Fiber& fiber) { fibers.push_back(&fiber); });
  return fibers;
}

std::string SchedulerCore::dump() {
  std::string lines;
  std::size_t count = 0;
  {
    const Safepoint safepoint;
    fibers_.for_each_live([&](const Fiber& fiber) {
      ++count;
      lines += "\n  " + describe(fiber);
    });
  }
  return "leat: " + std::to_string(count) + " fibers on " + std::to_string(worker_count_) +
         " workers" + (count > 0 ? ":" : "") + lines + "\n";
}

std::vector<FiberReport> SchedulerCore::fibers_of(const GroupCore& group) {
  std::vector<FiberReport> reports;
  {
    const Safepoint safepoint;
    fibers_.for_each_live([&](const Fiber& fiber) {
      if (fiber.group() != &group) return;
      reports.push_back(
          {.id = fiber.id(), .name = std::string(fiber.name()), .state = state_of(fiber)});
    });
  }
  std::ranges::sort(reports, {}, &FiberReport::id);
  return reports;
}

bool SchedulerCore::seeks_deadlock() const noexcept {
  return throws_deadlock_ && !timers_may_wake() && outside_work_ == 0 &&
         deadlock_sought_at_ != progress();
}

bool SchedulerCore::deadlock_is_certain() noexcept {
  if (clock_->is_virtual()) return true;
  const TimePoint now = clock_->now();
  // At least 1 ns: otherwise a look would count for nothing, and no deadlock would be told.
  const Duration between_looks =
      std::max(deadlock_after_ / tuning::kLooksBeforeDeadlock, Duration(1));
  if (const std::uint64_t seen = progress(); seen != stuck_at_) {
    stuck_at_ = seen;
    stuck_for_ = Duration::zero();
  } else {
    stuck_for_ += std::min(now - stuck_seen_at_, 2 * between_looks);
  }
  stuck_seen_at_ = now;
  next_stuck_look_ = Deadline::after(now, between_looks).at();
  return stuck_for_ >= deadlock_after_;
}

DeadlockStep SchedulerCore::next_deadlock_step() noexcept {
  const std::uint64_t now = progress();
  if (!shutting_down_.load(std::memory_order_relaxed)) {
    deadlock_step_ = DeadlockStep::kCancel;
  } else if (now != deadlock_step_at_) {
    deadlock_step_ = DeadlockStep::kBreakWaits;
  } else if (deadlock_step_ != DeadlockStep::kBreakDestructors) {
    deadlock_step_ = static_cast<DeadlockStep>(static_cast<int>(deadlock_step_) + 1);
  }
  deadlock_step_at_ = now;
  return deadlock_step_;
}

bool SchedulerCore::end_deadlock() noexcept {
  // Under lock_: a fiber that another thread wakes meanwhile cannot run. The lock may be held for
  // long here: no worker runs.
  std::exception_ptr error;
  std::string text;
  try {
    const std::vector<const Fiber*> stuck = stuck_fibers();
    if (stuck.empty()) return false;
    text = near_the_end(*clock_) + describe(stuck);
    error = std::make_exception_ptr(Deadlock("leat: deadlock: " + text));
  } catch (const std::bad_alloc&) {
    error = std::current_exception();  // they are stuck, and there is no memory to say who
  }
  const DeadlockStep step = next_deadlock_step();
  const bool breaks = step != DeadlockStep::kCancel;
  const bool breaks_first = breaks && !std::exchange(reported_broken_shields_, true);
  const SpinUnlockGuard unlocked(lock_);
  root_->fail(error);
  if (!breaks) {
    stop_everything();
    return true;
  }
  if (breaks_first) {
    // A shield may be in a destructor, which no exception can leave. Then the program terminates,
    // and this line is the only explanation.
    std::fprintf(stderr, "leat: deadlock, shielded from cancellation; the shields give way: %s\n",
                 text.c_str());
  }
  // All waits are ended before any fiber runs: a fiber that runs would wake others, whose next
  // waits are not part of the deadlock.
  FiberList ended;
  {
    const Safepoint safepoint;
    fibers_.for_each_live([&](Fiber& fiber) {
      if (fiber.break_wait(step)) ended.push(fiber);
    });
  }
  ended.make_ready();
  return true;
}

}  // namespace leat
