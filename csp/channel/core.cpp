#include "leat/csp/channel/core.h"

#include <atomic>
#include <functional>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/fiber/safepoint.h"
#include "leat/csp/sched/worker_switch.h"
#include "leat/csp/wait/park.h"
#include "leat/csp/wait/random.h"

namespace leat {
namespace {

std::size_t checked_capacity(std::int64_t capacity, const ElementType& element,
                             const std::string& name) {
  const auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (capacity < 0 || static_cast<std::size_t>(capacity) > most / element.size) {
    throw std::invalid_argument("leat: channel \"" + name + "\": capacity " +
                                std::to_string(capacity) + " is " +
                                (capacity < 0 ? "negative" : "too large"));
  }
  return static_cast<std::size_t>(capacity);
}

}  // namespace

ChannelCore::ChannelCore(std::int64_t capacity, const ElementType& element, std::string name)
    : capacity_(checked_capacity(capacity, element, name)),
      element_(element),
      name_(std::move(name)) {
  if (capacity_ == 0) return;
  const std::size_t bytes = capacity_ * element_.size;
  ring_ = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(element_.alignment)));
}

ChannelCore::~ChannelCore() {
  for (std::size_t left = count(); left > 0; --left) {
    element_.destroy(at(head_));
    head_ = after(head_);
  }
  ::operator delete(ring_, std::align_val_t(element_.alignment));
}

void ChannelCore::release() noexcept {
  // acq_rel: the last one sees what all others have done with the channel.
  if (shares_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const SpinLockGuard guard(lock_);
    orphaned_ = users_ > 0;
    if (orphaned_) return;  // the last of them frees it: leave_queue()
  }
  Safepoint::poll();
  delete this;
}

bool ChannelCore::close(std::exception_ptr cause) noexcept {
  WakeList wake;
  {
    const SpinLockGuard guard(lock_);
    touchers_.note(calling_scheduler());
    if (closed()) return false;
    closed_.store(true, std::memory_order_relaxed);
    cause_ = std::move(cause);
    for (WaitQueue* waiting : {&receivers_, &senders_}) {
      while (WaitNode* node = waiting->pop_claimed()) {
        node->closed = true;
        wake.add(*node);
      }
    }
  }
  wake.wake();
  return true;
}

std::size_t ChannelCore::size() const noexcept {
  const SpinLockGuard guard(lock_);
  return count();
}

ChannelStats ChannelCore::stats() const noexcept {
  const auto duration = [](Cycles cycles) {
    return Duration(
        static_cast<std::int64_t>(static_cast<double>(cycles) / cycles_per_nanosecond()));
  };
  const SpinLockGuard guard(lock_);
  return {.sent = sent_,
          .received = sent_ - count(),
          .buffered = count(),
          .capacity = capacity_,
          .senders = senders_.size(),
          .receivers = receivers_.size(),
          .send_wait = duration(senders_waited_),
          .recv_wait = duration(receivers_waited_)};
}

std::exception_ptr ChannelCore::cause() const noexcept {
  const SpinLockGuard guard(lock_);
  return cause_;
}

std::string ChannelCore::describe() const {
  return name_.empty() ? "a channel" : "channel \"" + name_ + "\"";
}

namespace {

inline Cycles coarse_now(const Worker* worker) noexcept {
  return worker != nullptr ? worker->coarse_now() : cycles_now();
}

// Two workers' clocks differ by what each has not read yet.
inline Cycles waited(const WaitNode& node, const Worker* worker) noexcept {
  const Cycles now = coarse_now(worker);
  return now > node.since ? now - node.since : 0;
}

}  // namespace

// Who is communicated with is done with the channel.
LEAT_INLINE WaitNode* ChannelCore::pop_sender(const Worker* worker) noexcept {
  WaitNode* const node = senders_.pop_claimed();
  if (node == nullptr) return nullptr;
  --users_;
  ++sent_;
  senders_waited_ += waited(*node, worker);
  return node;
}

LEAT_INLINE WaitNode* ChannelCore::pop_receiver(const Worker* worker) noexcept {
  WaitNode* const node = receivers_.pop_claimed();
  if (node == nullptr) return nullptr;
  --users_;
  receivers_waited_ += waited(*node, worker);
  return node;
}

