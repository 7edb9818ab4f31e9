// The seam behind which waiting happens: whoever can wait is a Waiter.
//
// A blocking operation begins, is decided by exactly one party (a peer on a channel, a deadline, a
// cancellation), and ends. Always true:
//  - exactly one party claims the operation, and that party alone calls ready() on the waiter, and
//    once, after it has written all that the waiter will read;
//  - the nodes by which others find the waiter live on its stack, and it does not leave park()
//    before ready() was called: a claimer may use them until it calls ready(), and not afterwards;
//  - the waiter holds the locks of the queues that it stands in until it can be woken (HeldLocks):
//    who claims it under one of them may call ready() at once. Who claims without (a timer, a
//    cancellation) calls ready_once_parked().
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "leat/csp/base/atomic.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/spin_lock.h"
#if defined(LEAT_EXPLORE)
#include "leat/csp/wait/assert.h"
#endif

namespace leat {

class GroupCore;
class CallerSet;
struct Case;

/// Why a fiber waits; printed by reports.
enum class ParkReason : std::uint8_t {
  kSend,      // for room in a channel, or for a receiver
  kRecv,      // for a value
  kSelect,    // for one of several channel operations
  kSleep,     // for a point in time
  kJoin,      // for the fibers of a group to end
  kEnd,       // likewise, in a destructor, which cannot throw
  kLimit,     // for room in a group with a limit
  kAwait,     // for a device to reach an event
  kBlocking,  // for a thread of the I/O pool to take its call
  kMutex,
  kSemaphore,
  kWaitGroup,
  kNotification,
};
[[nodiscard]] const char* to_string(ParkReason reason) noexcept;

/// What a fiber waits for that is no channel.
struct WaitObject {
  /// Null where only fibers of this scheduler, or its clock, can end the wait.
  const CallerSet* callers = nullptr;
  /// The id of the fiber that keeps others waiting; null where it cannot be told.
  const Atomic<std::uint64_t>* holder = nullptr;
  /// The group whose fibers keep others waiting; likewise.
  const GroupCore* group = nullptr;
};

/// What an operation waits for; for reports. What it points to lives while the operation does.
struct Wait {
  ParkReason reason = ParkReason::kSleep;
  /// The channel operations it waits on; empty for any other wait.
  std::span<const Case> cases = {};
  const WaitObject* object = nullptr;
};

/// The locks that a waiter holds while it is switched away from: none, `one`, or several, which
/// drop(argument) drops. They are dropped once the waiter can be woken.
///
/// `argument` may be read only while one of the locks is held: without them the operation may end,
/// and `argument` with it. So an operation that holds no lock sets no `drop`.
struct HeldLocks {
  SpinLock* one = nullptr;
  void (*drop)(void*) noexcept = nullptr;
  void* argument = nullptr;

  void unlock_after_switch() const noexcept {
    if (one != nullptr) {
      one->unlock_after_switch();
    } else if (drop != nullptr) {
      drop(argument);
    }
  }
};

/// Something that can wait: a fiber, a thread. It waits for one operation at a time.
class Waiter {
 public:
  // How an operation was decided: the index of the case that communicated, or one of these.
  static constexpr int kTimedOut = -1;
  static constexpr int kCancelled = -2;

  explicit Waiter(bool is_fiber = false) noexcept : is_fiber_(is_fiber) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Decides the operation. True for exactly one caller, who then owes ready().
  bool claim(int outcome) noexcept {
    int seen = decision_.load(std::memory_order_relaxed);
    while (seen == kUndecided || seen == kUndecidedShielded) {
      // acquire: what the waiter wrote in begin(), for claimers that hold none of its locks. The
      // claimer's own writes are published by ready().
      if (decision_.compare_exchange_weak(seen, outcome, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  /// A hint, unless the caller holds a lock without which nobody can claim.
  [[nodiscard]] bool undecided(std::memory_order order = std::memory_order_relaxed) const noexcept {
    const int seen = decision_.load(order);
    return seen == kUndecided || seen == kUndecidedShielded;
  }

  // By the waiter itself, in this order; begin() before it shows a node to anybody.

  /// `shielded`: cancellation does not end the operation.
  void begin(const Wait& wait, bool shielded = false) noexcept {
    wait_ = wait;
#if defined(LEAT_EXPLORE)
    readied_ = false;
#endif
    // release: whoever claims without a lock of ours sees what was written before.
    decision_.store(shielded ? kUndecidedShielded : kUndecided, std::memory_order_release);
  }
  /// Waits until the operation is decided and ready() was called. Claims it with kTimedOut at
  /// `deadline`, and with kCancelled if this is a fiber that is asked to stop. Drops `held` as soon
  /// as it can be woken.
  virtual void park(Deadline deadline, const HeldLocks& held) noexcept = 0;
  [[nodiscard]] int outcome() const noexcept { return decision_.load(std::memory_order_relaxed); }
  /// The nodes are in no queue any more, and are about to go.
  void end() noexcept { decision_.store(kNotWaiting, std::memory_order_relaxed); }

  /// Whether this is a Fiber; spares a virtual call where it matters.
  [[nodiscard]] bool is_fiber() const noexcept { return is_fiber_; }

  /// Ends park(). Called once, by whoever claimed the operation, from any thread or fiber.
  virtual void ready() noexcept = 0;

 protected:
  static constexpr int kNotWaiting = -3;
  static constexpr int kUndecided = -4;
  static constexpr int kUndecidedShielded = -5;

  ~Waiter() = default;

  /// Called by ready(), for the explorer.
  void check_ready() noexcept {
#if defined(LEAT_EXPLORE)
    LEAT_ASSERT(!undecided(), "an operation is decided before its waiter is woken");
    LEAT_ASSERT(!std::exchange(readied_, true), "an operation's waiter is woken once");
#endif
  }

  Atomic<int> decision_{kNotWaiting};
  const bool is_fiber_;
  Wait wait_;
#if defined(LEAT_EXPLORE)
  bool readied_ = true;
#endif
};

}  // namespace leat
