// Calls that block a thread (reading a file, a driver's call), kept away from the workers.
//
// Example
//   const std::string header = leat::blocking([&] { return read_header(file); });
//
// A fiber that calls read(2) keeps its worker, and the fibers behind it, for as long as that takes.
// blocking() runs the call on a thread of a separate pool while the fiber waits.
#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "leat/csp/scheduler.h"

namespace leat {

/// Runs `call` on a thread that may block; returns what it returns, throws what it throws. The
/// calling fiber waits; at most SchedulerOptions::io_threads calls of its scheduler run at a time,
/// others wait for their turn, first come, first served.
///
/// Until `call` has started, a cancellation ends the wait: it throws Cancelled and `call` never
/// runs. After that the fiber waits for its end, and `call` may use what is on its stack. While one
/// is pending no deadlock is reported. `call` is on no fiber: its own waits block its thread. Costs
/// two thread switches, some 10 us.
///
/// On a plain thread, and under a VirtualClock, `call` simply runs where it is: there on the
/// calling fiber, which must not call run(), and whose waits in it are shielded likewise.
///
/// Throws leat::Error if no thread can be started.
template <class F>
std::invoke_result_t<F&> blocking(F&& call);

class IoPool;

/// The pool of the calling fiber's scheduler; null where a call runs where it is. Throws Cancelled
/// where it must not begin.
[[nodiscard]] IoPool* io_pool_of_caller();
/// Runs `call(argument)` on a thread of the pool, and waits for its end. No deadlock is reported
/// meanwhile. `call` must not throw.
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
      error = std::current_exception();
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
