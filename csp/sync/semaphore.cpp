#include "leat/csp/semaphore.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "leat/csp/error.h"
#include "leat/csp/wait/park.h"

namespace leat {
namespace {

struct Request : WaitNode {
  // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject): as WaitNode
  explicit Request(std::int64_t wanted) noexcept : units(wanted) {}
  const std::int64_t units;
};

std::int64_t checked(std::int64_t units, const char* what) {
  if (units >= 0) return units;
  throw std::invalid_argument("leat: Semaphore: " + std::string(what) + " of " +
                              std::to_string(units) + " units; it must be at least 0");
}

}  // namespace

Semaphore::Semaphore(std::int64_t units) : available_(checked(units, "construction")) {}

void Semaphore::acquire(std::int64_t units) {
  static_cast<void>(acquire(units, Deadline::never()));
}

bool Semaphore::try_acquire(std::int64_t units) { return acquire(units, Deadline::now()); }

bool Semaphore::acquire_until(std::int64_t units, TimePoint deadline) {
  return acquire(units, Deadline(deadline));
}

bool Semaphore::acquire(std::int64_t units, Deadline deadline) LEAT_NO_THREAD_SAFETY_ANALYSIS {
  checked(units, "acquire");
  count_operation(deadline);
  lock_.lock();
  callers_.add(calling_scheduler());
  if (waiters_.empty() && units <= available_) {
    available_ -= units;
    lock_.unlock();
    return true;
  }
  if (deadline.is_now()) {
    lock_.unlock();
    return false;
  }
  Request request(units);
  const int outcome =
      wait_in(waiters_, request, lock_, ParkReason::kSemaphore, {.callers = &callers_}, deadline);
  if (outcome >= 0) {  // granted: grant() has taken the units
    lock_.unlock();
    return true;
  }
  // This request may have been all that the requests behind it waited for.
  WakeList wake;
  grant(wake);
  lock_.unlock();
  wake.wake();
  if (outcome == Waiter::kCancelled) throw Cancelled{};
  return false;
}

void Semaphore::release(std::int64_t units) {
  checked(units, "release");
  WakeList wake;
  const SpinLockGuard guard(lock_);
  callers_.add(calling_scheduler());
  if (units > std::numeric_limits<std::int64_t>::max() - available_) {
    throw std::overflow_error("leat: Semaphore: release of " + std::to_string(units) +
                              " units beside " + std::to_string(available_) +
                              ": more than can be counted");
  }
  available_ += units;
  grant(wake);
}

std::int64_t Semaphore::available() const noexcept {
  const SpinLockGuard guard(lock_);
  return available_;
}

void Semaphore::grant(WakeList& wake) noexcept {
  while (WaitNode* const node = waiters_.oldest()) {
    const std::int64_t units = static_cast<const Request*>(node)->units;
    const bool undecided = node->waiter->undecided();
    if (undecided && units > available_) return;
    waiters_.remove(*node);
    if (!node->waiter->claim(node->outcome)) continue;  // timed out or cancelled
    available_ -= units;
    wake.add(*node);
  }
}

}  // namespace leat
