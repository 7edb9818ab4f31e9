// The channel without its handles: a bounded FIFO, who waits to send and who waits to receive.
//
// What can be done at once with the ring alone is done in place, typed, in this header. Everything
// else is communicate(), in channel_core.cpp: one code path of every operation that meets somebody
// waiting, or has to wait itself: plain, tried, timed or selected.
//
// Always true under lock_:
//  - 0 <= count_ <= capacity_, in a ring that starts at head_;
//  - a receiver waits only while the ring is empty, the channel open, and no sender waits;
//  - a sender waits only while the ring is full and the channel open;
//  - closed_ is sticky; what was buffered before the close is still received;
//  - users_ counts the waiting operations that will touch the channel again. Who communicates with
//    one counts it out: it will not look back.
// Waiting operations that were decided elsewhere (another case of their select, a deadline, a
// cancellation) may still stand in a queue; they are skipped when popped.
//
// A value is handed over by move construction: from the sender's object, or from the ring, to the
// ring or into the receiver's std::optional. Nothing else is asked of T.
//
// Locks: an operation on several channels locks them in address order. A waiting operation holds
// the locks until its fiber is switched away from. Waiters are woken after locks are dropped.
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
#include "leat/csp/clock.h"
#include "leat/csp/wait/callers.h"
#include "leat/csp/wait/queue.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat {

/// What the core must know of T where it does not know T.
struct ElementType {
  std::size_t size;
  std::size_t alignment;
  /// Move-constructs a T at `to` from the T at `from`, which lives on, moved from.
  void (*to_ring)(void* to, void* from) noexcept;
  /// Likewise into the empty std::optional<T> at `to`.
  void (*to_receiver)(void* to, void* from) noexcept;
  void (*destroy)(void* object) noexcept;
};

/// What a channel has been doing; for reports, and to see which side of it holds the other back.
/// What counting costs: bench/results/csp.md.
struct ChannelStats {
  std::uint64_t sent = 0;      // values sent so far
  std::uint64_t received = 0;  // of these, received
  std::size_t buffered = 0;    // now
  std::size_t capacity = 0;
  std::size_t senders = 0;    // that wait now, a select's among them
  std::size_t receivers = 0;  // likewise
  /// How long senders, and receivers, have waited, in sum, as far as their waits have ended by a
  /// communication here. By a clock that is read every few switches: short waits are off by some.
  Duration send_wait{};
  Duration recv_wait{};
};

class ChannelCore;
class Worker;

#if defined(LEAT_EXPLORE)
#define LEAT_CACHE_ALIGNED  // its memory is the explorer's
#else
#define LEAT_CACHE_ALIGNED alignas(64)
#endif

/// Owns a share of a channel; what every handle is made of.
class ChannelRef {
 public:
  ChannelRef() = default;
  /// Takes over the share that `core` was made with, or one that was retained.
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

/// One possible communication of an operation. What has no initial value is working memory of
/// select().
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
  bool closed = false;  // result: chosen because the channel is closed; nothing was moved
  std::uint32_t trial;  // which case is tried at this one's turn
  const Case* in_lock_order;
  ChannelRef keep;  // of a channel found closed after a wait, for who reports it
  WaitNode node;
};

class LEAT_CACHE_ALIGNED ChannelCore {
 public:
  /// Throws std::invalid_argument for a capacity below 0 or whose bytes overflow. Starts with one
  /// share.
  ChannelCore(std::int64_t capacity, const ElementType& element, std::string name);
  ChannelCore(const ChannelCore&) = delete;
  ChannelCore& operator=(const ChannelCore&) = delete;
#if defined(LEAT_EXPLORE)
  static void* operator new(std::size_t size) { return hooks::allocate(size); }
  static void operator delete(void* core, std::size_t size) noexcept {
    hooks::deallocate(core, size);
  }
#endif

  void retain() noexcept { shares_.fetch_add(1, std::memory_order_relaxed); }
  /// With the last share the channel goes, or, while operations wait on it, with the last of these.
  void release() noexcept LEAT_EXCLUDES(lock_);

  /// Without the lock: true if the operation has to wait (at one instant of this call; otherwise it
  /// may have to). What a poll costs that finds nothing.
  ///
  /// A report of a deadlock must know of everybody who may come back to a channel, so who operates
  /// on it for the first time takes the lock: the caller has made sure of knows_caller().
  [[nodiscard]] bool must_wait(Case::Direction direction) const noexcept;
  /// Whether fibers of the caller's scheduler, or else plain threads, have operated on it before.
  [[nodiscard]] bool knows_caller() const noexcept { return touchers_.knows(calling_scheduler()); }

  /// Sends if only the ring is concerned. If not, returns false, and lock_ is held: for
  /// communicate_one().
  template <class T>
  bool send_to_ring(T& value) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS;
  /// Likewise receives, into `value`, which is empty.
  template <class T>
  bool recv_from_ring(std::optional<T>& value) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS;
  /// The rest of a send or receive: waits until it is done, or `deadline`: 0, or Waiter::kTimedOut.
  /// Sets `one.closed`; then nothing was moved. Throws Cancelled. Called with lock_ held, returns
  /// without.
  int communicate_one(Case& one, Deadline deadline);

