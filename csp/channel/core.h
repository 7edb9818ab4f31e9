// The untyped channel behind the handles: a bounded FIFO (the ring), a queue of waiting senders and
// a queue of waiting receivers.
//
// File            | holds
// core.h          | the fast path of a send or a receive, which needs the ring alone; inline, typed
// core.cpp        | the slow path, which completes a waiting peer or waits
// select_core.cpp | the operation on several channels
//
// Always true under lock_:
//  - 0 <= count_ <= capacity_, in a ring that starts at head_;
//  - a receiver waits only while the ring is empty, the channel open, and no sender waits;
//  - a sender waits only while the ring is full and the channel open;
//  - kClosed is sticky; what was buffered before the close is still received;
//  - waiters_to_return_ counts the waiting operations that will touch the channel again. The peer
//    that completes an operation decrements it on the operation's behalf; the operation does not
//    touch the channel again.
// An operation that was decided elsewhere (by another case of its select, a deadline or a
// cancellation) may still stand in a queue. It is skipped when it is popped.
//
// A value moves by move construction: from the sender's object, or from the ring, to the ring or
// into the receiver's std::optional. Nothing else is required of T.
//
// Lock  | guards                        | held while calling
// lock_ | the ring, the queues,         | T's move constructor and destructor; Waiter::claim; in a
//       | attention_                    | select, lock_ of its other channels, in address order; in
//       |                               | an operation that waits, the switch to another fiber
// Waiters are woken without lock_.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"

