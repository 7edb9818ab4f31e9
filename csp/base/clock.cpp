#include "leat/csp/clock.h"

#include <cstddef>
#include <new>
#include <stdexcept>

#include "leat/csp/base/assert.h"

namespace leat {

TimePoint SteadyClock::now() const noexcept {
#if defined(LEAT_EXPLORE)
  return TimePoint(Duration(hooks::now()));
#else
  return TimePoint(std::chrono::steady_clock::now().time_since_epoch());
#endif
}

SteadyClock& SteadyClock::instance() noexcept {
  // Never destroyed: a scheduler may still be ending while the process exits.
  alignas(SteadyClock) static std::byte storage[sizeof(SteadyClock)];
  static SteadyClock* const clock = ::new (storage) SteadyClock;
  return *clock;
}

void VirtualClock::attach() {
  if (attached_.exchange(true, std::memory_order_acq_rel)) {
    throw std::logic_error(
        "leat: a VirtualClock serves one scheduler at a time, and this one is in use");
  }
}

void VirtualClock::detach() noexcept { attached_.store(false, std::memory_order_release); }

void VirtualClock::advance_to(TimePoint at) noexcept {
  LEAT_ASSERT(at >= now(), "virtual time does not run backwards");
  now_.store(at.time_since_epoch().count(), std::memory_order_release);
}

}  // namespace leat
