// The seam behind which waiting happens: whoever can wait is a Waiter.
//
// A blocking operation is an Operation: one or several things that may end it (a peer on a channel,
// a deadline, a cancellation). Always true:
//  - exactly one party claims an Operation, and that party alone calls ready() on its waiter, once,
//    after it has written all that the waiter will read;
//  - the Operation and its WaitNodes live on the waiting side's stack, and the waiting side does
//    not leave park() before ready() was called: a claimer may use them until it calls ready(), and
//    not afterwards;
//  - ready() may come before the waiter has actually parked. park() then returns at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "leat/csp/clock.h"

namespace leat {

class Touchers;
class WaitQueue;
struct Case;

/// Why a fiber waits; printed by reports.
enum class ParkReason : std::uint8_t {
  kSend,    // for room in a channel, or for a receiver
  kRecv,    // for a value
  kSelect,  // for one of several channel operations
  kSleep,   // for a point in time
  kJoin,    // for the fibers of a group to end
  kEnd,     // likewise, in a destructor, which cannot throw
  kLimit,   // for room in a group with a limit
  kAwait,   // for a device to reach an event
  kMutex,
  kSemaphore,
  kWaitGroup,
  kNotification,
};
[[nodiscard]] const char* to_string(ParkReason reason) noexcept;

class Waiter;

/// One blocking operation, undecided until somebody claims it.
class Operation {
 public:
  // Outcomes below zero; zero and up are the index of the case that communicated.
  static constexpr int kUndecided = -1;
  static constexpr int kTimedOut = -2;
  static constexpr int kCancelled = -3;

  Operation(Waiter& waiter, ParkReason reason, std::span<Case> cases = {},
            const Touchers* touchers = nullptr) noexcept
      : waiter_(waiter), cases_(cases), touchers_(touchers), reason_(reason) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Decides the operation. True for exactly one caller, who then owes waiter().ready().
  bool claim(int outcome) noexcept {
    int undecided = kUndecided;
    // Relaxed is enough: the claimer's writes are published by ready(), and whoever loses the claim
    // reads nothing that the winner wrote.
    return outcome_.compare_exchange_strong(undecided, outcome, std::memory_order_relaxed);
  }
  /// What was claimed. For the waiting side after park(), or for anybody as a hint.
  [[nodiscard]] int outcome() const noexcept { return outcome_.load(std::memory_order_relaxed); }
  [[nodiscard]] Waiter& waiter() const noexcept { return waiter_; }
  [[nodiscard]] ParkReason reason() const noexcept { return reason_; }
  /// The channel operations it waits on, for reports; empty for any other wait.
  [[nodiscard]] std::span<Case> cases() const noexcept { return cases_; }
  /// Of what else it waits for; null where only fibers of this scheduler, or its clock, can end it.
  [[nodiscard]] const Touchers* touchers() const noexcept { return touchers_; }

 private:
  std::atomic<int> outcome_{kUndecided};
  Waiter& waiter_;
  std::span<Case> cases_;
  const Touchers* touchers_;
  ParkReason reason_;
};

/// A fiber or an OS thread that can wait.
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Waits until `operation` is decided and, where a peer decided it, until that peer has called
  /// ready(). Claims it with kTimedOut at `deadline`, and with kCancelled if this is a fiber that
  /// is asked to stop. Called by the waiter itself.
  virtual void park(Operation& operation, Deadline deadline) noexcept = 0;
  /// Ends park(). Called once, by whoever claimed the operation, from any thread or fiber.
  virtual void ready() noexcept = 0;

 protected:
  ~Waiter() = default;
};

/// An OS thread that is no fiber: waits on a futex. Lives on the stack of the blocking call. Is
/// never cancelled.
class ThreadWaiter final : public Waiter {
 public:
  void park(Operation& operation, Deadline deadline) noexcept override;
  void ready() noexcept override;

 private:
  static constexpr std::uint32_t kWaiting = 0;
  static constexpr std::uint32_t kReady = 1;
  std::atomic<std::uint32_t> word_{kWaiting};
};

}  // namespace leat
