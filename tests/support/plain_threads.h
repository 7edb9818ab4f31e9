// Work on plain OS threads and on fibers, whichever of them the test itself runs on.
#pragma once

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"

namespace leat::support {

/// Calls f(0), ..., f(count - 1), each on a plain thread of its own; then calls `meanwhile()`; then
/// waits for the threads, and rethrows the first exception that left one. A calling fiber is
/// suspended, so that its worker runs the other fibers.
template <class F, class G>
void on_plain_threads(int count, const F& f, G&& meanwhile) {
  const OutsideWork threads_will_wake_us;
  const Shield until_they_have_ended;
  const Channel<std::exception_ptr> ended(count, "ended threads");
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([i, &f, &ended] {
      std::exception_ptr error;
      try {
        f(i);
      } catch (...) {
        error = std::current_exception();
      }
      ended.send(std::move(error));
    });
  }
  std::forward<G>(meanwhile)();
  std::exception_ptr first;
  for (int i = 0; i < count; ++i) {
    const std::exception_ptr error = ended.recv().value();
    if (first == nullptr) first = error;
  }
  if (first != nullptr) std::rethrow_exception(first);
}

template <class F>
void on_plain_threads(int count, const F& f) {
  on_plain_threads(count, f, [] {});
}

/// Calls f() on a fiber: on the calling one, or on the first one of a run with these options.
template <class F>
void on_a_fiber(F&& f, const SchedulerOptions& options = {}) {
  if (on_fiber()) {
    f();
  } else {
    run(f, options);
  }
}

}  // namespace leat::support
