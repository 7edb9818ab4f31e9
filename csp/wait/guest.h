// Fibers of another runtime, as guests: they wait for Leat's channels as its own fibers do, instead
// of blocking the thread that runs them.
//
// A header for such a runtime (csp/boost_fiber.h) brings a Waiter, and tells each thread that the
// runtime uses how to wait with it. The core names no runtime.
#pragma once

#include "leat/csp/wait/waiter.h"

namespace leat {

/// How a guest waits for one operation: makes a Waiter, calls operation(argument, waiter) once, and
/// lets through what that throws. The waiter lives on the stack of the call.
using GuestWait = void (*)(void (*operation)(void* argument, Waiter& waiter), void* argument);

/// How the calling thread waits where it runs no fiber of Leat's; null, the default, is by
/// blocking. Not inlined, as Fiber::current(): guests move between threads too.
[[nodiscard]] GuestWait guest_wait() noexcept;

/// Sets it, for waits that begin from now on; returns what it was. Throws std::logic_error, and
/// changes nothing, on a fiber of Leat's, whose thread runs no guests.
GuestWait set_guest_wait(GuestWait wait);

/// Sets it back, on the same thread.
void reset_guest_wait(GuestWait previous) noexcept;

}  // namespace leat