LEAT_INLINE bool ChannelCore::attempt_send(Case& one, WaitNode*& peer,
                                           const Worker* worker) noexcept {
  if (closed()) {
    one.closed = true;
    return true;
  }
  peer = pop_receiver(worker);
  if (peer != nullptr) {
    element_.to_receiver(peer->slot, one.node.slot);
    ++sent_;
    return true;
  }
  if (count() == capacity_) return false;
  element_.to_ring(at(tail_), one.node.slot);
  tail_ = after(tail_);
  set_count(count() + 1);
  ++sent_;
  return true;
}

LEAT_INLINE bool ChannelCore::attempt_recv(Case& one, WaitNode*& peer,
                                           const Worker* worker) noexcept {
  if (count() > 0) {
    void* const oldest = at(head_);
    element_.to_receiver(one.node.slot, oldest);
    element_.destroy(oldest);
    head_ = after(head_);
    // The ring was full if somebody waits to send: the value enters behind all that are buffered.
    peer = pop_sender(worker);
    if (peer != nullptr) {
      element_.to_ring(at(tail_), peer->slot);
      tail_ = after(tail_);
    } else {
      set_count(count() - 1);
    }
    return true;
  }
  peer = pop_sender(worker);
  if (peer != nullptr) {  // a rendezvous: capacity 0
    element_.to_receiver(one.node.slot, peer->slot);
    return true;
  }
  one.closed = closed();
  return closed();
}

LEAT_INLINE bool ChannelCore::attempt(Case& one, WaitNode*& peer, const Worker* worker) noexcept {
  return one.direction == Case::Direction::kSend ? attempt_send(one, peer, worker)
                                                 : attempt_recv(one, peer, worker);
}

// `keep`: the caller goes on to ask the channel why it is closed.
void ChannelCore::leave_queue(Case& one, bool keep) noexcept {
  bool last = false;
  {
    const SpinLockGuard guard(lock_);
    queue(one.direction).remove(one.node);
    if (keep) {
      retain();
      orphaned_ = false;
      one.keep = ChannelRef(this);
    }
    last = --users_ == 0 && orphaned_;
  }
  if (!last) return;
  Safepoint::poll();
  delete this;
}

namespace {

// park_current() on a fiber, inlined down to the switch.
template <class Enqueue, class Dequeue>
LEAT_INLINE int park_fiber(Worker& worker, const Wait& what, Deadline deadline, Enqueue&& enqueue,
                           Dequeue&& dequeue) {
  Fiber& fiber = *worker.running();
  fiber.begin(what);
  const HeldLocks held = enqueue(fiber);
  fiber.park_here(worker, deadline, held);
  const int outcome = fiber.outcome();
  dequeue(outcome);
  fiber.end();
  return outcome;
}

// Without any lock held. `worker` is the caller's, null on a plain thread.
LEAT_INLINE void wake(WaitNode* peer, Worker* worker) noexcept {
  if (peer == nullptr) return;
  if (peer->waiter->is_fiber()) {
    static_cast<Fiber*>(peer->waiter)->ready_from(worker);
  } else {
    peer->waiter->ready();
  }
}

}  // namespace

int ChannelCore::communicate_one(Case& one, Deadline deadline) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  Worker* const worker = Worker::current();
  WaitNode* peer = nullptr;
  if (attempt(one, peer, worker)) {
    lock_.unlock();
    wake(peer, worker);
    return 0;
  }
  if (deadline.is_now()) {
    lock_.unlock();
    return Waiter::kTimedOut;
  }
  const Wait wait{
      .reason = one.direction == Case::Direction::kSend ? ParkReason::kSend : ParkReason::kRecv,
      .cases = {&one, 1}};
  const auto enqueue = [&](Waiter& waiter) LEAT_NO_THREAD_SAFETY_ANALYSIS {
    one.node.waiter = &waiter;
    one.node.since = coarse_now(worker);
    ++users_;
    queue(one.direction).push(one.node);
    lock_.publish_before_switch();
    return HeldLocks{.one = &lock_};
  };
  const auto dequeue = [&](int decided) {
    one.closed = one.node.closed;
    if (__builtin_expect(decided < 0 || one.closed, 0)) leave_queue(one, one.closed);
  };
  const int outcome = worker != nullptr && worker->running() != nullptr
                          ? park_fiber(*worker, wait, deadline, enqueue, dequeue)
                          : park_current(wait, deadline, enqueue, dequeue);
  if (__builtin_expect(outcome == Waiter::kCancelled, 0)) throw Cancelled{};
  return outcome;
}

