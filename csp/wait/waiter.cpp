#include "leat/csp/wait/waiter.h"

#include "leat/csp/base/cpu_count.h"
#include "leat/csp/base/cycles.h"
#include "leat/csp/base/futex.h"
#include "leat/csp/base/tuning.h"
#include "leat/csp/wait/thread_waiter.h"

namespace leat {

const char* to_string(ParkReason reason) noexcept {
  switch (reason) {
    case ParkReason::kSend: return "send";
    case ParkReason::kRecv: return "recv";
    case ParkReason::kSelect: return "select";
    case ParkReason::kSleep: return "sleep";
    case ParkReason::kSettle: return "the other fibers to wait";
    case ParkReason::kJoin:
    case ParkReason::kEnd: return "join";
    case ParkReason::kLimit: return "room in its group";
    case ParkReason::kAwait: return "device event";
    case ParkReason::kBlocking: return "a blocking call";
    case ParkReason::kMutex: return "a mutex";
    case ParkReason::kSemaphore: return "a semaphore";
    case ParkReason::kWaitGroup: return "a wait group";
    case ParkReason::kNotification: return "a notification";
  }
  return "?";
}

namespace {

// False if the thread's last wait for an answer timed out, or slept for long (tuning::kShortSleep),
// or was ended from the same CPU: then spinning is unlikely to pay off.
thread_local constinit bool t_may_look = true;

bool has_passed(Deadline deadline) noexcept {
  return !deadline.is_never() && SteadyClock::instance().now() >= deadline.at();
}

}  // namespace

// Spins for a while, until the claimer calls ready(). It does not yield the CPU: if another thread
// wants to run, a yield takes milliseconds.
bool ThreadWaiter::spin(Deadline deadline) const noexcept {
  static const Cycles longest = usable_cpus() == 1 ? 0 : cycles_in(tuning::kSpinOfThreads);
  if (longest == 0) return false;
  const Cycles start = cycles_now();
  do {
    for (int i = 0; i < 32; ++i) {
      // acquire: pairs with the release in ready(), and publishes what the claimer wrote.
      if (word_.load(std::memory_order_acquire) == kReady) return true;
      cpu_relax();
    }
  } while (cycles_now() - start < longest && !has_passed(deadline));
  return false;
}

void ThreadWaiter::park(Deadline deadline, const HeldLocks& held) noexcept {
  held.unlock_after_switch();
  if (wait_.reason != ParkReason::kSleep && t_may_look && spin(deadline)) return;
  const Cycles slept_at = cycles_now();
  const int slept_on = current_cpu();
  sleep(deadline);
  if (wait_.reason == ParkReason::kSleep)
    return;  // a sleep says nothing about how fast others answer
  t_may_look = outcome() != kTimedOut && cycles_now() - slept_at < cycles_in(tuning::kShortSleep) &&
               !shares_its_cpu(slept_on, woken_from_);
}

void ThreadWaiter::sleep(Deadline deadline) noexcept {
  std::uint32_t awake = kAwake;
  // acquire: as in spin().
  if (!word_.compare_exchange_strong(awake, kAsleep, std::memory_order_acquire)) return;
  do {
    if (has_passed(deadline)) {
      if (claim(kTimedOut)) return;  // nobody else will call ready()
      deadline = Deadline::never();  // a peer was faster: its ready() comes
    }
    futex_wait(word_, kAsleep, deadline);
  } while (word_.load(std::memory_order_acquire) != kReady);
}

void ThreadWaiter::ready() noexcept {
  check_ready();
  const Atomic<std::uint32_t>* const address = &word_;
  // relaxed: a hint. Only the claimer writes woken_from_, before it stores kReady.
  if (word_.load(std::memory_order_relaxed) == kAsleep) woken_from_ = current_cpu();
  const bool asleep = word_.exchange(kReady, std::memory_order_release) == kAsleep;
  // From here on *this may be gone: the waiter has seen kReady and returned. Only the address is
  // used.
  if (asleep) futex_wake(address);
}

}  // namespace leat
