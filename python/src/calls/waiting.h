// Waiting for something that C++ does, while other threads of Python run and signals are handled.
//
// Example: inside a function that Python calls
//   const InCall inside;
//   const bool is_there = wait_in_slices(deadline, [&](TimePoint until) {
//     return lease.await_until(until);                    // without the GIL
//   });                                                   // Ctrl-C: throws nb::python_error
//
// The interpreter's exit. From Py_Finalize on, a thread that asks for the GIL is ended where it
// stands; inside C++ that aborts the process. So no thread may be inside then: stop_all()
// (feeding.h), which runs before, waits until every InCall has ended, and no other begins. The
// other threads are daemons then, and would print a traceback. So their exceptions become
// SystemExit (errors.cpp), which ends a thread without a word.
//
// All of this is for threads that hold the GIL, which guards what is static here.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "leat/csp/clock.h"

namespace leat::python {

/// The longest time for which a wait sees no signal.
constexpr Duration kSlice = std::chrono::milliseconds(15);

/// A call that may release the GIL, or run Python code. Each function that Python calls and that
/// does so has one.
class InCall {
 public:
  /// Throws leat::Error if the interpreter exits.
  InCall();
  /// For destructors: never throws.
  enum ToTheEnd { to_the_end };  // NOLINT(readability-identifier-naming): a tag
  explicit InCall(ToTheEnd) noexcept;
  ~InCall();
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;
  /// Whether this thread is in a call. If so, a signal handler asks.
  [[nodiscard]] static bool is_in_one() noexcept;
};

/// A call that runs without the GIL, also as nanobind::call_guard. Throws as InCall.
class WithoutGil {
 public:
  WithoutGil() = default;
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  const InCall inside_;
  const nanobind::gil_scoped_release others_run_;
};

/// Sets a mark for as long as it lives: a call is under way, which others may find.
class Mark {
 public:
  explicit Mark(bool& mark) noexcept : mark_(mark) { mark_ = true; }
  ~Mark() { mark_ = false; }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  bool& mark_;
};

/// Whether stop_all() has begun: destructors then neither wait nor use a device.
[[nodiscard]] bool is_exiting() noexcept;
/// Whether stop_all() has begun on another thread.
[[nodiscard]] bool is_exiting_elsewhere() noexcept;
/// For stop_all(): from here on, no InCall begins.
void begin_exit() noexcept;
/// For stop_all(): waits until every InCall of other threads has ended, at most for `most`.
void await_calls(Duration most);

/// Handles the signals that have come: throws nanobind::python_error if a handler raised, such as
/// KeyboardInterrupt. Only Python's main thread handles signals.
void check_signals();

/// Calls `poll(until)` without the GIL, with `until` at most kSlice ahead, until it returns true
/// or `deadline` has passed; returns what it returned last. Without a deadline, waits for ever.
/// Throws what `poll` throws, and nanobind::python_error as check_signals() does. The caller has an
/// InCall.
template <class Poll>
bool wait_in_slices(const std::optional<TimePoint>& deadline, Poll&& poll) {
  for (;;) {
    const TimePoint start = RuntimeClock::now();
    const TimePoint until =
        deadline.has_value() ? std::min(*deadline, start + kSlice) : start + kSlice;
    {
      const nanobind::gil_scoped_release others_run;
      if (poll(until)) return true;
    }
    check_signals();
    if (deadline.has_value() && RuntimeClock::now() >= *deadline) return false;
  }
}

}  // namespace leat::python
