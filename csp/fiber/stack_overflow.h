// Reports which fiber's stack has overflowed, before the program ends.
#pragma once

#include <cstddef>
#include <vector>

#include "leat/csp/base/relaxed_atomic.h"

namespace leat {

class Fiber;

/// Installs a handler, once per process: a SIGSEGV in the guard below a fiber's stack prints the
/// fiber's name and the size of its stack. Then, and for any other SIGSEGV, the previous action
/// follows. The module that contains Leat is never unloaded from then on.
void prepare_stack_overflow_report() noexcept;

/// A worker's stack for signals. The maker of the worker allocates it, not the worker's thread,
/// which may start late: when a program has warmed up, nothing of csp allocates.
class SignalStack {
 public:
  SignalStack();

  /// While one lives, a stack overflow of the fiber that is `running` on the calling thread is
  /// reported, and the thread handles signals on `stack`. It keeps the signal stack that it has, if
  /// any.
  class Use {
   public:
    [[nodiscard]] Use(SignalStack& stack, const RelaxedAtomic<Fiber*>& running);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    bool is_set_ = false;
  };

 private:
  std::vector<std::byte> memory_;
};

}  // namespace leat