namespace leat {

class ChannelCore;

/// The element type T as the untyped code needs it.
struct ElementType {
  std::size_t size;
  std::size_t alignment;
  /// Move-constructs a T at `to` from the T at `from`, which lives on, moved from.
  void (*to_ring)(void* to, void* from) noexcept;
  /// Move-constructs a T into the empty std::optional<T> at `to`.
  void (*to_receiver)(void* to, void* from) noexcept;
  void (*destroy)(void* object) noexcept;
  /// Frees a channel that nothing uses any more, in place of `delete`. Null: `delete`.
  void (*free)(ChannelCore* channel) noexcept = nullptr;
};

/// Counters of a channel: for reports, and to see which side waits for the other. Their cost:
/// bench/results/csp.md.
struct ChannelStats {
  std::uint64_t sent = 0;      // values sent so far
  std::uint64_t received = 0;  // values received so far
  std::size_t buffered = 0;    // now
  std::size_t capacity = 0;
  std::size_t senders = 0;    // senders that wait now, selects included
  std::size_t receivers = 0;  // receivers that wait now, selects included
  /// Total time that senders, and receivers, have waited. Counts the waits that a transfer on this
  /// channel has ended. The clock is read once in several switches, so short waits are inexact.
  Duration send_wait{};
  Duration recv_wait{};
};

class Worker;

/// A counted reference to a channel; every handle holds one.
class ChannelRef {
 public:
  ChannelRef() = default;
  /// Adopts a reference: the one that `core` was made with, or one that was retained.
  explicit ChannelRef(ChannelCore* core) noexcept : core_(core) {}
  ChannelRef(const ChannelRef& other) noexcept;
  ChannelRef(ChannelRef&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  ChannelRef& operator=(ChannelRef other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~ChannelRef();

  [[nodiscard]] ChannelCore* get() const noexcept { return core_; }
  friend bool operator==(const ChannelRef& a, const ChannelRef& b) noexcept = default;

 private:
  ChannelCore* core_ = nullptr;
};

/// One send or receive that an operation may perform. A select has several. Members without an
/// initial value are working memory of select_cases().
struct Case {
  enum class Direction : std::uint8_t { kSend, kRecv };

  // Not `= default`, which would zero it.
  // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject): by design
  Case() noexcept {}
  /// `slot` is a T to move from (send), or an empty std::optional<T> (receive).
  Case(ChannelCore* where, Direction which, void* slot) noexcept
      : channel(where), direction(which) {
    node.slot = slot;  // NOLINT(clang-analyzer-optin.cplusplus.UninitializedObject): likewise
  }

  ChannelCore* channel = nullptr;  // null: the nil channel, never ready
  Direction direction = Direction::kRecv;
  bool closed = false;       // result: chosen because the channel is closed; nothing was moved
  std::uint32_t poll_order;  // which case is tried at this one's turn
  const Case* lock_order;
  ChannelRef closed_channel;  // keeps a channel that a wait found closed, until that is reported
  WaitNode node;
};

/// Waits until `deadline`, as an operation on the nil channel does. Throws Cancelled.
int wait_on_nil(Case& one, Deadline deadline);

/// The channel whose lock the caller holds. The fast path returns an empty one if the operation is
/// done. Otherwise the caller holds the lock and must call send_or_recv(), which drops it. A
/// default-constructed LockedChannel also stands for the nil channel, which has no lock.
class [[nodiscard]] LockedChannel {
 public:
  LockedChannel() = default;
  explicit LockedChannel(ChannelCore* locked) noexcept : channel_(locked) {}

  /// True if a lock is held.
  explicit operator bool() const noexcept { return channel_ != nullptr; }
  [[nodiscard]] ChannelCore* channel() const noexcept { return channel_; }
  /// Performs the operation, waiting for it until `deadline`. Returns 0 if it was performed or the
  /// channel is closed (`one.closed`), Waiter::kTimedOut otherwise. Throws Cancelled.
  int send_or_recv(Case& one, Deadline deadline) const;

 private:
  ChannelCore* channel_ = nullptr;
};

class ChannelCore : public LockedInOrder {
 public:
  /// Starts with one reference. Throws std::invalid_argument for a negative or too large
  /// `capacity`.
  ChannelCore(std::int64_t capacity, const ElementType& element, std::string name);
  ChannelCore(const ChannelCore&) = delete;
  ChannelCore& operator=(const ChannelCore&) = delete;

  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  /// Drops a reference. The last one frees the channel or, if operations wait on it, leaves that to
  /// the last of these operations.
  void release() noexcept LEAT_EXCLUDES(lock_);

  /// Returns whether an operation in that direction would have to wait, at one instant of this
  /// call. Takes no lock, so that polling a channel that is not ready is cheap.
  ///
  /// A deadlock report must know every caller that may come back to a channel. Adding a caller
  /// takes the lock, so the caller has checked has_caller() first.
  [[nodiscard]] bool would_block(Case::Direction direction) const noexcept;
  /// True if the caller's scheduler (or, for a plain thread, any outsider) has used the channel.
  [[nodiscard]] bool has_caller() const noexcept { return callers_.contains(calling_scheduler()); }

  /// Sends if only the ring is concerned: constructs the value from `value` and returns an empty
  /// LockedChannel. Otherwise leaves `value` alone and returns with the lock held.
  template <class T, class V>
  LockedChannel send_to_ring(V&& value) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS;
  /// Receives into `value`, which is empty, if only the ring is concerned. Returns as
  /// send_to_ring().
  template <class T>
  LockedChannel recv_from_ring(std::optional<T>& value) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS;
  /// The slow path; see LockedChannel::send_or_recv(). Called with the lock held; drops it.
  int send_or_recv(Case& one, Deadline deadline);
  /// Moves from the T at `value` if there is room or a receiver. The caller needs no reference, but
  /// must keep the channel's memory (ElementType::free).
  void send_without_reference(void* value) noexcept LEAT_EXCLUDES(lock_);

  /// Sets the known callers to the fibers of `scheduler`, or (null) to outsiders. Only while no
  /// operation is in progress: for a channel that is used again.
  void expect_only(const SchedulerCore* scheduler) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    callers_.clear();
    callers_.add(scheduler);
  }
  /// Returns false if the channel was closed already.
  bool close(std::exception_ptr cause) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t size() const noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] ChannelStats stats() const noexcept LEAT_EXCLUDES(lock_);
  /// True if the ring is empty. Takes no lock: a hint, unless no operation can be in progress.
  [[nodiscard]] bool empty_hint() const noexcept { return count() == 0; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// `channel "name"`, for reports.
  [[nodiscard]] std::string describe() const;
  /// Returns the cause of the close; null if the channel is open or was closed without a cause.
  [[nodiscard]] std::exception_ptr cause() const noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] const CallerSet& callers() const noexcept { return callers_; }

