// Signal handlers that stand in front of the action that was there before.
#pragma once

#include <csignal>

namespace leat {

/// A handler with three arguments, as for SA_SIGINFO.
using SignalHandler = void (*)(int signal, siginfo_t* info, void* context);

/// Installs `handler` for `signal`, to run on the thread's signal stack if there is one. Stores the
/// action before it in `previous`, before `handler` can run. Returns false, with errno set, if the
/// system refuses. Thread-safe.
///
/// From then on, the module that contains `handler` is never unloaded: after a dlclose() the
/// process would still call it, and so would handlers that were installed later.
bool install_in_front(int signal, SignalHandler handler, struct sigaction& previous) noexcept;

/// Returns whether the signal was sent, by kill() or the like. Then no instruction runs again when
/// the handler returns. Async-signal-safe.
[[nodiscard]] inline bool was_sent(const siginfo_t& info) noexcept { return info.si_code <= 0; }

/// Called by a handler: handles the signal as if the handler were not there. The handler must
/// return after that. Async-signal-safe, as far as the previous handler is.
void pass_on(const struct sigaction& previous, int signal, siginfo_t* info, void* context) noexcept;

}  // namespace leat
