// What a catch (...) that keeps an exception for another thread or fiber needs.
#pragma once

#include <exception>

namespace leat {

/// Called in a catch (...): the exception. If there is none, because pthread_exit() or
/// pthread_cancel() unwinds the thread, lets that go on: it throws. The C library ends a program
/// that swallows it.
[[nodiscard]] inline std::exception_ptr kept_exception() {
  std::exception_ptr kept = std::current_exception();
  if (kept == nullptr) throw;
  return kept;
}

}  // namespace leat
