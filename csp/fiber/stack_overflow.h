// Reports which fiber's stack has overflowed, before the program ends.
#pragma once

#include <cstddef>
#include <memory>

namespace leat {

class Worker;

/// Installs a handler, once per process: a SIGSEGV in the guard below a fiber's stack prints the
/// fiber's name and the size of its stack. Then, and for any other SIGSEGV, the previous action
/// follows. The module that contains Leat is never unloaded from then on.
void prepare_stack_overflow_report() noexcept;

/// While one lives, a stack overflow on the calling thread, which is `worker`'s, is reported, and
/// the thread handles signals on a separate stack. It keeps the signal stack that it has, if any.
class SignalStack {
 public:
  [[nodiscard]] explicit SignalStack(const Worker& worker);
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace leat