namespace {

// `fiber`: the caller. Plain threads share one sequence.
std::size_t choose(std::size_t count, [[maybe_unused]] Fiber* fiber) noexcept {
#if defined(LEAT_EXPLORE)
  return hooks::choose(count);
#else
  static std::atomic<std::uint64_t> counter{0};
  const std::uint64_t random = fiber != nullptr
                                   ? fiber->random()
                                   : mix(counter.fetch_add(kRandomStep, std::memory_order_relaxed));
  // The upper half of a product instead of a division; the bias is below 2^-16, for as many cases
  // as there can be, and below 2^-28 for 8.
  return ((random >> 32U) * count) >> 32U;
#endif
}

// Address order, so that two operations on the same channels cannot block each other. By insertion
// where there are few cases, by a heap where there are many.
bool locks_before(const Case* a, const Case* b) noexcept {
  return std::less<>{}(a->channel, b->channel);
}

void choose_lock_order_of_many(std::span<Case> cases) noexcept {
  const auto at = [&](std::size_t i) -> const Case*& { return cases[i].in_lock_order; };
  for (Case& one : cases) one.in_lock_order = &one;
  const auto sift_down = [&](std::size_t i, std::size_t size) {
    const Case* const moved = at(i);
    for (std::size_t child = 2 * i + 1; child < size; child = 2 * i + 1) {
      if (child + 1 < size && locks_before(at(child), at(child + 1))) ++child;
      if (!locks_before(moved, at(child))) break;
      at(i) = at(child);
      i = child;
    }
    at(i) = moved;
  };
  for (std::size_t i = cases.size() / 2; i-- > 0;) sift_down(i, cases.size());
  for (std::size_t size = cases.size(); size-- > 1;) {
    std::swap(at(0), at(size));
    sift_down(0, size);
  }
}

void choose_lock_order(std::span<Case> cases) noexcept {
  constexpr std::size_t kFew = 32;
  if (cases.size() > kFew) {
    choose_lock_order_of_many(cases);
    return;
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::size_t j = i;
    for (; j > 0 && locks_before(&cases[i], cases[j - 1].in_lock_order); --j) {
      cases[j].in_lock_order = cases[j - 1].in_lock_order;
    }
    cases[j].in_lock_order = &cases[i];
  }
}

// Calls `f` once for each distinct channel, in lock order.
template <class F>
void for_each_channel(std::span<Case> cases, F&& f) {
  const ChannelCore* previous = nullptr;
  for (const Case& one : cases) {
    ChannelCore* const channel = one.in_lock_order->channel;
    if (channel != previous) f(*channel);
    previous = channel;
  }
}

}  // namespace

/// One select.
class Communication {
 public:
  explicit Communication(std::span<Case> cases) noexcept
      : cases_(cases),
        worker_(Worker::current()),
        fiber_(worker_ != nullptr ? worker_->running() : nullptr),
        scheduler_(calling_scheduler()) {}

