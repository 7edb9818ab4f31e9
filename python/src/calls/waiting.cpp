#include "leat/python/calls/waiting.h"

#include <cstddef>
#include <thread>

#include "leat/csp/base/home_process.h"
#include "leat/csp/error.h"

namespace leat::python {
namespace nb = nanobind;

namespace {

// All under the GIL, but `here`.
bool exiting = false;
std::thread::id exiting_thread;     // if `exiting`
HomeProcess home;                   // whose calls these are
std::size_t calls = 0;              // that exist, of all threads
thread_local std::size_t here = 0;  // calls of this thread

// In a child, the other threads are not there.
std::size_t& all_calls() noexcept {
  if (!home.is_here()) {
    home = HomeProcess();
    calls = here;
  }
  return calls;
}

void begin() noexcept {
  ++all_calls();
  ++here;
}

}  // namespace

InCall::InCall() {
  if (exiting) throw Error("leat: the interpreter exits: all feeds have ended");
  begin();
}

InCall::InCall(ToTheEnd) noexcept { begin(); }

InCall::~InCall() {
  --all_calls();
  --here;
}

bool InCall::is_in_one() noexcept { return here > 0; }

bool is_exiting() noexcept { return exiting; }

bool is_exiting_elsewhere() noexcept {
  return exiting && exiting_thread != std::this_thread::get_id();
}

void begin_exit() noexcept {
  exiting = true;
  exiting_thread = std::this_thread::get_id();
}

void await_calls(Duration most) {
  const TimePoint deadline = RuntimeClock::now() + most;
  while (all_calls() > here && RuntimeClock::now() < deadline) {
    {
      const nb::gil_scoped_release others_run;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    check_signals();
  }
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace leat::python
