// How an OS thread that is no fiber waits.
#pragma once

#include <cstdint>

#include "leat/csp/base/atomic.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/cpu_count.h"
#include "leat/csp/wait/waiter.h"

namespace leat {

/// An OS thread that is no fiber: where an answer may be near it spins for a while
/// (tuning::kSpin), then it sleeps on a futex. Lives on the stack of the blocking call. Is never
/// cancelled.
class ThreadWaiter final : public Waiter {
 public:
  void park(Deadline deadline, const HeldLocks& held) noexcept override;
  void ready() noexcept override;

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kAsleep = 1;  // or about to be
  static constexpr std::uint32_t kReady = 2;

  [[nodiscard]] bool spin(Deadline deadline) const noexcept;
  /// Until ready() is called, or until it has claimed kTimedOut.
  void sleep(Deadline deadline) noexcept;

  Atomic<std::uint32_t> word_{kAwake};
  int woken_from_ = kNoCpu;  // the CPU of who called ready(), if this slept; published by word_
};

}  // namespace leat