  /// Of one that nobody uses any more, and that will be used again: fibers of `scheduler` (null:
  /// something that is no fiber) will operate on it; who did before is forgotten. Who waits on it
  /// is in no deadlock, unless it is their own scheduler's fibers that they wait for.
  void expect_only(const SchedulerCore* scheduler) noexcept LEAT_EXCLUDES(lock_) {
    const SpinLockGuard guard(lock_);
    touchers_.forget();
    touchers_.note(scheduler);
  }
  /// False if it was closed already.
  bool close(std::exception_ptr cause) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t size() const noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] ChannelStats stats() const noexcept LEAT_EXCLUDES(lock_);
  /// Without the lock: a hint, unless nobody can be operating on the channel.
  [[nodiscard]] bool empty_hint() const noexcept { return count() == 0; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// `channel "name"`, for reports.
  [[nodiscard]] std::string describe() const;
  /// Why it was closed; null if it is open or was closed without a cause.
  [[nodiscard]] std::exception_ptr cause() const noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] const Touchers& touchers() const noexcept { return touchers_; }

 private:
  friend class Communication;

  ~ChannelCore();

  /// Performs the case at once if it can: true if it did, or if the channel is closed for it. Sets
  /// `peer` to who is then to be woken, if anybody.
  bool attempt(Case& one, WaitNode*& peer, const Worker* worker) noexcept LEAT_REQUIRES(lock_);
  bool attempt_send(Case& one, WaitNode*& peer, const Worker* worker) noexcept LEAT_REQUIRES(lock_);
  bool attempt_recv(Case& one, WaitNode*& peer, const Worker* worker) noexcept LEAT_REQUIRES(lock_);
  void leave_queue(Case& one, bool keep) noexcept LEAT_EXCLUDES(lock_);
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
  // Written under lock_, and read without it by must_wait(): who sees the count sees a close that
  // came before it.
  [[nodiscard]] std::size_t count() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  void set_count(std::size_t count) noexcept { count_.store(count, std::memory_order_release); }
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

  // What an operation touches, in two cache lines that it shares with no other channel.
  Touchers touchers_;  // note() under lock_
  mutable SpinLock lock_;
  std::uint32_t users_ LEAT_GUARDED_BY(lock_) = 0;
  Atomic<bool> closed_{false};                    // written under lock_
  bool orphaned_ LEAT_GUARDED_BY(lock_) = false;  // no shares are left, only users
  Atomic<std::size_t> count_{0};
  const std::size_t capacity_;
  WaitQueue senders_;    // changed under lock_
  WaitQueue receivers_;  // likewise
  std::byte* ring_ = nullptr;
  std::size_t head_ LEAT_GUARDED_BY(lock_) = 0;
  std::size_t tail_ LEAT_GUARDED_BY(lock_) = 0;
  std::uint64_t sent_ LEAT_GUARDED_BY(lock_) = 0;
  const ElementType& element_;
  Cycles receivers_waited_ LEAT_GUARDED_BY(lock_) = 0;

  Cycles senders_waited_ LEAT_GUARDED_BY(lock_) = 0;
  Atomic<std::size_t> shares_{1};
  std::exception_ptr cause_ LEAT_GUARDED_BY(lock_);
  const std::string name_;
};

/// Waits until one of the cases can communicate, and communicates it: no other takes effect.
/// Returns its index, or Waiter::kTimedOut if none could by `deadline` (Deadline::now() decides on
/// one instant's state of all channels). Among cases that are ready, each is chosen with equal
/// probability. Throws Cancelled. The caller's handles keep the channels alive until it waits; then
/// the operation does.
///
/// Go spec: "Select statements", "Send statements", "Receive operator".
int communicate(std::span<Case> cases, Deadline deadline);
/// The same for who has found that every case must_wait().
int communicate_later(std::span<Case> cases, Deadline deadline);
/// One of 0, ..., count - 1, each with equal probability: the choice of a select.
[[nodiscard]] std::size_t choose_case(std::size_t count) noexcept;

/// Waits for ever, or until `deadline`, as an operation on the nil channel does.
int communicate_with_nobody(Case& one, Deadline deadline);
/// ChannelCore::communicate_one(), or communicate_with_nobody() on the nil channel.
inline int communicate_one(Case& one, Deadline deadline) {
  return one.channel != nullptr ? one.channel->communicate_one(one, deadline)
                                : communicate_with_nobody(one, deadline);
}

inline ChannelRef::ChannelRef(const ChannelRef& other) noexcept : core_(other.core_) {
  if (core_ != nullptr) core_->retain();
}

inline ChannelRef::~ChannelRef() {
  if (core_ != nullptr) core_->release();
}

// Where there is a ring, its count alone says at one instant whether the operation has to wait,
// because nobody waits to send unless it is full, nor to receive unless it is empty; where there is
// none, the queue does. A channel that is open afterwards was open at that instant.
inline bool ChannelCore::must_wait(Case::Direction direction) const noexcept {
  const bool waits = direction == Case::Direction::kSend
                         ? count() == capacity_ && receivers_.empty()
                         : count() == 0 && senders_.empty();
  return waits && !closed();
}

template <class T>
bool ChannelCore::send_to_ring(T& value) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  touchers_.note(calling_scheduler());
  const std::size_t buffered = count();
  if (buffered >= capacity_ || !receivers_.empty() || closed()) return false;
  ::new (static_cast<void*>(reinterpret_cast<T*>(ring_) + tail_)) T(std::move(value));
  tail_ = after(tail_);
  set_count(buffered + 1);
  ++sent_;
  lock_.unlock();
  return true;
}

template <class T>
bool ChannelCore::recv_from_ring(std::optional<T>& value) noexcept LEAT_NO_THREAD_SAFETY_ANALYSIS {
  lock_.lock();
  touchers_.note(calling_scheduler());
  const std::size_t buffered = count();
  if (buffered == 0 || !senders_.empty()) return false;
  T* const oldest = std::launder(reinterpret_cast<T*>(ring_) + head_);
  value.emplace(std::move(*oldest));
  oldest->~T();
  head_ = after(head_);
  set_count(buffered - 1);
  lock_.unlock();
  return true;
}

}  // namespace leat
