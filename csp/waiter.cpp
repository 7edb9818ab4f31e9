#include "leat/csp/waiter.h"

#include "leat/csp/futex.h"

namespace leat {

const char* to_string(ParkReason reason) noexcept {
  switch (reason) {
    case ParkReason::kSend: return "send";
    case ParkReason::kRecv: return "recv";
    case ParkReason::kSelect: return "select";
    case ParkReason::kSleep: return "sleep";
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

void ThreadWaiter::park(Deadline deadline, const HeldLocks& held) noexcept {
  held.unlock_after_switch();
  // A peer often answers within a microsecond; sleeping costs ten times that.
  constexpr int kSpins = kExploring ? 0 : 200;
  for (int i = 0; i < kSpins; ++i) {
    if (word_.load(std::memory_order_acquire) == kReady) return;
    cpu_relax();
  }
  for (;;) {
    // acquire: pairs with the release in ready(), and publishes what the claimer wrote.
    if (word_.load(std::memory_order_acquire) == kReady) return;
    if (!deadline.is_never() && SteadyClock::instance().now() >= deadline.at()) {
      if (claim(kTimedOut)) return;  // nobody else will call ready()
      deadline = Deadline::never();  // a peer was faster: its ready() comes
    }
    futex_wait(word_, kWaiting, deadline);
  }
}

void ThreadWaiter::ready() noexcept {
  check_ready();
  const Atomic<std::uint32_t>* const address = &word_;
  word_.exchange(kReady, std::memory_order_release);
  // From here *this may be gone: its owner has seen kReady and returned. Only the address is used.
  futex_wake(address);
}

}  // namespace leat
