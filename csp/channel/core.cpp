#include "leat/csp/channel/core.h"

#include <atomic>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "leat/csp/channel/park_fiber.h"
#include "leat/csp/error.h"
#include "leat/csp/fiber/fiber.h"
#include "leat/csp/fiber/safepoint.h"
#include "leat/csp/wait/park.h"

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
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const SpinLockGuard guard(lock_);
    unowned_ = waiters_to_return_ > 0;
    if (unowned_) return;  // the last waiter frees the channel: dequeue()
  }
  free();
}

void ChannelCore::free() noexcept {
  Safepoint::poll();
  if (element_.free != nullptr) return element_.free(this);
  delete this;
}

bool ChannelCore::close(std::exception_ptr cause) noexcept {
  WakeList wake;
  const SpinLockGuard guard(lock_);
  callers_.add(calling_scheduler());
  if (closed()) return false;
  attend(kClosed);
  cause_ = std::move(cause);
  for (WaitQueue* waiting : {&receivers_, &senders_}) {
    while (WaitNode* node = waiting->pop_claimed()) {
      node->closed = true;
      wake.add(*node);
    }
  }
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
  return {.sent = sent(),
          .received = sent() - count(),
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

// `now` may be earlier than node.since, which another worker set: workers read the time only from
// time to time.
inline Cycles waited(const WaitNode& node, const Worker* worker) noexcept {
  const Cycles now = coarse_now(worker);
  return now > node.since ? now - node.since : 0;
}

}  // namespace

// The popped operation will not touch the channel again, so it is no longer counted.
LEAT_INLINE WaitNode* ChannelCore::pop_sender(const Worker* worker) noexcept {
  WaitNode* const node = senders_.pop_claimed();
  if (node == nullptr) return nullptr;
  --waiters_to_return_;
  senders_waited_ += waited(*node, worker);
  return node;
}

LEAT_INLINE WaitNode* ChannelCore::pop_receiver(const Worker* worker) noexcept {
  WaitNode* const node = receivers_.pop_claimed();
  if (node == nullptr) return nullptr;
  --waiters_to_return_;
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
    ++handed_over_;
    return true;
  }
  if (count() == capacity_) return false;
  element_.to_ring(at(tail_), one.node.slot);
  advance_tail();
  set_count(count() + 1);
  return true;
}

LEAT_INLINE bool ChannelCore::attempt_recv(Case& one, WaitNode*& peer,
                                           const Worker* worker) noexcept {
  if (count() > 0) {
    void* const oldest = at(head_);
    element_.to_receiver(one.node.slot, oldest);
    element_.destroy(oldest);
    head_ = after(head_);
    // A sender waits only while the ring is full. Its value enters behind all buffered values.
    peer = pop_sender(worker);
    if (peer != nullptr) {
      element_.to_ring(at(tail_), peer->slot);
      advance_tail();
    } else {
      set_count(count() - 1);
    }
    return true;
  }
  peer = pop_sender(worker);
  if (peer != nullptr) {  // a rendezvous: capacity 0
    element_.to_receiver(one.node.slot, peer->slot);
    ++handed_over_;
    return true;
  }
  one.closed = closed();
  return closed();
}

// For select_core.cpp, which cannot inline attempt_send() and attempt_recv().
bool ChannelCore::attempt(Case& one, WaitNode*& peer, const Worker* worker) noexcept {
  return one.direction == Case::Direction::kSend ? attempt_send(one, peer, worker)
                                                 : attempt_recv(one, peer, worker);
}

// `keep`: keeps the channel, because the caller will ask it why it is closed.
void ChannelCore::dequeue(Case& one, bool keep) noexcept {
  bool last = false;
  {
    const SpinLockGuard guard(lock_);
    queue(one.direction).remove(one.node);
    if (keep) {
      retain();
      unowned_ = false;
      one.closed_channel = ChannelRef(this);
    }
    last = --waiters_to_return_ == 0 && unowned_;
  }
  if (last) free();
}

void ChannelCore::send_without_reference(void* value) noexcept {
  Worker* const worker = Worker::current();
  Case one(this, Case::Direction::kSend, value);
  WaitNode* peer = nullptr;
  bool last = false;
  {
    const SpinLockGuard guard(lock_);
    callers_.add(calling_scheduler());
    static_cast<void>(attempt_send(one, peer, worker));
    // Nobody else frees the channel: `peer` was its last waiter, and will not touch it again.
    last = peer != nullptr && unowned_ && waiters_to_return_ == 0;
  }
  if (peer != nullptr) peer->waiter->ready();
  if (last) free();
}

bool ChannelCore::ends_slice(Deadline deadline, Worker* worker) noexcept {
  if (deadline.is_try()) return false;
  const std::uint32_t operations = closed() ? 1 : tuning::kTransfersPerCount;
  attention_.store(attention() & kClosed, std::memory_order_relaxed);
  return worker != nullptr && worker->running() != nullptr && worker->ends_slice(operations);
}

// The caller's handle may be dropped meanwhile.
ChannelRef ChannelCore::give_way(Fiber& fiber) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  retain();
  ChannelRef keep(this);
  lock_.unlock();
  fiber.give_way();
  lock_.lock();
  return keep;
}

int ChannelCore::send_or_recv(Case& one, Deadline deadline) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  Worker* const worker = Worker::current();
  const bool sends = one.direction == Case::Direction::kSend;
  if (__builtin_expect((attention() & (sends ? kClosed | kCountNext : kClosed)) != 0, 0) &&
      ends_slice(deadline, worker)) {
    const ChannelRef keep = give_way(*worker->running());
    const int outcome = send_or_recv(one, deadline);
    if (one.closed) one.closed_channel = keep;
    return outcome;
  }
  WaitNode* peer = nullptr;
  const bool done = sends ? attempt_send(one, peer, worker) : attempt_recv(one, peer, worker);
  if (done) {
    lock_.unlock();
    if (peer != nullptr) peer->waiter->ready();
    return 0;
  }
  if (deadline.is_now()) {
    lock_.unlock();
    return Waiter::kTimedOut;
  }
  const Wait wait{.reason = sends ? ParkReason::kSend : ParkReason::kRecv, .cases = {&one, 1}};
  const auto enqueue = [&](Waiter& waiter) LEAT_NO_THREAD_SAFETY_ANALYSIS {
    one.node.waiter = &waiter;
    one.node.since = coarse_now(worker);
    ++waiters_to_return_;
    queue(one.direction).push(one.node);
    lock_.publish_before_switch();
    return HeldLocks{.one = &lock_};
  };
  const auto dequeue = [&](int decided) {
    one.closed = one.node.closed;
    if (__builtin_expect(decided < 0 || one.closed, 0)) this->dequeue(one, one.closed);
  };
  const int outcome = worker != nullptr && worker->running() != nullptr
                          ? park_fiber(*worker, wait, deadline, enqueue, dequeue)
                          : park_current(wait, deadline, enqueue, dequeue);
  if (__builtin_expect(outcome == Waiter::kCancelled, 0)) throw Cancelled{};
  return outcome;
}

int wait_on_nil(Case& one, Deadline deadline) {
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