  /// Tries the cases one at a time, in a random order: the index of one that communicated, or
  /// kNone. What looks not ready is not even locked.
  int try_each() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    for (std::size_t turn = 0; turn < cases_.size(); ++turn) {
      Case& one = at_turn(turn);
      ChannelCore* const channel = one.channel;
      if (channel == nullptr) continue;
      // Also if another channel is taken now: see must_wait().
      if (!channel->knows_caller()) return kNone;
      if (channel->must_wait(one.direction)) continue;
      WaitNode* peer = nullptr;
      channel->lock_.lock();
      const bool done = channel->attempt(one, peer, worker_);
      channel->lock_.unlock();
      if (!done) continue;
      wake(peer, worker_);
      return index_of(one);
    }
    return kNone;
  }

  /// With all channels locked: decided on one instant's state.
  int try_all() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    choose_lock_order(cases_);
    lock_all();
    for (std::size_t turn = 0; turn < cases_.size(); ++turn) {
      Case& one = at_turn(turn);
      WaitNode* peer = nullptr;
      if (one.channel == nullptr || !one.channel->attempt(one, peer, worker_)) continue;
      unlock_all();
      wake(peer, worker_);
      return index_of(one);
    }
    return kNone;
  }

  void lock_all() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    for_each_channel(cases_, [&](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS {
      c.lock_.lock();
      c.touchers_.note(scheduler_);
    });
  }
  void unlock_all() noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
    for_each_channel(cases_,
                     [](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS { c.lock_.unlock(); });
  }

  /// All channels are locked and none is ready: stands in every queue, then waits.
  int wait(Deadline deadline) {
    const Wait wait{.reason = ParkReason::kSelect, .cases = cases_};
    const auto enqueue = [&](Waiter& waiter) LEAT_NO_THREAD_SAFETY_ANALYSIS {
      const Cycles now = coarse_now(worker_);
      // In the order of trial: of several cases on one channel a peer finds any first.
      for (const Case& turn : cases_) {
        Case& one = cases_[turn.trial];
        if (one.channel == nullptr) continue;
        one.node.waiter = &waiter;
        one.node.outcome = index_of(one);
        one.node.since = now;
        ++one.channel->users_;
        one.channel->queue(one.direction).push(one.node);
      }
      if constexpr (kTsan) {
        for_each_channel(cases_, [](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS {
          c.lock_.publish_before_switch();
        });
      }
      return HeldLocks{.drop = &unlock_after_switch, .argument = this};
    };
    const auto dequeue = [&](int decided) {
      for (Case& one : cases_) {
        if (one.channel == nullptr) continue;
        const bool chosen = index_of(one) == decided;
        if (chosen) one.closed = one.node.closed;
        // Who has communicated is not expected to come back.
        if (!chosen || one.closed) one.channel->leave_queue(one, chosen);
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
  Case& at_turn(std::size_t turn) noexcept {
    if (turn == 0) {
      for (std::uint32_t i = 0; i < cases_.size(); ++i) cases_[i].trial = i;
    }
    const std::size_t left = cases_.size() - turn;
    if (left > 1) std::swap(cases_[turn].trial, cases_[turn + choose(left, fiber_)].trial);
    return cases_[cases_[turn].trial];
  }

  // The select goes on once all are unlocked, and maybe before, but it takes every lock again
  // except that of the channel it communicated on, before it leaves: so as long as one is held, the
  // cases exist. Hence each is read before a lock is dropped, and nothing after the last. Not
  // checked for races: runs in the context of whatever runs next.
  __attribute__((no_sanitize("thread"))) static void unlock_after_switch(void* self) noexcept {
    const std::span<Case> cases = static_cast<Communication*>(self)->cases_;
    const Case* one = cases.data();
    const Case* const end = one + cases.size();
    ChannelCore* channel = nullptr;
    while (one != end) {
      ChannelCore* const next = one->in_lock_order->channel;
      ++one;
      if (next == channel) continue;
      if (channel != nullptr) channel->lock_.unlock_after_switch();
      channel = next;
    }
    if (channel != nullptr) channel->lock_.unlock_after_switch();
  }

  const std::span<Case> cases_;
  Worker* const worker_;  // until it waits
  Fiber* const fiber_;
  const SchedulerCore* const scheduler_;
};

int communicate(std::span<Case> cases, Deadline deadline) {
  const int outcome = Communication(cases).try_each();
  return outcome != Communication::kNone ? outcome : communicate_later(cases, deadline);
}

int communicate_later(std::span<Case> cases, Deadline deadline) {
  Communication select(cases);
  int outcome = select.try_all();
  if (outcome != Communication::kNone) return outcome;
  if (deadline.is_now()) {
    select.unlock_all();
    return Waiter::kTimedOut;
  }
  outcome = select.wait(deadline);
  if (outcome == Waiter::kCancelled) throw Cancelled{};
  return outcome;
}

std::size_t choose_case(std::size_t count) noexcept { return choose(count, Fiber::current()); }

int communicate_with_nobody(Case& one, Deadline deadline) {
  if (deadline.is_now()) return Waiter::kTimedOut;
  const ParkReason reason =
      one.direction == Case::Direction::kSend ? ParkReason::kSend : ParkReason::kRecv;
  const int outcome = park_current(
      {.reason = reason, .cases = {&one, 1}}, deadline, [](Waiter&) { return HeldLocks{}; },
      [](int) {});
  if (outcome == Waiter::kCancelled) throw Cancelled{};
  return outcome;
}

}  // namespace leat
