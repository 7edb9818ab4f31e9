// Guests: fibers of another runtime that use Leat's channels. While a guest waits, its thread runs
// other guests.
//
// A header for such a runtime (csp/boost_fiber.h) implements a Waiter, and calls set_guest_wait()
// on each thread that runs guests. The core names no runtime.
#pragma once

#include "leat/csp/wait/waiter.h"

namespace leat {

/// A function through which a guest waits for one operation. It makes a Waiter on its stack and
/// calls operation(argument, waiter) once. Exceptions of the operation pass through.
using GuestWait = void (*)(void (*operation)(void* argument, Waiter& waiter), void* argument);

/// Returns the calling thread's function for waits outside Leat's own fibers. Null, the default,
/// means that the thread blocks. Not inlined, as Fiber::current(): guests move between threads too.
[[nodiscard]] GuestWait guest_wait() noexcept;

/// Sets the calling thread's function, for waits that begin from now on. Returns the previous one.
/// Throws std::logic_error, and changes nothing, on a fiber of Leat: its thread runs no guests.
GuestWait set_guest_wait(GuestWait wait);

/// Restores the function that set_guest_wait() returned. On the same thread.
void reset_guest_wait(GuestWait previous) noexcept;

}  // namespace leat
