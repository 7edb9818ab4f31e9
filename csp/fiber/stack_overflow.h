// A fiber whose stack overflows ends the program; this tells which one it was.
#pragma once

#include <cstddef>
#include <memory>

namespace leat {

/// Once per process: a SIGSEGV in a fiber's guard prints the fiber's name and the size of its
/// stack, and is then handled as it would have been otherwise.
void prepare_stack_overflow_report() noexcept;

/// While one lives, the calling thread handles signals on a stack of its own, as it must where the
/// ordinary one has overflown. No effect if the thread has such a stack already.
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
