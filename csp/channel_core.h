// The channel without its type: a bounded FIFO, who waits to send and who waits to receive; and
// communicate(), the one code path of every channel operation: plain, tried, timed or selected.
//
// Always true under lock_:
//  - 0 <= count <= capacity, in a ring that starts at head_;
//  - a receiver waits only while the ring is empty, the channel open, and no sender waits;
//  - a sender waits only while the ring is full and the channel open;
//  - closed_ is sticky; what was buffered before the close is still received.
// Waiting operations that were decided elsewhere (another case of their select, a deadline, a
// cancellation) may still stand in a queue; they are skipped when popped.
//
// A value is handed over by move construction into raw storage: from the sender's object, or from
// the ring, to the ring or to the receiver's storage. Nothing else is asked of T.
//
// Locks: an operation on several channels locks them in address order. No other lock is taken while
// a channel's lock is held; waiters are woken after it is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "leat/csp/clock.h"
#include "leat/csp/spin_lock.h"
#include "leat/csp/touchers.h"
#include "leat/csp/wait_queue.h"

namespace leat {

/// What the core must know of T.
struct ElementType {
  std::size_t size;
  std::size_t alignment;
  /// Move-constructs *to from *from. The source object lives on, moved from.
  void (*move_construct)(void* to, void* from) noexcept;
  void (*destroy)(void* object) noexcept;
};

class ChannelCore;

/// One possible communication of an operation. `slot` is a T to move from (send), or raw storage
/// for a T (receive).
struct Case {
  enum class Direction : std::uint8_t { kSend, kRecv };

  ChannelCore* channel = nullptr;  // null: the nil channel, never ready
  Direction direction = Direction::kRecv;
  void* slot = nullptr;
  bool closed = false;  // result: chosen because the channel is closed; nothing was moved

  // Working memory of communicate().
  WaitNode node = {};
  std::shared_ptr<ChannelCore> keep = {};  // a parked operation owns its channels
  Case* in_lock_order = nullptr;
  Case* in_trial_order = nullptr;
};

class ChannelCore : public std::enable_shared_from_this<ChannelCore> {
 public:
  /// Throws std::invalid_argument for a capacity below 0 or whose bytes overflow.
  ChannelCore(std::int64_t capacity, ElementType element, std::string name);
  ~ChannelCore();
  ChannelCore(const ChannelCore&) = delete;
  ChannelCore& operator=(const ChannelCore&) = delete;

  /// False if it was closed already.
  bool close(std::exception_ptr cause) noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t size() const noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// `channel "name"`, for reports.
  [[nodiscard]] std::string describe() const;
  /// Why it was closed; null if it is open or was closed without a cause.
  [[nodiscard]] std::exception_ptr cause() const noexcept LEAT_EXCLUDES(lock_);
  [[nodiscard]] const Touchers& touchers() const noexcept { return touchers_; }

 private:
  friend int communicate(std::span<Case>, Deadline, ParkReason);

  /// Performs the case at once if it can: true if it did, or if the channel is closed for it. The
  /// peer to be woken afterwards, if any, is added to `wake`.
  bool attempt(Case& one, WakeList& wake) noexcept LEAT_REQUIRES(lock_);
  bool attempt_send(Case& one, WakeList& wake) noexcept LEAT_REQUIRES(lock_);
  bool attempt_recv(Case& one, WakeList& wake) noexcept LEAT_REQUIRES(lock_);
  [[nodiscard]] WaitQueue& queue(Case::Direction direction) noexcept LEAT_REQUIRES(lock_) {
    return direction == Case::Direction::kSend ? senders_ : receivers_;
  }
  [[nodiscard]] void* at(std::size_t position) const noexcept {
    return ring_ + (position % capacity_) * element_.size;
  }

  const ElementType element_;
  const std::size_t capacity_;
  const std::string name_;
  std::byte* ring_ = nullptr;

  mutable SpinLock lock_;
  std::size_t head_ LEAT_GUARDED_BY(lock_) = 0;
  std::size_t count_ LEAT_GUARDED_BY(lock_) = 0;
  bool closed_ LEAT_GUARDED_BY(lock_) = false;
  std::exception_ptr cause_ LEAT_GUARDED_BY(lock_);
  WaitQueue senders_ LEAT_GUARDED_BY(lock_);
  WaitQueue receivers_ LEAT_GUARDED_BY(lock_);
  Touchers touchers_;  // note() under lock_
};

/// Waits until one of the cases can communicate, and communicates it: no other takes effect.
/// Returns its index, or Operation::kTimedOut if none could by `deadline` (Deadline::now() decides
/// on one instant's state of all channels). Among cases that are ready, each is chosen with equal
/// probability. Throws Cancelled. The caller's handles keep the channels alive until it parks; then
/// the cases do.
///
/// Go spec: "Select statements", "Send statements", "Receive operator".
int communicate(std::span<Case> cases, Deadline deadline, ParkReason reason);

}  // namespace leat
