// The operation on several channels that select() and Selector perform.
//
// Three passes:
//  1. The cases are tried one at a time. A select that finds a case ready ends here.
//  2. All channels are locked, in address order, and the cases are tried on one instant's state.
//  3. The operation enters every queue and waits. The peer that claims it decides which case is
//     performed.
#include <algorithm>
#include <atomic>
#include <boost/iterator/transform_iterator.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "leat/csp/base/random.h"
#include "leat/csp/channel/core.h"
#include "leat/csp/channel/park_fiber.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/wait/park.h"

namespace leat {
namespace {

// Of the caller's sequence. `fiber` is null on a plain thread: these share one.
std::uint64_t random_of(Fiber* fiber) noexcept {
  if (fiber != nullptr) return fiber->random();
  static std::atomic<std::uint64_t> counter{random_seed()};
  return mix(counter.fetch_add(kRandomStep, std::memory_order_relaxed));
}

// Orders the locks by address, so that two operations on the same channels cannot block each other.
void choose_lock_order(std::span<Case> cases) {
  for (Case& one : cases) one.lock_order = &one;
  const auto first = boost::make_transform_iterator(
      cases.begin(), [](Case& one) -> const Case*& { return one.lock_order; });
  std::sort(first, first + static_cast<std::ptrdiff_t>(cases.size()),
            [](const Case* a, const Case* b) { return std::less<>{}(a->channel, b->channel); });
}

// Calls `f` once for each distinct channel, in lock order.
template <class F>
void for_each_channel(std::span<Case> cases, F&& f) {
  const ChannelCore* previous = nullptr;
  for (const Case& one : cases) {
    ChannelCore* const channel = one.lock_order->channel;
    if (channel != previous) f(*channel);
    previous = channel;
  }
}

}  // namespace

/// One select.
class SelectOperation {
 public:
  explicit SelectOperation(std::span<Case> cases) noexcept
      : cases_(cases),
        worker_(Worker::current()),
        fiber_(worker_ != nullptr ? worker_->running() : nullptr),
        scheduler_(worker_ != nullptr ? &worker_->core() : nullptr) {}

  /// Tries the cases one at a time, in a random order. Returns the index of the one that was
  /// performed, or kNone. A case that does not look ready is not even locked.
  int try_each() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    for (std::size_t turn = 0; turn < cases_.size(); ++turn) {
      Case& one = case_in_poll_order(turn);
      ChannelCore* const channel = one.channel;
      if (channel == nullptr) continue;
      // Even if another case is performed, this channel must know its caller: see would_block().
      if (!channel->has_caller()) return kNone;
      if (channel->would_block(one.direction)) continue;
      WaitNode* peer = nullptr;
      channel->lock_.lock();
      const bool done = channel->attempt(one, peer, worker_);
      channel->lock_.unlock();
      if (!done) continue;
      if (peer != nullptr) peer->waiter->ready();
      return index_of(one);
    }
    return kNone;
  }