 protected:
  ~ChannelCore();

 private:
  friend class SelectOperation;

  void free() noexcept;

  /// Performs the case at once if it can. Returns true if it did, or if the channel is closed for
  /// it. Sets `peer` to the operation that is then to be woken, if there is one.
  bool attempt(Case& one, WaitNode*& peer, const Worker* worker) noexcept LEAT_REQUIRES(lock_);
  bool attempt_send(Case& one, WaitNode*& peer, const Worker* worker) noexcept LEAT_REQUIRES(lock_);
  bool attempt_recv(Case& one, WaitNode*& peer, const Worker* worker) noexcept LEAT_REQUIRES(lock_);
  void dequeue(Case& one, bool keep) noexcept LEAT_EXCLUDES(lock_);
  /// Counts the operation for its fiber: the first one of the slow path after kCountNext, and each
  /// one on a closed channel. True if the fiber has to give way first.
  [[nodiscard]] bool ends_slice(Deadline deadline, Worker* worker) noexcept LEAT_REQUIRES(lock_);
  /// Gives way with lock_ dropped, and takes it again. Returns what keeps the channel, since the
  /// caller's handle may be gone. Throws Cancelled, without lock_.
  [[nodiscard]] ChannelRef give_way(Fiber& fiber);
  [[nodiscard]] WaitNode* pop_sender(const Worker* worker) noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] WaitNode* pop_receiver(const Worker* worker) noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] WaitQueue& queue(Case::Direction direction) noexcept LEAT_REQUIRES(lock_) {
    return direction == Case::Direction::kSend ? senders_ : receivers_;
  }
  [[nodiscard]] void* at(std::size_t position) const noexcept {
    return ring_ + position * element_.size;
  }
  [[nodiscard]] std::size_t after(std::size_t position) const noexcept {
    return position + 1 == capacity_ ? 0 : position + 1;
  }
  // About once in kTransfersPerCount values the next send is counted. The branch is well predicted,
  // so neither this nor the number of sent values costs anything in other sends.
  void advance_tail() noexcept LEAT_REQUIRES(lock_) {
    if (const std::size_t next = tail_ + 1; __builtin_expect(next != capacity_, 1)) {
      tail_ = next;
      return;
    }
    tail_ = 0;
    ++laps_;
    if (laps_ * capacity_ % tuning::kTransfersPerCount < capacity_) attend(kCountNext);
  }
  [[nodiscard]] std::uint64_t sent() const noexcept LEAT_REQUIRES(lock_) {
    return laps_ * capacity_ + tail_ + handed_over_;
  }
  // Written under lock_, and read without it by would_block(): a reader that sees the count also
  // sees a close that came before it.
  [[nodiscard]] std::size_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  void set_count(std::size_t count) noexcept { count_.store(count, std::memory_order_release); }
  [[nodiscard]] std::uint8_t attention() const noexcept {
    return attention_.load(std::memory_order_relaxed);
  }
  void attend(std::uint8_t what) noexcept LEAT_REQUIRES(lock_) {
    attention_.store(attention() | what, std::memory_order_relaxed);
  }
  [[nodiscard]] bool closed() const noexcept { return (attention() & kClosed) != 0; }

  // attention_: why a send takes the slow path although the ring has room. Receives are not
  // counted: a fiber that only receives finds the ring empty sooner or later, and waits.
  static constexpr std::uint8_t kClosed = 1;
  static constexpr std::uint8_t kCountNext = 2;  // the sender may have to give way: it is counted

  // What an operation touches is in two cache lines that no other channel shares. laps_ stands
  // behind them, because a send touches it only once in a lap.
  CallerSet callers_;  // add() under lock_
  mutable SpinLock lock_;
  std::uint32_t waiters_to_return_ LEAT_GUARDED_BY(lock_) = 0;
  Atomic<std::uint8_t> attention_{0};            // written under lock_
  bool unowned_ LEAT_GUARDED_BY(lock_) = false;  // no references are left, only waiters
  Atomic<std::size_t> count_{0};
  const std::size_t capacity_;
  WaitQueue senders_;    // changed under lock_
  WaitQueue receivers_;  // likewise
  std::byte* ring_ = nullptr;
  std::size_t head_ LEAT_GUARDED_BY(lock_) = 0;
  std::size_t tail_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t handed_over_ LEAT_GUARDED_BY(lock_) = 0;  // values that were never in the ring
  const ElementType& element_;
  Cycles receivers_waited_ LEAT_GUARDED_BY(lock_) = 0;

  std::uint64_t laps_ LEAT_GUARDED_BY(lock_) = 0;  // of tail_
  Cycles senders_waited_ LEAT_GUARDED_BY(lock_) = 0;
  Atomic<std::size_t> refs_{1};
  std::exception_ptr cause_ LEAT_GUARDED_BY(lock_);
  const std::string name_;
};

