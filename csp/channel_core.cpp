#include "leat/csp/channel_core.h"

#include <atomic>
#include <functional>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "leat/csp/error.h"
#include "leat/csp/fiber.h"
#include "leat/csp/park.h"
#include "leat/csp/random.h"

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

ChannelCore::ChannelCore(std::int64_t capacity, ElementType element, std::string name)
    : element_(element),
      capacity_(checked_capacity(capacity, element, name)),
      name_(std::move(name)) {
  if (capacity_ == 0) return;
  const std::size_t bytes = capacity_ * element_.size;
  ring_ = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(element_.alignment)));
}

ChannelCore::~ChannelCore() {
  for (; count_ > 0; --count_) element_.destroy(at(head_++));
  ::operator delete(ring_, std::align_val_t(element_.alignment));
}

bool ChannelCore::close(std::exception_ptr cause) noexcept {
  WakeList wake;
  {
    const SpinLockGuard guard(lock_);
    if (closed_) return false;
    closed_ = true;
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
  return count_;
}

std::exception_ptr ChannelCore::cause() const noexcept {
  const SpinLockGuard guard(lock_);
  return cause_;
}

std::string ChannelCore::describe() const {
  return name_.empty() ? "a channel" : "channel \"" + name_ + "\"";
}

bool ChannelCore::attempt(Case& one, WakeList& wake) noexcept {
  return one.direction == Case::Direction::kSend ? attempt_send(one, wake)
                                                 : attempt_recv(one, wake);
}

bool ChannelCore::attempt_send(Case& one, WakeList& wake) noexcept {
  if (closed_) {
    one.closed = true;
    return true;
  }
  if (WaitNode* const receiver = receivers_.pop_claimed()) {
    element_.move_construct(receiver->slot, one.slot);
    wake.add(*receiver);
    return true;
  }
  if (count_ == capacity_) return false;
  element_.move_construct(at(head_ + count_), one.slot);
  ++count_;
  return true;
}

bool ChannelCore::attempt_recv(Case& one, WakeList& wake) noexcept {
  if (count_ > 0) {
    void* const oldest = at(head_);
    element_.move_construct(one.slot, oldest);
    element_.destroy(oldest);
    head_ = (head_ + 1) % capacity_;
    --count_;
    // The ring was full if somebody waits to send: the value enters behind all that are buffered.
    if (WaitNode* const sender = senders_.pop_claimed()) {
      element_.move_construct(at(head_ + count_), sender->slot);
      ++count_;
      wake.add(*sender);
    }
    return true;
  }
  if (WaitNode* const sender = senders_.pop_claimed()) {  // a rendezvous: capacity 0
    element_.move_construct(one.slot, sender->slot);
    wake.add(*sender);
    return true;
  }
  one.closed = closed_;
  return closed_;
}

namespace {

// Only ever asked for by a select with several cases. Plain threads share one sequence.
std::uint64_t random_number(Fiber* fiber) noexcept {
  if (fiber != nullptr) return fiber->random();
  static std::atomic<std::uint64_t> counter{0};
  return mix(counter.fetch_add(kRandomStep, std::memory_order_relaxed));
}

// A uniform permutation of the cases (Fisher-Yates, inside out). A random rotation would favour
// the first ready case after a run of idle ones.
void choose_trial_order(std::span<Case> cases, Fiber* fiber) noexcept {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::size_t j = i == 0 ? 0 : random_number(fiber) % (i + 1);
    cases[i].in_trial_order = cases[j].in_trial_order;
    cases[j].in_trial_order = &cases[i];
  }
}

// Address order, so that two operations on the same channels cannot block each other. By insertion
// where there are few cases, by a heap where there are many.
bool locks_before(const Case* a, const Case* b) noexcept {
  return std::less<>{}(a->channel, b->channel);
}

void choose_lock_order_of_many(std::span<Case> cases) noexcept {
  const auto at = [&](std::size_t i) -> Case*& { return cases[i].in_lock_order; };
  for (Case& one : cases) one.in_lock_order = &one;
  const auto sift_down = [&](std::size_t i, std::size_t size) {
    Case* const moved = at(i);
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

int communicate(std::span<Case> cases, Deadline deadline,
                ParkReason reason) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  Fiber* const fiber = Fiber::current();
  choose_trial_order(cases, fiber);
  choose_lock_order(cases);
  const auto lock_all = [&] {
    for_each_channel(cases, [](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS { c.lock_.lock(); });
  };
  const auto unlock_all = [&] {
    for_each_channel(cases,
                     [](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS { c.lock_.unlock(); });
  };

  // 1. All channels locked: communicate one that can.
  lock_all();
  const SchedulerCore* const scheduler = fiber != nullptr ? &fiber->core() : nullptr;
  for_each_channel(
      cases, [&](ChannelCore& c) LEAT_NO_THREAD_SAFETY_ANALYSIS { c.touchers_.note(scheduler); });
  for (const Case& trial : cases) {
    Case& one = *trial.in_trial_order;
    WakeList wake;
    if (one.channel == nullptr || !one.channel->attempt(one, wake)) continue;
    const int index = static_cast<int>(&one - cases.data());
    unlock_all();
    wake.wake();
    return index;
  }
  if (deadline.is_now()) {
    unlock_all();
    return Operation::kTimedOut;
  }

  // 2. Still locked, so that no peer slips in between: stand in every queue, then wait.
  // 3. Somebody has decided: leave the other queues.
  const int outcome = park_current(
      reason, deadline, cases, nullptr,
      [&](Operation& operation) LEAT_NO_THREAD_SAFETY_ANALYSIS {
        for (Case& one : cases) {
          if (one.channel == nullptr) continue;
          one.keep = one.channel->shared_from_this();
          one.node.operation = &operation;
          one.node.outcome = static_cast<int>(&one - cases.data());
          one.node.slot = one.slot;
          one.channel->queue(one.direction).push(one.node);
        }
        unlock_all();
      },
      [&] {
        for (Case& one : cases) {
          if (one.channel == nullptr) continue;
          const SpinLockGuard guard(one.channel->lock_);
          one.channel->queue(one.direction).remove(one.node);
        }
      });
  if (outcome == Operation::kCancelled) throw Cancelled{};
  if (outcome >= 0) {
    Case& chosen = cases[static_cast<std::size_t>(outcome)];
    chosen.closed = chosen.node.closed;
  }
  return outcome;
}

}  // namespace leat
