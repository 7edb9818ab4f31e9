// For a catch (...) that keeps an exception for another thread or fiber.
#pragma once

#include <exception>

namespace leat {

/// Returns the exception that is being handled; called in a catch (...). If there is none, because
/// pthread_exit() or pthread_cancel() unwinds the thread, rethrows that unwinding: the C library
/// ends a program that swallows it.
[[nodiscard]] inline std::exception_ptr kept_exception() {
  std::exception_ptr kept = std::current_exception();
  if (kept == nullptr) throw;
  return kept;
}

}  // namespace leat
