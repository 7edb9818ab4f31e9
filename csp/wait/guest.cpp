#include "leat/csp/wait/guest.h"

#include <stdexcept>
#include <utility>

#include "leat/csp/wait/identity.h"

namespace leat {
namespace {

thread_local constinit GuestWait t_guest_wait = nullptr;

}  // namespace

GuestWait guest_wait() noexcept { return t_guest_wait; }

GuestWait set_guest_wait(GuestWait wait) {
  if (calling_fiber() != nullptr) {
    throw std::logic_error(
        "leat: guests on a worker: its thread runs Leat's own fibers, and a guest would block "
        "them; run the guests on a thread of their own");
  }
  return std::exchange(t_guest_wait, wait);
}

void reset_guest_wait(GuestWait previous) noexcept { t_guest_wait = previous; }

}  // namespace leat
