// The one way in which Leat starts threads.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "leat/csp/error.h"

namespace leat {

/// Returns a thread that runs `body`: a std::thread, std::jthread or, in csp, an OsThread. Throws
/// leat::Error if the system has no thread, std::bad_alloc if there is no memory: `body` is then
/// destroyed, and nothing was started. So the caller changes nothing before, or undoes the change.
/// `what` names the thread in the error: "worker 2 of 3". Thread-safe.
template <class Thread = std::thread, class F>
[[nodiscard]] Thread start_thread(const std::string& what, F&& body) {
  try {
    return Thread(std::forward<F>(body));
  } catch (const std::system_error& error) {
    throw Error("leat: cannot start " + what + ": " + error.code().message() +
                "; raise the limit on threads (ulimit -u; in a container, its limit on pids) or "
                "memory, or end what has many");
  }
}

}  // namespace leat
