// How a plain thread, an OS thread that runs no fiber, waits.
#pragma once

#include <cstdint>

#include "leat/csp/base/atomic.h"
#include "leat/csp/base/cpu_count.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

/// A plain thread that waits. It spins for up to tuning::kSpin if an answer may come soon, then
/// sleeps on a futex. Lives on the stack of the blocking call. Never cancelled.
class ThreadWaiter final : public Waiter {
 public:
  void park(Deadline deadline, const HeldLocks& held) noexcept override;
  void ready() noexcept override;

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;  // or about to be
  static constexpr std::uint32_t kReady = 2;

  /// Returns whether ready() was called while the thread was spinning.
  [[nodiscard]] bool spin(Deadline deadline) const noexcept;
  /// Sleeps until ready() is called, or until this thread has claimed kTimedOut.
  void sleep(Deadline deadline) noexcept;

  Atomic<std::uint32_t> word_{kAwake};
  int woken_from_ = kNoCpu;  // the CPU of the waker, if this thread slept; published by word_
};

}  // namespace leat