  /// Locks all channels, and tries the cases on one instant's state.
  int try_all() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    choose_lock_order(cases_);
    lock_all();
    for (std::size_t turn = 0; turn < cases_.size(); ++turn) {
      Case& one = case_in_poll_order(turn);
      WaitNode* peer = nullptr;
      if (one.channel == nullptr || !one.channel->attempt(one, peer, worker_)) continue;
      unlock_all();
      if (peer != nullptr) peer->waiter->ready();
      return index_of(one);
    }
    return kNone;
  }

  void lock_all() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    for_each_channel(cases_, [&](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS {
      c.lock_.lock();
      c.callers_.add(scheduler_);
    });
  }
  void unlock_all() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    for_each_channel(cases_,
                     [](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS { c.lock_.unlock(); });
  }

  /// Enters every queue, then waits. All channels are locked and none is ready.
  int wait(Deadline deadline) {
    const Wait wait{.reason = ParkReason::kSelect, .cases = cases_};
    const auto enqueue = [&](Waiter& waiter) LEAT_NO_THREAD_SAFETY_ANALYSIS {
      const Cycles now = coarse_now(worker_);
      bool locked = false;
      // In the order of polling, so that of several cases on one channel a peer may find any first.
      for (const Case& turn : cases_) {
        Case& one = cases_[turn.poll_order];
        if (one.channel == nullptr) continue;
        one.node.waiter = &waiter;
        one.node.outcome = index_of(one);
        one.node.since = now;
        locked = true;
        ++one.channel->waiters_to_return_;
        one.channel->queue(one.direction).push(one.node);
      }
      if constexpr (kTsan) {
        for_each_channel(cases_, [](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS {
          c.lock_.publish_before_switch();
        });
      }
      // Without a channel no lock keeps *this alive: a timer or a cancellation may end the wait,
      // and with it this object, as soon as the fiber is parked.
      if (!locked) return HeldLocks{};
      return HeldLocks{.drop = &unlock_after_switch, .argument = this};
    };
    const auto dequeue = [&](int decided) {
      for (Case& one : cases_) {
        if (one.channel == nullptr) continue;
        const bool chosen = index_of(one) == decided;
        if (chosen) one.closed = one.node.closed;
        // The chosen case was already taken out by its peer, unless the channel is closed.
        if (!chosen || one.closed) one.channel->dequeue(one, chosen);
      }
    };
    return fiber_ != nullptr ? park_fiber(*worker_, wait, deadline, enqueue, dequeue)
                             : park_current(wait, deadline, enqueue, dequeue);
  }

  static constexpr int kNone = -3;

 private:
  [[nodiscard]] int index_of(const Case& one) const noexcept {
    return static_cast<int>(&one - cases_.data());
  }

  // Draws the case whose turn it is from those not drawn yet (Fisher-Yates): every order is as
  // likely as every other. A random rotation would favour the first ready case after a run of idle
  // ones.
  Case& case_in_poll_order(std::size_t turn) noexcept {
    if (turn == 0) {
      for (std::uint32_t i = 0; i < cases_.size(); ++i) cases_[i].poll_order = i;
    }
    const auto is_ready = [&](std::size_t i) {
      const Case& one = cases_[cases_[turn + i].poll_order];
      return one.channel != nullptr && !one.channel->would_block(one.direction);
    };
    const std::size_t drawn =
        turn + choose(cases_.size() - turn, is_ready, [this] { return random_of(fiber_); });
    std::swap(cases_[turn].poll_order, cases_[drawn].poll_order);
    return cases_[cases_[turn].poll_order];
  }

  // Runs in the context of the fiber that runs next. The select may be woken before all locks are
  // dropped, but it cannot end: it takes every lock again except that of the channel it used. So
  // the cases exist while one lock is held. Each lock_order is read before the lock before it is
  // dropped, and nothing is read after the last lock. Hidden from the race detector: see SpinLock.
  __attribute__((no_sanitize("thread"))) static void unlock_after_switch(void* self) noexcept {
    const std::span<Case> cases = static_cast<SelectOperation*>(self)->cases_;
    const Case* one = cases.data();
    const Case* const end = one + cases.size();
    ChannelCore* channel = nullptr;
    while (one != end) {
      ChannelCore* const next = one->lock_order->channel;
      ++one;
      if (next == channel) continue;
      if (channel != nullptr) channel->lock_.unlock_after_switch();
      channel = next;
    }
    if (channel != nullptr) channel->lock_.unlock_after_switch();
  }

  const std::span<Case> cases_;
  Worker* const worker_;  // valid until the operation waits
  Fiber* const fiber_;
  const SchedulerCore* const scheduler_;
};

int select_cases(std::span<Case> cases, Deadline deadline) {
  count_operation(deadline);
  const int outcome = SelectOperation(cases).try_each();
  return outcome != SelectOperation::kNone ? outcome : select_cases_locked(cases, deadline);
}

int select_cases_locked(std::span<Case> cases, Deadline deadline) {
  SelectOperation select(cases);
  int outcome = select.try_all();
  if (outcome != SelectOperation::kNone) return outcome;
  if (deadline.is_now()) {
    select.unlock_all();
    return Waiter::kTimedOut;
  }
  outcome = select.wait(deadline);
  if (outcome == Waiter::kCancelled) throw Cancelled{};
  return outcome;
}

std::size_t choose_case(std::size_t count) noexcept {
  return choose(
      count, [](std::size_t) { return true; }, [] { return random_of(Fiber::current()); });
}

}  // namespace leat
