// An execution context: a stack and where to continue on it.
//
// Only context_jump.h and context.cpp name Boost.Context. Always true:
//  - a Context is current on at most one thread; switch_to() is called on the current one;
//  - the code after a switch may run on another thread than the code before it: state of the
//    thread (errno, thread-locals) does not survive a switch.
#pragma once

#include <cstddef>

#include "leat/csp/base/sanitizers.h"

namespace leat {

/// Memory for a stack: [low, low + size); grows downwards from the end.
struct StackSpan {
  std::byte* low = nullptr;
  std::size_t size = 0;
};

class Context {
 public:
  using Entry = void (*)(void* argument);

  /// The C++ runtime's record of exceptions in flight. The runtime keeps it per thread, but it must
  /// follow the fiber: otherwise parking inside a catch block corrupts it. Has the layout of
  /// __cxa_eh_globals (Itanium ABI).
  struct ExceptionState {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  /// Returns the record of the calling thread.
  [[nodiscard]] static ExceptionState* exceptions_of_thread() noexcept;

  /// A context without a stack.
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  /// Makes this the context of the calling thread's own stack, which a worker leaves for a fiber
  /// and returns to. May be called on any stack other than the one given to prepare().
  void adopt_current_thread() noexcept;
  /// Makes this a new context that calls entry(argument) on `stack` when it is first switched to.
  /// `entry` must not return: it ends with exit_to().
  void prepare(StackSpan stack, Entry entry, void* argument) noexcept;
  /// Ends the context. There must be no switch to it until it is prepared again.
  void discard() noexcept;
  /// Makes this the current context, on the stack of `ended`, which ends.
  void take_over_from(Context& ended) noexcept;

  [[nodiscard]] const StackSpan& stack() const noexcept { return stack_; }
  /// Returns whether an exception unwinds it: it is in a destructor. While it is not current.
  [[nodiscard]] bool unwinds() const noexcept { return exceptions_.uncaught > 0; }

  /// Saves the current execution in *this and continues `to`. Returns after a switch back to *this.
  /// `thread` is exceptions_of_thread(), which takes too long to be called at every switch.
  void switch_to(Context& to, ExceptionState* thread) noexcept { jump(to, thread, false); }
  /// As switch_to(), for the last time: there must be no switch back.
  [[noreturn]] void exit_to(Context& to, ExceptionState* thread) noexcept;

 private:
  void jump(Context& to, ExceptionState* thread, bool last) noexcept;
  void arrive(void* transfer_data, void* from_registers) noexcept;
  struct Boost;  // the functions whose signatures need Boost's types

  void* registers_ = nullptr;  // Boost's fcontext_t, valid while this context is not current
  ExceptionState exceptions_;
  StackSpan stack_;  // a worker's own stack: learned at the first switch away, for ASan
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
#if defined(LEAT_ASAN)
  void* asan_fake_stack_ = nullptr;
#endif
#if defined(LEAT_TSAN)
  void* tsan_fiber_ = nullptr;
  bool owns_tsan_fiber_ = false;
#endif
};

}  // namespace leat
