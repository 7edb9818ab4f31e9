// Calls that block a thread (reading a file, a call into a driver), kept away from the workers.
//
// Example
//   const std::string header = leat::blocking([&] { return read_header(file); });
//
// A fiber that calls read(2) itself occupies its worker, and delays the fibers queued there.
// blocking() runs the call on a thread of a separate pool while the fiber waits. That costs two
// thread switches, some 10 us.
//
// Thread and fiber safety: any fiber or plain thread may call it.
//
// Errors: blocking() rethrows what the call throws. It throws Cancelled if the fiber is cancelled
// before the call has started, and leat::Error if no thread can be started.
#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "leat/csp/base/kept_exception.h"
#include "leat/csp/scheduler.h"

namespace leat {

/// Runs `call` on a thread that may block, while the calling fiber waits. Returns what `call`
/// returns, and throws what `call` throws. At most SchedulerOptions::io_threads calls of a
/// scheduler run at a time; the others wait for their turn, first come, first served.
///
/// Until `call` has started, a cancellation ends the wait: blocking() throws Cancelled, and `call`
/// never runs. From then on the fiber waits for the end of `call`, which may therefore use
/// variables on the fiber's stack. `call` runs on a plain thread: its own waits block that thread.
/// While it runs, no deadlock is reported.
///
/// On a plain thread, and under a VirtualClock, `call` runs on the caller itself. On a fiber,
/// `call` is then shielded from cancellation, and must not call run().
///
/// Throws Cancelled; leat::Error if no thread can be started.
template <class F>
std::invoke_result_t<F&> blocking(F&& call);

class IoPool;

/// Returns the pool of the calling fiber's scheduler; null if a call runs on the caller itself.
/// Throws Cancelled if the call must not begin.
[[nodiscard]] IoPool* io_pool_of_caller();
/// Runs `call(argument)` on a thread of the pool, and waits for its end. No deadlock is reported
/// meanwhile. `call` must not throw. Throws as blocking().
void run_blocking(IoPool& pool, void (*call)(void* argument), void* argument);

template <class F>
std::invoke_result_t<F&> blocking(F&& call) {
  using Result = std::invoke_result_t<F&>;
  IoPool* const pool = io_pool_of_caller();
  if (pool == nullptr) {
    const Shield once_it_has_begun;
    return call();
  }

  using Kept = std::conditional_t<
      std::is_void_v<Result>, std::monostate,
      std::conditional_t<std::is_reference_v<Result>, std::add_pointer_t<Result>, Result>>;
  struct Call {
    std::remove_reference_t<F>& f;
    std::optional<Kept> result = {};
    std::exception_ptr error = {};
  };
  Call one{call};
  const auto run = [](void* argument) {
    auto& [f, result, error] = *static_cast<Call*>(argument);
    try {
      if constexpr (std::is_void_v<Result>) {
        f();
      } else if constexpr (std::is_reference_v<Result>) {
        result.emplace(&f());
      } else {
        result.emplace(f());
      }
    } catch (...) {
      error = kept_exception();
    }
  };
  run_blocking(*pool, run, &one);
  if (one.error != nullptr) std::rethrow_exception(std::exchange(one.error, nullptr));
  if constexpr (std::is_reference_v<Result>) {
    return static_cast<Result>(**one.result);
  } else if constexpr (!std::is_void_v<Result>) {
    return std::move(*one.result);
  }
}

}  // namespace leat
