// The interface through which a fiber, a plain thread or a guest (guest.h) waits: Waiter.
//
// A blocking operation begins, is decided once, and ends. To decide it is to claim it: claim() sets
// its outcome. A peer on a channel, a deadline and a cancellation may all try; one of them
// succeeds, and is called the claimer. Always true:
//  - Each operation has one claimer. The claimer calls ready() once, after it has written
//    everything that the waiter will read. A waiter that claims its own operation (at a deadline,
//    say) needs no ready(): its park() returns.
//  - The nodes through which a claimer finds the waiter live on the waiter's stack. park() does not
//    return before the claimer calls ready(). The claimer may use the nodes until then.
//  - The waiter holds the locks of its queues until it can be woken (HeldLocks). A claimer that
//    holds one of these locks may call ready() at once. A claimer without one (a timer, a
//    cancellation) calls Fiber::ready_once_parked().
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "leat/csp/base/assert.h"
#include "leat/csp/base/atomic.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"

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
  kSettle,    // for the other fibers to wait: settle()
  kJoin,      // for the fibers of a group to end
  kEnd,       // as kJoin, in a destructor, which cannot throw
  kLimit,     // for room in a group with a limit
  kAwait,     // for a device to reach an event
  kBlocking,  // for a thread of the I/O pool to take its call
  kMutex,
  kSemaphore,
  kWaitGroup,
  kNotification,
};
/// Returns the words for `reason` in reports, such as "a mutex". A string literal.
[[nodiscard]] const char* to_string(ParkReason reason) noexcept;

/// The object that a fiber waits on, if it is not a channel: a mutex, a semaphore, a group.
/// Deadlock detection reads it.
struct WaitObject {
  /// The callers that have used the object. Null if only fibers of the waiting fiber's scheduler,
  /// or its clock, can end the wait.
  const CallerSet* callers = nullptr;
  /// The id of the fiber that holds the object, 0 for no fiber. Null if the object has no holder.
  const Atomic<std::uint64_t>* holder = nullptr;
  /// The group whose fibers must end first. Null if the object is not a group.
  const GroupCore* group = nullptr;
};

/// What an operation waits for; printed by reports. The cases and the object outlive the operation.
struct Wait {
  ParkReason reason = ParkReason::kSleep;
  /// The channel operations it waits on; empty for any other wait.
  std::span<const Case> cases = {};
  const WaitObject* object = nullptr;
};

/// The locks that a waiter holds while its thread switches to something else: none, `one`, or
/// several, which drop(argument) releases. They are released once the waiter can be woken.
///
/// `argument` may be read only while one of the locks is held. Without a lock the operation may
/// end, and `argument` with it. So an operation that holds no lock sets no `drop`.
struct HeldLocks {
  SpinLock* one = nullptr;
  void (*drop)(void*) noexcept = nullptr;
  void* argument = nullptr;

  /// Releases the locks. Called on the waiter's thread, after the switch if there is one.
  void unlock_after_switch() const noexcept {
    if (one != nullptr) {
      one->unlock_after_switch();
    } else if (drop != nullptr) {
      drop(argument);
    }
  }
};

/// A fiber, a plain thread or a guest that can wait. It waits for one operation at a time.
class Waiter {
 public:
  // The outcome of an operation: the index of the chosen case, or one of these.
  static constexpr int kTimedOut = -1;
  static constexpr int kCancelled = -2;

  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Tries to decide the operation with `outcome`. Returns true to one caller only: the claimer,
  /// which must then call ready(). Returns false if the operation is decided already, or if the
  /// waiter does not wait. Thread-safe.
  bool claim(int outcome) noexcept {
    int seen = decision_.load(std::memory_order_relaxed);
    while (seen == kUndecided || seen == kUndecidedShielded) {
      // acquire: pairs with begin(), for a claimer that holds none of the waiter's locks. ready()
      // publishes the claimer's own writes.
      if (decision_.compare_exchange_weak(seen, outcome, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  /// Returns whether the operation has begun and is not decided. Only a hint, unless the caller
  /// holds a lock that every claimer needs.
  [[nodiscard]] bool undecided(std::memory_order order = std::memory_order_relaxed) const noexcept {
    const int seen = decision_.load(order);
    return seen == kUndecided || seen == kUndecidedShielded;
  }

  // The waiter itself calls begin(), park(), outcome() and end(), in this order.

  /// Begins an operation. Called before any of its nodes enters a queue. If `shielded`,
  /// cancellation does not end the operation.
  void begin(const Wait& wait, bool shielded = false) noexcept {
    wait_ = wait;
    if constexpr (kChecks) readied_ = false;
    // release: a claimer that holds none of the waiter's locks sees what was written before.
    decision_.store(shielded ? kUndecidedShielded : kUndecided, std::memory_order_release);
  }
  /// Waits until the operation is decided and its claimer has called ready(). The outcome of an
  /// operation that is still undecided becomes kTimedOut at `deadline`, and kCancelled when the
  /// waiter is a fiber that is asked to stop. Releases `held` as soon as the waiter can be woken.
  virtual void park(Deadline deadline, const HeldLocks& held) noexcept = 0;
  /// Returns how the operation was decided. Called after park().
  [[nodiscard]] int outcome() const noexcept { return decision_.load(std::memory_order_relaxed); }
  /// Ends the operation. Its nodes are in no queue any more.
  void end() noexcept { decision_.store(kNotWaiting, std::memory_order_relaxed); }

  /// Checks that the operation has not ended. Called before it drops its locks.
  void check_not_ended() const noexcept {
    LEAT_CHECK(outcome() != kNotWaiting, "an operation does not end before its locks are released");
  }

  /// Ends park(). The claimer calls it once, from any thread or fiber. The waiter and its nodes may
  /// be gone when it returns.
  virtual void ready() noexcept = 0;

 protected:
  static constexpr int kNotWaiting = -3;
  static constexpr int kUndecided = -4;
  static constexpr int kUndecidedShielded = -5;

  ~Waiter() = default;

  /// Called by ready().
  void check_ready() noexcept {
    LEAT_CHECK(!undecided(), "an operation is decided before its waiter is woken");
    LEAT_CHECK(!std::exchange(readied_, true), "an operation's waiter is woken once");
  }

  Atomic<int> decision_{kNotWaiting};
  bool readied_ = true;  // for LEAT_CHECK
  Wait wait_;
};

}  // namespace leat
