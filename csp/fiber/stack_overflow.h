// Reports which fiber's stack has overflowed, before the program ends.
#pragma once

#include <cstddef>
#include <memory>

namespace leat {

/// Installs a handler, once per process: a SIGSEGV in the guard below a fiber's stack prints the
/// fiber's name and the size of its stack. After that the signal is handled as before.
void prepare_stack_overflow_report() noexcept;

/// While one lives, the calling thread handles signals on a separate stack, because a fiber's stack
/// may have overflowed. No effect if the thread already has a signal stack.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace leat