/// Waits until one of the cases can be performed, and performs that one alone. Returns its index,
/// or Waiter::kTimedOut if none could by `deadline` (Deadline::now() decides on one instant's state
/// of all channels). Each case that is ready is chosen with equal probability. Throws Cancelled.
/// The caller's handles keep the channels alive until the operation waits; then the operation does.
///
/// Go spec: "Select statements", "Send statements", "Receive operator".
int select_cases(std::span<Case> cases, Deadline deadline);
/// As select_cases(), but takes all locks at once, without trying the cases one at a time first.
int select_cases_locked(std::span<Case> cases, Deadline deadline);
/// One of 0, ..., count - 1, each with equal probability: the choice of a select.
[[nodiscard]] std::size_t choose_case(std::size_t count) noexcept;

inline ChannelRef::ChannelRef(const ChannelRef& other) noexcept : core_(other.core_) {
  if (core_ != nullptr) core_->retain();
}

inline ChannelRef::~ChannelRef() {
  if (core_ != nullptr) core_->release();
}

inline int LockedChannel::send_or_recv(Case& one, Deadline deadline) const {
  return channel_ != nullptr ? channel_->send_or_recv(one, deadline) : wait_on_nil(one, deadline);
}

// With a ring, its count alone decides, at one instant: a sender waits only while the ring is full,
// a receiver only while it is empty. Without a ring the peers' queue decides. closed() is read
// last: a channel that is open then was open at that instant.
inline bool ChannelCore::would_block(Case::Direction direction) const noexcept {
  const bool waits = direction == Case::Direction::kSend
                         ? count() == capacity_ && receivers_.empty()
                         : count() == 0 && senders_.empty();
  return waits && !closed();
}

template <class T, class V>
LockedChannel ChannelCore::send_to_ring(V&& value) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  callers_.add(calling_scheduler());
  const std::size_t buffered = count();
  if (buffered >= capacity_ || !receivers_.empty() || attention() != 0) return LockedChannel(this);
  ::new (static_cast<void*>(reinterpret_cast<T*>(ring_) + tail_)) T(std::forward<V>(value));
  advance_tail();
  set_count(buffered + 1);
  lock_.unlock();
  return {};
}

template <class T>
LockedChannel ChannelCore::recv_from_ring(std::optional<T>& value) noexcept
    LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  callers_.add(calling_scheduler());
  const std::size_t buffered = count();
  if (buffered == 0 || !senders_.empty()) return LockedChannel(this);
  T* const oldest = std::launder(reinterpret_cast<T*>(ring_) + head_);
  value.emplace(std::move(*oldest));
  oldest->~T();
  head_ = after(head_);
  set_count(buffered - 1);
  lock_.unlock();
  return {};
}

}  // namespace leat
